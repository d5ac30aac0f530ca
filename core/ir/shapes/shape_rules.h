// SPDX-License-Identifier: Apache-2.0
// Output types from input types. Only these rules check the dtypes and shapes of nodes.
#pragma once

#include <span>
#include <vector>

#include "core/ir/ops/shape_query.h"

namespace unroll {

using ShapeRule = std::vector<Type> (*)(const ShapeQuery&);
struct ShapeRow {
  Op op;
  ShapeRule rule;
};
ShapeRule elementwise_shape_rule(Op op);             // of an op whose row or kind has one, or null
std::span<const ShapeRow> basic_shape_rules();       // the other primitives
std::span<const ShapeRow> structured_shape_rules();  // scan, fused, gradient

// Checks arity and applies the op's rule; the types of a composite are those of its body's results. `input` nodes carry
// their type in the attributes dtype and shape.
std::vector<Type> infer_types(const ShapeQuery& query);

}  // namespace unroll
