// SPDX-License-Identifier: Apache-2.0
// A step of a scan divided by columns. The last axis of pointwise nodes counts units. Each worker owns some units and
// computes only their columns, in matmuls too. A gate matmul [.., groups * units] that only such nodes read is stored
// separately. Each worker has its columns side by side, in packed weights and in results. A step then needs a barrier
// only if a node reads columns of all workers (barriers.h).
#pragma once

#include <memory>
#include <vector>

#include "backends/cpu/program/plan_view.h"
#include "unroll/passes/scan_form.h"

namespace unroll::cpu {

// Returns the units of one worker: multiples of 16 units if that is balanced, else of less.
Range units_of(int part, int parts, std::int64_t units);

class ColumnSplit {
 public:
  ColumnSplit(const PlanView& body, const ScanForm& form);

  // Columns [groups * units] of a matmul by a constant.
  struct Product {
    std::int64_t units = 0, groups = 1;
    bool apart = false;  // the columns of each worker side by side; otherwise one group in the normal layout
  };
  bool splits(std::int32_t node) const { return splits_[node]; }  // pointwise nodes
  const Product& product(std::int32_t node) const {
    return products_[node];
  }  // units 0: none

 private:
  Product product_of(const ScanForm::Product& product) const;
  bool gates_read_by_columns(const ScanForm::Product& product) const;

  const PlanView& view_;
  std::vector<bool> splits_;
  std::vector<Product> products_;
};

// Returns null if the node computes nothing.
std::unique_ptr<Call> make_column_call(const PlanView& view, std::int32_t node, const ColumnSplit& split);
// As make_output_copies, by columns. Null if nothing is copied, or if it cannot be divided (`possible` is then false).
std::unique_ptr<Call> make_column_output_copies(const PlanView& view, int n_states, bool& possible);

}  // namespace unroll::cpu
