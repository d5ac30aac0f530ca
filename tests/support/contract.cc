// SPDX-License-Identifier: Apache-2.0
#include "tests/support/contract.h"

#include <array>
#include <map>

#include "unroll/ir/ops.h"
#include "unroll/passes/run.h"

namespace unroll::testing {

namespace {

using Numbers = std::array<float, 4>;

// y = x * factor + 1 on buffers of four numbers.
class Line {
 public:
  Line(Backend& backend, double factor) : program_(*graph(factor), backend) {}
  void run(Buffer& x, Buffer& y) { program_.run({{&x}, {&y}}); }

 private:
  static std::shared_ptr<const Graph> graph(double factor) {
    const auto g = std::make_shared<Graph>();
    g->output("y", g->input("x", {DType::f32, {4}}) * factor + 1.0);
    return g;
  }
  Program program_;
};

// They stay where they are: a backend that breaks the guarantee reads them later.
const Numbers& lasting(float value) {
  static std::map<float, Numbers> all;
  return all[value] = {value, value, value, value};
}
std::unique_ptr<Buffer> filled(Backend& backend, float value) {
  auto buffer = backend.allocate(sizeof(Numbers));
  backend.upload(*buffer, 0, std::as_bytes(std::span(lasting(value))));
  return buffer;
}
Numbers read(Backend& backend, const Buffer& buffer) {
  Numbers numbers{};
  backend.download(buffer, 0, std::as_writable_bytes(std::span(numbers)));
  return numbers;
}
bool is(const Numbers& numbers, float value) { return numbers == Numbers{value, value, value, value}; }

bool upload_copies(Backend& backend) {
  const auto buffer = backend.allocate(sizeof(Numbers));
  Numbers numbers{3, 3, 3, 3};
  backend.upload(*buffer, 0, std::as_bytes(std::span(numbers)));
  numbers = {9, 9, 9, 9};
  return is(read(backend, *buffer), 3);
}

bool upload_follows_runs(Backend& backend) {
  Line line(backend, 1);
  const auto x = filled(backend, 1), y = filled(backend, 0);
  line.run(*x, *y);
  const Numbers later{5, 5, 5, 5};
  backend.upload(*x, 0, std::as_bytes(std::span(later)));
  return is(read(backend, *y), 2) && is(read(backend, *x), 5);
}

bool download_follows_runs(Backend& backend) {
  Line line(backend, 2);
  const auto x = filled(backend, 1), y = filled(backend, 0);
  backend.wait();
  line.run(*x, *y);
  return is(read(backend, *y), 3);
}

bool wait_completes(Backend& backend) {
  Line line(backend, 2);
  const auto x = filled(backend, 1), y = filled(backend, 0);
  for (int n = 0; n < 9; ++n) line.run(*x, *y), line.run(*y, *x);  // x = 4 x + 3
  backend.wait();
  float wanted = 1;
  for (int n = 0; n < 9; ++n) wanted = 4 * wanted + 3;
  return is(read(backend, *x), wanted);
}

bool runs_keep_order(Backend& backend) {
  Line twice(backend, 2), thrice(backend, 3);
  const auto a = filled(backend, 1), b = filled(backend, 10), c = filled(backend, 0);
  backend.wait();
  twice.run(*a, *b);   // 3
  thrice.run(*b, *c);  // 10
  return is(read(backend, *c), 10);
}

bool upload_of_a_part(Backend& backend) {
  Line line(backend, 1);
  const auto x = filled(backend, 1), y = filled(backend, 0);
  const float one = 7;
  backend.upload(*x, sizeof(float), std::as_bytes(std::span(&one, 1)));
  line.run(*x, *y);
  float got = 0;
  backend.download(*y, sizeof(float), std::as_writable_bytes(std::span(&got, 1)));
  return got == 8 && read(backend, *y) == Numbers{2, 8, 2, 2};
}

bool destroyed_while_in_use(Backend& backend) {
  const auto y = filled(backend, 0);
  {
    Line line(backend, 2);
    const auto x = filled(backend, 4);
    line.run(*x, *y);
  }
  return is(read(backend, *y), 9);
}

}  // namespace

const std::vector<Guarantee>& guarantees() {
  static const std::vector<Guarantee> list = {
      {"upload copies its argument", upload_copies},
      {"an upload comes after earlier runs", upload_follows_runs},
      {"a download comes after earlier runs", download_follows_runs},
      {"after wait all work is complete", wait_completes},
      {"runs keep their order", runs_keep_order},
      {"a part of a buffer is uploaded and downloaded in order", upload_of_a_part},
      {"buffers and executables may be destroyed while submitted work uses them", destroyed_while_in_use},
  };
  return list;
}

}  // namespace unroll::testing
