// SPDX-License-Identifier: Apache-2.0
// The definition of a composite: its body in simpler ops for given input types. Claimed kernels are tested against it;
// without a claim the body runs.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/ir/ops/attribute_spec.h"
#include "core/ir/ops/shape_query.h"
#include "unroll/ir/graph.h"

namespace unroll {

// Appends the body of a node to the graph of `in` and returns the node's outputs, both in the node's order.
using BodyFunction = std::vector<Value> (*)(std::span<const Value> in, const Attributes& attributes);

// A composite besides its row in op_table.def.
struct Composite {
  Op op;
  std::vector<AttributeSpec> attributes;
  void (*require)(const ShapeQuery&);  // what the ops of the body do not check; throws Error(shape|type)
  BodyFunction body;
  // True if the body alone does not define the op, so that a backend has to claim it. Null: never.
  bool (*needs_kernel)(const Attributes&) = nullptr;
};

// core/ir/composites has one file for each of these.
std::span<const Composite> recurrent_composites();
std::span<const Composite> layer_composites();
std::span<const Composite> convolution_composites();
std::span<const Composite> attention_composites();
std::span<const Composite> loss_composites();
std::span<const Composite> update_composites();

// Null for an op that is no composite.
const Composite* find_composite(Op op);

// The types of the body's results, after its checks. Throws Error(shape|type) that names the op.
std::vector<Type> composite_types(const ShapeQuery& query);

// A graph of its own with inputs in0, in1, ... and outputs out0, out1, ... Throws Error(graph) for an op without body.
std::shared_ptr<const Graph> build_composite(Op op, std::span<const Type> inputs, const Attributes& attributes);

}  // namespace unroll
