// SPDX-License-Identifier: Apache-2.0
// A minimal consumer: build a graph, differentiate it, run it, catch an error.
#include <unroll/unroll.h>

#include <cmath>
#include <cstdio>

int main() {
  using namespace unroll;
  Graph graph;
  const Value x = graph.input("x", {DType::f32, {3}});
  const Value loss = sum(square(x));
  graph.output("loss", loss);
  graph.output("gradient", differentiate(loss, std::vector{x})[0]);
  const auto backend = make_backend("reference");
  const TensorMap out = evaluate(graph, *backend, {{"x", Tensor::from<float>({3}, {1, 2, 3})}});
  const bool right = std::abs(out.at("loss").at(0) - 14) < 1e-6 && std::abs(out.at("gradient").at(2) - 6) < 1e-6;
  bool caught = false;
  try {
    make_backend("abacus");
  } catch (const Error& e) {
    caught = e.kind() == ErrorKind::device && exit_code(e.kind()) == 5;
  }
  std::printf("loss %g, gradient %g, error %s\n", out.at("loss").at(0), out.at("gradient").at(2),
              caught ? "caught" : "lost");
  return right && caught ? 0 : 1;
}
