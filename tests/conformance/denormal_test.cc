// SPDX-License-Identifier: Apache-2.0
// Tolerances of denormal numbers: only a backend that says that it flushes them may. Those of f16 are none in f32, so
// nobody may.
#include <doctest/doctest.h>

#include <cstdio>
#include <string>

#include "tests/support/around_backend.h"
#include "tests/support/backends.h"
#include "tests/support/compare.h"
#include "tests/support/each_backend.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/run.h"
#include "unroll/train/compare.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

// Another backend that says of itself whether it flushes.
class Says final : public AroundBackend {
 public:
  Says(Backend& inner, bool flushes) : AroundBackend(inner) { capabilities_.flushes_denormals = flushes; }
};

constexpr float k_least = 0x1p-126F;
Tensor filled_with(double value) { return Tensor::filled({DType::f32, {4}}, value); }

}  // namespace

TEST_CASE("a result may be flushed where the backend flushes, and only below the smallest normal number") {
  const Tensor zero = filled_with(0), denormal = filled_with(k_least / 4), normal = filled_with(2 * k_least);
  for (const Rule rule : {Rule::pointwise, Rule::contraction}) {
    CHECK(compare(zero, denormal, nullptr, {rule}, false, /*flushes=*/true).ratio <= 1);
    CHECK(compare(zero, denormal, nullptr, {rule}, false, /*flushes=*/false).ratio > 1);
    CHECK(compare(zero, normal, nullptr, {rule}, false, /*flushes=*/true).ratio > 1);
  }
}

TEST_CASE("a node that makes denormal numbers zero is at fault unless its backend says that it flushes") {
  Graph graph;
  const Value first = graph.input("h", {DType::f32, {4, 8}}), xs = graph.input("x", {DType::f32, {3, 4, 8}});
  graph.output("last", scan(std::vector<Value>{first}, std::vector<Value>{xs}, {}, [](const StepValues& v) {
                         return StepResult{{v.states[0] * 0.5 + v.sequences[0]}, {}};
                       }).states[0]);
  const TensorMap inputs = {{"h", Tensor::filled(first.type(), k_least)}, {"x", Tensor(xs.type())}};
  const auto verifier = make_backend("reference");
  for (const std::string& name : computing_backends()) {
    CAPTURE(name);
    const auto backend = make_backend(name, {.threads = 1});
    const bool flushed = evaluate(graph, *backend, inputs).at("last").at(0) == 0;
    CHECK((backend->describe().flushes_denormals || !flushed));
    CHECK_FALSE(check_nodes(graph, inputs, *backend, *verifier).fault);
    Says silent(*backend, false), loud(*backend, true);
    CHECK(check_nodes(graph, inputs, silent, *verifier).fault.has_value() == flushed);
    CHECK_FALSE(check_nodes(graph, inputs, loud, *verifier).fault);
  }
}

TEST_CASE("a loop keeps denormal numbers of f16, and those of bf16 unless its backend says that it flushes") {
  constexpr double k_first_f16 = 0x1p-20, k_first_bf16 = 0x1p-126;
  for (const DType half : {DType::f16, DType::bf16}) {
    Graph graph;
    const Value first = graph.input("h", {half, {4, 8}});
    const Value last = scan(std::vector<Value>{first}, {}, {}, [half](const StepValues& v) {
                         return StepResult{{cast(cast(v.states[0], DType::f32) * 0.5, half)}, {}};
                       }, {.lengths = {}, .reset = {}, .steps = 3}).states[0];
    graph.output("last", cast(last, DType::f32));
    const double number = half == DType::f16 ? k_first_f16 : k_first_bf16;
    for (const std::string& name : computing_backends()) {
      CAPTURE(name);
      CAPTURE(dtype_name(half));
      const auto backend = make_backend(name, {.threads = 1});
      if (must_refuse(*backend, graph)) {
        std::printf("unsupported: %s on %s\n", std::string(dtype_name(half)).c_str(), name.c_str());
        continue;
      }
      const double got = evaluate(graph, *backend, {{"h", Tensor::filled(first.type(), number)}}).at("last").at(0);
      const bool may_flush = half == DType::bf16 && backend->describe().flushes_denormals;
      CHECK((got == number / 8 || (may_flush && got == 0)));
    }
  }
}

TEST_CASE("a result stored in 16 bits may be the neighbor of the right one, and no other") {
  for (const DType half : {DType::f16, DType::bf16}) {
    const double step = half == DType::f16 ? 0x1p-10 : 0x1p-7;
    const auto number = [&](double x) { return Tensor::filled({half, {4}}, x); };
    for (const Rule rule : {Rule::pointwise, Rule::contraction}) {
      CHECK(compare(number(1 + step), number(1), nullptr, {rule}).ratio <= 1);
      CHECK(compare(number(1 + 2 * step), number(1), nullptr, {rule}).ratio > 1);
    }
    CHECK(compare(number(1 + step), number(1), nullptr, {Rule::exact}).ratio > 1);
  }
}
