// SPDX-License-Identifier: Apache-2.0
// Rounding bounds of single nodes: every elementwise op has a rule, and a missing rule is an error that names the op.
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "core/train/verify/rounding.h"
#include "tests/core/op_examples.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/backend.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

namespace test_rounding {

using namespace unroll;

namespace {

std::vector<Value> inputs_of(Graph& graph, const std::vector<Type>& types) {
  std::vector<Value> values;
  for (const Type& type : types) values.push_back(graph.input("in" + std::to_string(values.size()), type));
  return values;
}

// A fused node around a body, which Graph::append would refuse where the body is not elementwise.
Node fused_node(std::shared_ptr<const Graph> body) {
  Node node;
  node.op = Op::fused;
  node.outputs = {body->type(body->outputs()[0].value)};
  node.body = std::move(body);
  return node;
}

}  // namespace

TEST_CASE("every elementwise op has a rounding rule") {
  for (const OpExample& example : right_examples()) {
    if (!is_elementwise(example.op)) continue;
    CAPTURE(op_info(example.op).name);
    auto body = std::make_shared<Graph>();
    body->output("y", body->append(example.op, inputs_of(*body, example.inputs), example.attributes)[0]);
    Graph target;
    CHECK_NOTHROW(append_bounded(target, fused_node(body), inputs_of(target, example.inputs)));
  }
}

TEST_CASE("an op without a rounding rule in a fused node is an error that names it") {
  auto body = std::make_shared<Graph>();
  body->output("y", reshape(body->input("x", {DType::f32, {2, 3}}), Shape{6}));
  Graph target;
  try {
    append_bounded(target, fused_node(body), inputs_of(target, {{DType::f32, {2, 3}}}));
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::internal);
    CHECK(std::string(error.what()).rfind("[reshape] has no rounding rule", 0) == 0);
  }
}

TEST_CASE("between two denormal numbers of f16 a result may become either") {
  const Type f32{DType::f32, {1}};
  auto body = std::make_shared<Graph>();
  const Value a = body->input("a", f32), b = body->input("b", f32);
  body->output("y", cast(a * b, DType::f16));
  Graph target;
  const Bounded y = append_bounded(target, fused_node(body), std::vector{target.input("a", {DType::f64, {1}}),
                                                                         target.input("b", {DType::f64, {1}})})[0];
  target.output("y", cast(y.value, DType::f64));
  target.output("bound", y.bound);
  // The product lies above the middle of two and three steps of 2^-24. In f32 it becomes the middle.
  const double factor = 1 + 0x1p-23, other = (1.25 - 0x1p-23) * 0x1p-23;
  const Tensor wide_a = Tensor::from<double>({1}, {factor}), wide_b = Tensor::from<double>({1}, {other});
  const auto verifier = make_backend("reference");
  const TensorMap exact = evaluate(target, *verifier, {{"a", wide_a}, {"b", wide_b}});
  const TensorMap got = evaluate(*body, *verifier, {{"a", wide_a.cast(DType::f32)}, {"b", wide_b.cast(DType::f32)}});
  const double off = std::abs(got.at("y").at(0) - exact.at("y").at(0));
  CHECK(off == 0x1p-24);
  CHECK(off <= exact.at("bound").at(0));
}

}  // namespace test_rounding
