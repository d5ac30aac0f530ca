// SPDX-License-Identifier: Apache-2.0
// A plan during compilation: storage of its values, memory accesses of its nodes, and its matmuls by constants.
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
// Makes the call of a claimed node, for a backend that claims nodes.
using MakeClaimed = std::unique_ptr<Call> (*)(const PlanView& view, std::int32_t node);

// Context for compiling one plan.
struct PlanView {
  const Plan& plan;
  int parts;
  BackendState& state;
  MakeClaimed make_claimed = nullptr;
  // Costs during compilation: by the usual machine, which chooses, and by this machine, which predicts.
  const Costs* costs = nullptr;
  const Costs* predicted = nullptr;
  std::vector<std::size_t> constant_offsets = {};  // [node], into the constants block
  bool packed = false;                             // the body of a packed scan
  bool whole = false;                              // not the body of a scan
  const Graph& graph() const { return *plan.graph; }
  const Storage& storage(const ValueId& id) const {
    return plan.storage[id.node][id.output];
  }
  Ref ref(const ValueId& id) const { return ref(storage(id)); }
  Ref ref(const Storage& storage) const;
  // True if an elementwise node's result is a bound output that shares memory with none of its operands.
  bool is_apart(const Ref& result, std::span<const Ref> operands) const;
  const Shape& viewed(const ValueId& id) const;                      // Storage::viewed, or the value's shape
  Strides strides(const ValueId& id) const;                          // over that shape
  Strides strides(const ValueId& id, const Shape& broadcast) const;  // as if it had this shape
};

// Returns all memory that a node may access, unless its call reports it.
std::vector<Access> accesses_of_node(const PlanView& view, std::int32_t node);

// Returns the matmul of a node, with the row strides of its operands.
Matmul matmul_of(const PlanView& view, std::int32_t node);
// True if the node is a matmul by a constant of a scan in a form that one call computes.
bool is_packed_matmul(const PlanView& body, std::int32_t node, const ScanForm& form);

// True if the node is a matmul by a constant, which is packed at compile time.
bool is_constant_matmul(const Plan& plan, std::int32_t node);
struct PackedWeights;
// The packed weights of a matmul by a constant.
class ConstantProduct {
 public:
  ConstantProduct(const PlanView& view, std::int32_t node);
  // Returns the block of c that this worker computed.
  Block run(const Matmul& matmul, const void* a, void* c, const Worker& worker) const;
  std::string name() const;

 private:
  std::shared_ptr<const PackedWeights> weights_;
  std::size_t scratch_bytes_;  // per worker
  std::shared_ptr<Bytes> scratch_;
};
std::unique_ptr<Call> make_constant_matmul(const PlanView& view, std::int32_t node);

// An output of a body or plan that was not computed in its bound buffer.
struct OutputPiece {
  Type type;
  Ref from, to;
  bool staged;  // its source is a buffer that another output overwrites
};
std::vector<OutputPiece> output_pieces(const PlanView& view, int n_states);

}  // namespace unroll::cpu
