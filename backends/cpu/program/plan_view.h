// SPDX-License-Identifier: Apache-2.0
// A plan that is being compiled: where its values lie, what its nodes touch, and its products by constants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/cost/costs.h"
#include "backends/cpu/program/steps.h"
#include "unroll/passes/backend.h"
#include "unroll/passes/scan_form.h"

namespace unroll::cpu {

struct BackendState;
struct PlanView;
// Makes the call of a claimed node, for a backend that claims some.
using MakeClaimed = std::unique_ptr<Call> (*)(const PlanView& view, std::int32_t node);

// What compiling one plan needs to know.
struct PlanView {
  const Plan& plan;
  int parts;
  BackendState& state;
  MakeClaimed make_claimed = nullptr;
  // While its program is made: by the usual machine, which chooses, and by this machine, which predicts.
  const Costs* costs = nullptr;
  const Costs* predicted = nullptr;
  std::vector<std::size_t> constant_offsets = {};  // [node], into the constants block
  bool packed = false;                             // the body of a packed scan
  bool whole = false;                              // not the body of a scan
  const Graph& graph() const { return *plan.graph; }
  const Storage& storage(const ValueId& id) const {
    return plan.storage[static_cast<std::size_t>(id.node)][static_cast<std::size_t>(id.output)];
  }
  Ref ref(const ValueId& id) const { return ref(storage(id)); }
  Ref ref(const Storage& storage) const;
  // Whether an elementwise node's result is a bound output that none of its operands lies in.
  bool is_apart(const Ref& result, std::span<const Ref> operands) const;
  Strides strides(const ValueId& id) const;                          // of the value's own shape
  Strides strides(const ValueId& id, const Shape& broadcast) const;  // as if it had this shape
};

// All that a node may touch, unless its call says so itself.
std::vector<Access> accesses_of_node(const PlanView& view, std::int32_t node);

// The product of a matmul node, with the distances at which the rows of its operands lie.
Matmul matmul_of(const PlanView& view, std::int32_t node);
// Whether the node is a product by a constant of a scan, of the form that one call computes.
bool is_packed_matmul(const PlanView& body, std::int32_t node, const ScanForm& form);

// Whether the node is a product by a constant, which is packed when the plan is compiled.
bool is_constant_matmul(const Plan& plan, std::int32_t node);
struct PackedWeights;
// The packed weights of such a node.
class ConstantProduct {
 public:
  ConstantProduct(const PlanView& view, std::int32_t node);
  // Returns what this part computed of c.
  Block run(const Matmul& matmul, const void* a, void* c, const Worker& worker) const;
  std::string name() const;

 private:
  std::shared_ptr<const PackedWeights> weights_;
  std::size_t scratch_bytes_;  // of each part
  std::shared_ptr<Bytes> scratch_;
};
std::unique_ptr<Call> make_constant_matmul(const PlanView& view, std::int32_t node);

// An output of a body or plan that is computed elsewhere than where it is bound.
struct OutputPiece {
  Type type;
  Ref from, to;
  bool staged;  // its source is the buffer that another output is written over
};
std::vector<OutputPiece> output_pieces(const PlanView& view, int n_states);

}  // namespace unroll::cpu
