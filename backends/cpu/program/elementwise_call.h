// SPDX-License-Identifier: Apache-2.0
// An elementwise or fused node of a plan: its program's source, and the memory of its operands and results.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/cpu/program/plan_view.h"
#include "unroll/passes/product_groups.h"

namespace unroll::cpu {

struct ElementwiseNode {
  Expression source;  // strides of the plan
  std::vector<Ref> inputs, results;
};
ElementwiseNode elementwise_node(const PlanView& view, std::int32_t node);

// Pointers to the memory, resolved anew in every run, by each part for itself.
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

// The elementwise node behind a product, to be run on blocks of it.
class BlockEpilogue {
 public:
  BlockEpilogue(ElementwiseNode node, std::int64_t gates, int parts);
  Epilogue resolve(const Frame& frame, const Worker& worker);
  std::string name() const;  // behind that of the product

 private:
  Elementwise program_;
  ElementwisePointers pointers_;
  std::size_t n_instructions_;
  std::int64_t gates_;
};
// None where both must stay apart: operands whose rows do not lie at one distance, results in the product's operands,
// gates of a row in different parts or far apart in time.
std::optional<BlockEpilogue> block_epilogue(const PlanView& view, const ProductGroup& group);
// Outside of loops, both in one call. Null where they must stay apart, for these reasons or because the product is
// batched, counted or another library's.
std::unique_ptr<Call> make_product_group(const PlanView& view, const ProductGroup& group, std::size_t& scratch_bytes);

}  // namespace unroll::cpu
