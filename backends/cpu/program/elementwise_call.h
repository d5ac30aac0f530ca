// SPDX-License-Identifier: Apache-2.0
// An elementwise or fused node of a plan: the source of its program, and the memory of its operands and results.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/cpu/program/plan_view.h"
#include "unroll/passes/product_groups.h"

namespace unroll::cpu {

struct ElementwiseNode {
  Expression source;  // strides as in the plan
  std::vector<Ref> inputs, results;
};
ElementwiseNode elementwise_node(const PlanView& view, std::int32_t node);

// Pointers to the memory; each worker resolves them in every run.
class ElementwisePointers {
 public:
  struct Own {
    std::vector<const void*> inputs;
    std::vector<void*> results;
  };
  ElementwisePointers(std::vector<Ref> inputs, std::vector<Ref> results, int parts);
  const Own& resolve(const Frame& frame, const Worker& worker);

 private:
  struct alignas(64) Line : Own {};
  std::vector<Ref> inputs_, results_;
  std::vector<Line> of_part_;
};

// The elementwise node after a matmul, run on the matmul's blocks.
class BlockEpilogue {
 public:
  BlockEpilogue(ElementwiseNode node, std::int64_t gates, int parts);
  Epilogue resolve(const Frame& frame, const Worker& worker);
  std::string name() const;  // appended to the matmul's name

 private:
  Elementwise program_;
  ElementwisePointers pointers_;
  std::size_t n_instructions_;
  std::int64_t gates_;
};
// Returns nullopt if the two must stay separate. Reasons: rows of an operand at varying distances, results in the
// matmul's operands, or gates of a row on different workers or far apart in time.
std::optional<BlockEpilogue> block_epilogue(const PlanView& view, const ProductGroup& group);
// Outside of loops, both in one call. Returns null if they must stay separate, for these reasons or because the matmul
// is batched, counted or another library's.
std::unique_ptr<Call> make_product_group(const PlanView& view, const ProductGroup& group, std::size_t& scratch_bytes);

}  // namespace unroll::cpu
