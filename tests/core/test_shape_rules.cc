// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <set>

#include "core/ir/ops/composite.h"
#include "core/ir/ops/op_map.h"
#include "core/ir/shapes/shape_rules.h"
#include "tests/core/op_examples.h"
#include "unroll/support/error.h"

using namespace unroll;

namespace {

std::set<Op> ops_of(const std::vector<OpExample>& examples) {
  std::set<Op> ops;
  for (const OpExample& e : examples) ops.insert(e.op);
  return ops;
}

}  // namespace

TEST_CASE("every op has a right and a wrong example") {
  const std::set<Op> right = ops_of(right_examples()), wrong = ops_of(wrong_examples());
  for (const OpInfo& info : op_table()) {
    CAPTURE(info.name);
    CHECK(right.count(info.op) == 1);
    CHECK(wrong.count(info.op) == 1);
  }
}

TEST_CASE("a table by op has an entry for the last op, and none for an op that the op table lacks") {
  OpMap<const char*> map;
  CHECK(map.size() == op_table().size());
  map.set(op_table().back().op, "last");
  CHECK(std::string(map.find(op_table().back().op)) == "last");
  const auto appended = static_cast<Op>(op_table().size());
  CHECK(map.find(appended) == nullptr);
  CHECK_THROWS(map.set(appended, "beyond"));
}

TEST_CASE("every op takes what it should take") {
  for (const OpExample& e : right_examples()) {
    CAPTURE(op_info(e.op).name);
    CAPTURE(e.what);
    CHECK_NOTHROW(infer_types({e.op, e.inputs, e.attributes, e.body.get()}));
  }
}

TEST_CASE("every op refuses what it should refuse, by name") {
  for (const OpExample& e : wrong_examples()) {
    CAPTURE(op_info(e.op).name);
    CAPTURE(e.what);
    try {
      infer_types({e.op, e.inputs, e.attributes, e.body.get()});
      FAIL_CHECK("nothing was thrown");
    } catch (const Error& error) {
      CAPTURE(error.what());
      CHECK(std::string(error.what()).rfind("[" + std::string(op_info(e.op).name) + "]", 0) == 0);
      const bool about_types =
          error.kind() == ErrorKind::shape || error.kind() == ErrorKind::type || error.kind() == ErrorKind::graph;
      CHECK(about_types);
    }
  }
}

TEST_CASE("output types are as the op reference says") {
  struct Row {
    Op op;
    std::string what;
    std::string outputs;
  };
  const Row rows[] = {
      {Op::add, "shapes that broadcast", "f32[2,4,3]"},
      {Op::less, "shapes that broadcast", "b8[2,4,3]"},
      {Op::is_finite, "a matrix", "b8[2,3]"},
      {Op::iota, "along the last axis", "i32[2,3]"},
      {Op::cast, "i32 to f64", "f64[3]"},
      {Op::transpose, "a rotation", "f32[4,2,3]"},
      {Op::slice, "the end", "f32[2,2]"},
      {Op::pad, "both sides", "f32[2,6]"},
      {Op::concat, "three parts", "f32[2,4]"},
      {Op::matmul, "a batch, both transposed", "f32[5,2,4]"},
      {Op::matmul, "operands of 16 bits", "f32[2,4]"},
      {Op::matmul, "stored in 16 bits", "f16[2,4]"},
      {Op::reduce_sum, "16 bits", "f32[3]"},
      {Op::select, "16 bits", "f16[2,3]"},
      {Op::reduce_sum, "two axes", "f32[3]"},
      {Op::reduce_max, "kept axis", "f32[2,1]"},
      {Op::argmax, "the first axis", "i32[3]"},
      {Op::gather, "rows", "f32[2,2,3]"},
      {Op::scatter_add, "rows", "f32[5,3]"},
      {Op::pack_lengths, "a batch", "i32[3] i32[4] i32[4] i32[12] i32[12] i32[]"},
      {Op::scan, "packed rows", "f32[2,3] f32[10,3]"},
      {Op::scan, "one state, one sequence", "f32[2,3] f32[5,2,3]"},
      {Op::gradient, "of mse", "f32[2] f32[2]"},
      {Op::rnn, "one layer", "f32[5,2,4] f32[1,2,4]"},
      {Op::lstm, "everything at once", "f32[5,2,4] f32[4,2,2] f32[4,2,4]"},
      {Op::embedding, "ids of a batch", "f32[2,4,3]"},
      {Op::dot_attention, "a mask", "f32[2,3,6] f32[2,3,5]"},
      {Op::multi_head_attention, "a mask", "f32[2,3,4] f32[2,3,5]"},
      {Op::softmax_cross_entropy, "labels per row", "f32[2,3]"},
      {Op::adam, "both slots", "f32[2,3] f32[2,3] f32[2,3]"},
      {Op::sgd, "no momentum", "f32[2,3]"},
  };
  for (const Row& row : rows) {
    bool found = false;
    for (const OpExample& e : right_examples()) {
      if (e.op != row.op || e.what != row.what) continue;
      found = true;
      std::string text;
      for (const Type& t : infer_types({e.op, e.inputs, e.attributes, e.body.get()}))
        text += (text.empty() ? "" : " ") + t.text();
      CHECK_MESSAGE(text == row.outputs, op_info(row.op).name);
    }
    CHECK_MESSAGE(found, row.what);
  }
}

TEST_CASE("every composite has a body, and its node has the types of its results") {
  for (const OpInfo& info : op_table()) {
    CAPTURE(info.name);
    CHECK((find_composite(info.op) != nullptr) == (info.tier == OpTier::composite));
  }
  for (const OpExample& e : right_examples()) {
    if (!find_composite(e.op)) continue;
    CAPTURE(op_info(e.op).name);
    CAPTURE(e.what);
    const auto body = build_composite(e.op, e.inputs, e.attributes);
    std::vector<Type> types;
    for (const NamedValue& output : body->outputs()) types.push_back(body->type(output.value));
    CHECK(types == infer_types({e.op, e.inputs, e.attributes, nullptr}));
    REQUIRE(body->inputs().size() == e.inputs.size());
  }
  CHECK_THROWS_AS(build_composite(Op::add, {}, {}), Error);
}
