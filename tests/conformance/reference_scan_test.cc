// SPDX-License-Identifier: Apache-2.0
// What scan means, step by step, worked out by hand; and what a plan means: places, donors, copies at the end.
#include <doctest/doctest.h>

#include "backends/registry.h"
#include "tests/support/simple_plan.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace reference_scan_test {

using namespace unroll;
using testing::run_plan;
using testing::simple_plan;

namespace {

using Doubles = std::vector<double>;

Tensor floats(Shape shape, const std::vector<float>& values) { return Tensor::from<float>(shape, values); }
Tensor whole(Shape shape, const std::vector<std::int32_t>& values) { return Tensor::from<std::int32_t>(shape, values); }
Tensor truths(Shape shape, const std::vector<std::uint8_t>& values) {
  return Tensor::from<std::uint8_t>(shape, values);
}

Doubles numbers(const Tensor& t) {
  Doubles values;
  for (std::int64_t i = 0; i < t.elements(); ++i) values.push_back(t.at(i));
  return values;
}

struct Ran {
  Doubles state, y;
};
struct Masks {
  bool reverse = false;
  std::vector<std::int32_t> lengths;
  std::vector<std::uint8_t> reset;
};

// s' = 2 s + x, y = s' + c, over x [T, 2]
Ran run_doubling(std::int64_t steps, const std::vector<float>& x, const Masks& masks) {
  auto g = std::make_shared<Graph>();
  const Value s0 = g->input("s0", {DType::f32, {2}}), xs = g->input("x", {DType::f32, {steps, 2}});
  const Value c = g->input("c", {DType::f32, {}});
  ScanOptions options{.reverse = masks.reverse, .lengths = {}, .reset = {}, .steps = -1};
  if (!masks.lengths.empty()) options.lengths = constant(*g, whole({2}, masks.lengths));
  if (!masks.reset.empty()) options.reset = constant(*g, truths({steps, 2}, masks.reset));
  const auto step = [](const StepValues& v) {
    const Value next = v.states[0] * 2.0 + v.sequences[0];
    return StepResult{{next}, {next + v.constants[0]}};
  };
  const Value states[] = {s0}, sequences[] = {xs}, constants[] = {c};
  const ScanResult r = scan(states, sequences, constants, step, options);
  g->output("state", r.states[0]);
  g->output("y", r.outputs[0]);
  const auto backend = make_reference_backend({});
  TensorMap out =
      run_plan(simple_plan(g), *backend,
               {{"s0", floats({2}, {1, 10})}, {"x", floats({steps, 2}, x)}, {"c", Tensor::scalar(DType::f32, 100)}});
  return {numbers(out.at("state")), numbers(out.at("y"))};
}

const std::vector<float> k_x{1, 2, 3, 4, 5, 6};  // [3, 2]

}  // namespace

TEST_CASE("a scan runs forwards over time") {
  const Ran r = run_doubling(3, k_x, {});
  CHECK(r.y == Doubles{103, 122, 109, 148, 123, 202});
  CHECK(r.state == Doubles{23, 102});
}

TEST_CASE("a reversed scan starts at the last step and leaves outputs at their own step") {
  const Ran r = run_doubling(3, k_x, {.reverse = true, .lengths = {}, .reset = {}});
  CHECK(r.y == Doubles{135, 214, 117, 156, 107, 126});
  CHECK(r.state == Doubles{35, 114});
}

TEST_CASE("past its length a row keeps its state and gives zeros") {
  const Ran r = run_doubling(3, k_x, {.reverse = false, .lengths = {3, 1}, .reset = {}});
  CHECK(r.y == Doubles{103, 122, 109, 0, 123, 0});
  CHECK(r.state == Doubles{23, 22});
  const Ran back = run_doubling(3, k_x, {.reverse = true, .lengths = {1, 0}, .reset = {}});
  CHECK(back.y == Doubles{103, 0, 0, 0, 0, 0});
  CHECK(back.state == Doubles{3, 10});
}

TEST_CASE("a reset zeroes a row before the step, but a row that has ended keeps its value") {
  const Ran r = run_doubling(3, k_x, {.reverse = false, .lengths = {}, .reset = {0, 1, 1, 0, 0, 0}});
  CHECK(r.y == Doubles{103, 102, 103, 108, 111, 122});
  CHECK(r.state == Doubles{11, 22});
  const Ran ended = run_doubling(3, k_x, {.reverse = false, .lengths = {1, 3}, .reset = {0, 0, 0, 0, 1, 1}});
  CHECK(ended.state == Doubles{3, 6});
}

