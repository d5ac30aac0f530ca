// SPDX-License-Identifier: Apache-2.0
// What the checked wrapper around an executable refuses, and donated buffers.
#include <doctest/doctest.h>

#include "core/passes/forwarding_backend.h"
#include "tests/support/backends.h"
#include "tests/support/compare.h"
#include "tests/support/null_backend.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

namespace program_test {

using namespace unroll;
using namespace unroll::testing;

namespace {

// y = p - g, next = p * 2
std::shared_ptr<Graph> two_outputs() {
  auto g = std::make_shared<Graph>();
  const Value p = g->input("p", {DType::f32, {3}}), d = g->input("g", {DType::f32, {3}});
  g->output("y", p - d);
  g->output("next", p * 2.0);
  return g;
}
TensorMap numbers() {
  return {{"p", Tensor::from<float>({3}, {1, 2, 3})}, {"g", Tensor::from<float>({3}, {5, 5, 5})}};
}

template <class F>
void check_refused(ErrorKind kind, const std::string& text, F f) {
  try {
    f();
    FAIL("must throw: ", text);
  } catch (const Error& e) {
    CHECK(e.kind() == kind);
    CHECK_MESSAGE(std::string(e.what()).find(text) != std::string::npos, e.what());
  }
}

}  // namespace

TEST_CASE("inputs that are missing, unknown or of another type are refused by name") {
  const auto reference = make_backend("reference");
  Program program(*two_outputs(), *reference);
  TensorMap inputs = numbers();
  inputs.erase("g");
  check_refused(ErrorKind::usage, "input 'g' is missing", [&] { program.run(inputs); });
  inputs = numbers();
  inputs.insert_or_assign("h", Tensor());
  check_refused(ErrorKind::usage, "there is no input 'h'", [&] { program.run(inputs); });
  inputs = numbers();
  inputs.insert_or_assign("g", Tensor(DType::f32, {4}));
  check_refused(ErrorKind::shape, "input 'g' must be f32[3]; got f32[4]", [&] { program.run(inputs); });
  inputs.insert_or_assign("g", Tensor(DType::f64, {3}));
  check_refused(ErrorKind::type, "input 'g' must be f32[3]; got f64[3]", [&] { program.run(inputs); });
}

namespace {
// Records the memory that a run borrows, and counts what it copies.
class Watched : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  std::unique_ptr<Buffer> borrow(std::span<std::byte> memory) override {
    borrowed.push_back(memory.data());
    return inner_.borrow(memory);
  }
  void upload(Buffer& to, std::size_t at, std::span<const std::byte> from) override {
    ++copies;
    inner_.upload(to, at, from);
  }
  void download(const Buffer& from, std::size_t at, std::span<std::byte> to) override {
    ++copies;
    inner_.download(from, at, to);
  }
  std::vector<const std::byte*> borrowed;
  int copies = 0;
};
}  // namespace

TEST_CASE("tensors are read and written where they are, also in memory of the caller at any element") {
  alignas(64) float memory[] = {0, 1, 2, 3, 5, 5, 5};
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(memory));
  const Type type{DType::f32, {3}};
  TensorMap inputs;
  inputs.emplace("p", Tensor::borrowed(type, bytes.subspan(4, 12)));
  inputs.emplace("g", Tensor::borrowed(type, bytes.subspan(16, 12)));
  for (const char* name : {"reference", "cpu"}) {
    CAPTURE(name);
    Watched backend(make_backend(name));
    const TensorMap results = Program(*two_outputs(), backend).run(inputs);
    const std::vector<const std::byte*> expected = {bytes.data() + 4, bytes.data() + 16, results.at("y").bytes().data(),
                                                    results.at("next").bytes().data()};
    CHECK(backend.borrowed == expected);
    CHECK(backend.copies == 0);
    CHECK(results.at("y").at(2) == -2);
    CHECK(results.at("next").at(2) == 6);
  }
  const Tensor copy = inputs.at("p");
  CHECK(copy.bytes().data() != bytes.data() + 4);
  CHECK(copy.at(0) == 1);
  check_refused(ErrorKind::shape, "f32[3] needs 12 bytes, got 8", [&] { Tensor::borrowed(type, bytes.first(8)); });
}

TEST_CASE("buffers of a wrong count or size, and shared ones, are refused") {
  const auto reference = make_backend("reference");
  Program program(*two_outputs(), *reference);
  const auto a = reference->allocate(12), b = reference->allocate(12), c = reference->allocate(12),
             d = reference->allocate(12);
  const auto small = reference->allocate(8);
  check_refused(ErrorKind::usage, "takes 2 input buffers; got 1", [&] {
    program.run({{a.get()}, {c.get(), d.get()}});
  });
  check_refused(ErrorKind::usage, "takes 2 output buffers; got 0", [&] {
    program.run(Bindings{{a.get(), b.get()}, {}});
  });
  check_refused(ErrorKind::usage, "output 'next' holds 8 bytes; f32[3] needs 12",
                [&] { program.run({{a.get(), b.get()}, {c.get(), small.get()}}); });
  check_refused(ErrorKind::usage, "is null", [&] { program.run({{a.get(), nullptr}, {c.get(), d.get()}}); });
  check_refused(ErrorKind::usage, "must not share a buffer", [&] {
    program.run({{a.get(), b.get()}, {c.get(), c.get()}});
  });
  check_refused(ErrorKind::usage, "must not use the buffer of input 'p'", [&] {
    program.run({{a.get(), b.get()}, {a.get(), d.get()}});
  });
}

TEST_CASE("a donated buffer is updated in place and gives the same numbers") {
  for (const std::string& name : tested_backends()) {
    CAPTURE(name);
    const auto backend = open_tested(name);
    const auto graph = two_outputs();
    const TensorMap wanted = evaluate(*graph, *backend, numbers());
    Program program(*graph, *backend, {.without = {}, .donate = {{"next", "p"}}, .verify_each = true});
    const auto p = backend->allocate(12), g = backend->allocate(12), y = backend->allocate(12);
    backend->upload(*p, 0, numbers().at("p").bytes());
    backend->upload(*g, 0, numbers().at("g").bytes());
    program.run({{p.get(), g.get()}, {y.get(), p.get()}});
    backend->wait();
    Tensor got(DType::f32, {3});
    backend->download(*y, 0, got.bytes());
    CHECK(same_bits(got, wanted.at("y")));
    backend->download(*p, 0, got.bytes());
    CHECK(same_bits(got, wanted.at("next")));
  }
}

TEST_CASE("a backend that claims gets composites whole, another one their bodies") {
  const auto g = std::make_shared<Graph>();
  g->output("y", softmax(g->input("x", {DType::f32, {4}})));
  NullBackend null;
  CHECK(Program(*g, null).plan().graph->nodes().back().op == Op::softmax);
  const auto reference = make_backend("reference");
  CHECK(Program(*g, *reference).plan().graph->nodes().size() > 2);
}

}  // namespace program_test
