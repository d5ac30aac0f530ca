// SPDX-License-Identifier: Apache-2.0
// One gradient rule per op. differentiate.cc sums cotangents and reverses broadcasting. A rule returns the contribution
// of one node, in ordinary nodes, so that higher-order gradients work.
#pragma once

#include <span>
#include <vector>

#include "unroll/ir/graph.h"

namespace unroll {

// The operands of a gradient rule: the node and the cotangents of its outputs.
struct Backward {
  Graph& graph;
  Node node;                 // a copy: appending moves the graph's own
  std::vector<Value> in;     // operands
  std::vector<Value> out;    // results
  std::vector<Value> d_out;  // one cotangent per result; empty where it is zero
  std::vector<bool> wanted;  // operands that need a cotangent

  Value d() const { return d_out[0]; }
  Value y() const { return out[0]; }
  const Type& in_type(std::size_t i) const { return in[i].type(); }
};

// One cotangent per operand: of the operand's shape, or of the shape it was broadcast to; empty: zero. Cotangents of
// 16-bit values are f32: storing a value does not round its gradient.
// A rule may leave cotangents empty that nobody wants.
using Rule = std::vector<Value> (*)(const Backward&);
struct RuleRow {
  Op op;
  Rule rule;
};
std::span<const RuleRow> elementwise_rules();
std::span<const RuleRow> linear_rules();  // movement, matmul, reductions, indexing
std::span<const RuleRow> scan_rules();
std::span<const RuleRow> gradient_rules();
Rule composite_gradient();  // of each composite that has a gradient

inline Type cotangent_type(const Type& type) { return {arithmetic_dtype(type.dtype), type.shape}; }

// Null for an op without gradient.
Rule find_rule(Op op);

// As differentiate(), but an empty cotangent is zero, and so is an empty result.
std::vector<Value> pull_back(std::span<const Value> outputs, std::span<const Value> cotangents,
                             std::span<const Value> wrt);

}  // namespace unroll