TEST_CASE("a scan of no steps gives the initial states") {
  const Ran r = run_doubling(0, {}, {});
  CHECK(r.y.empty());
  CHECK(r.state == Doubles{1, 10});
}

TEST_CASE("states of a scan may swap, and a body may hand a state or an input straight on") {
  auto g = std::make_shared<Graph>();
  const Value a = g->input("a", {DType::f32, {1}}), b = g->input("b", {DType::f32, {1}});
  const Value x = g->input("x", {DType::f32, {3, 1}});
  const Value states[] = {a, b}, sequences[] = {x};
  const ScanResult r = scan(states, sequences, {}, [](const StepValues& v) {
    return StepResult{{v.states[1], v.states[0]}, {v.states[0], v.sequences[0]}};
  });
  g->output("a", r.states[0]);
  g->output("b", r.states[1]);
  g->output("old", r.outputs[0]);
  g->output("same", r.outputs[1]);
  const auto backend = make_reference_backend({});
  TensorMap out = run_plan(simple_plan(g), *backend,
                           {{"a", floats({1}, {1})}, {"b", floats({1}, {2})}, {"x", floats({3, 1}, {7, 8, 9})}});
  CHECK(numbers(out.at("a")) == Doubles{2});
  CHECK(numbers(out.at("b")) == Doubles{1});
  CHECK(numbers(out.at("old")) == Doubles{1, 2, 1});
  CHECK(numbers(out.at("same")) == Doubles{7, 8, 9});
}

TEST_CASE("a scan inside a scan runs anew in every outer step") {
  auto g = std::make_shared<Graph>();
  const Value s = g->input("s", {DType::f32, {}}), x = g->input("x", {DType::f32, {2, 3}});
  const auto add_up = [](const StepValues& v) { return StepResult{{v.states[0] + v.sequences[0]}, {}}; };
  const Value states[] = {s}, sequences[] = {x};
  const ScanResult r = scan(states, sequences, {}, [&](const StepValues& v) {
    const ScanResult inner = scan(v.states, v.sequences, {}, add_up);
    return StepResult{{inner.states[0] * 10.0}, {}};
  });
  g->output("s", r.states[0]);
  const auto backend = make_reference_backend({});
  const TensorMap out = run_plan(simple_plan(g), *backend,
                                 {{"s", Tensor::scalar(DType::f32, 1)}, {"x", floats({2, 3}, {1, 2, 3, 4, 5, 6})}});
  CHECK(numbers(out.at("s")) == Doubles{850});  // ((1+6)*10 + 15) * 10
}

TEST_CASE("outputs that share a buffer with a donor are copied after all nodes have run") {
  // p' = p - g overwrites p's buffer while another output still shows the old p.
  auto g = std::make_shared<Graph>();
  const Value p = g->input("p", {DType::f32, {2}}), d = g->input("d", {DType::f32, {2}});
  g->output("next", p - d);
  g->output("old", p);
  auto plan = std::make_shared<Plan>(*simple_plan(g));
  plan->donors[0] = 0;
  const auto backend = make_reference_backend({});
  const auto executable = backend->compile(plan);
  const auto shared = backend->allocate(8), gradient = backend->allocate(8), old = backend->allocate(8);
  const Tensor pv = floats({2}, {5, 6}), dv = floats({2}, {1, 2});
  backend->upload(*shared, 0, pv.bytes());
  backend->upload(*gradient, 0, dv.bytes());
  executable->run({{shared.get(), gradient.get()}, {shared.get(), old.get()}});
  Tensor got(DType::f32, {2});
  backend->download(*shared, 0, got.bytes());
  CHECK(numbers(got) == Doubles{4, 4});
  backend->download(*old, 0, got.bytes());
  CHECK(numbers(got) == Doubles{5, 6});
}

TEST_CASE("the reference refuses a plan with a composite and says which") {
  auto g = std::make_shared<Graph>();
  g->output("y", softmax(g->input("x", {DType::f32, {2}})));
  const auto plan = simple_plan(g);
  try {
    make_reference_backend({})->compile(plan);
    FAIL("must throw");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::unsupported);
    CHECK(std::string(e.what()).find("softmax") != std::string::npos);
  }
}

}  // namespace reference_scan_test
