// SPDX-License-Identifier: Apache-2.0
// A step of a scan split by columns: the last axis of pointwise nodes counts units, each part owns some of them, and
// computes just the columns of its units, of products too. A gate product [.., groups * units] whose columns only such
// nodes read is kept apart: each part has its own columns side by side, packed weights and results.
// Then a step needs a barrier only where a node reads columns of all parts (barriers.h).
#pragma once

#include <memory>
#include <vector>

#include "backends/cpu/program/plan_view.h"
#include "unroll/passes/scan_form.h"

namespace unroll::cpu {

// The units of one part. Multiples of 16 units where that is fair to all parts, else of less.
Range units_of(int part, int parts, std::int64_t units);

class ColumnSplit {
 public:
  ColumnSplit(const PlanView& body, const ScanForm& form);

  // Columns [groups * units] of a product by a constant.
  struct Product {
    std::int64_t units = 0, groups = 1;
    bool apart = false;  // the columns of each part side by side; otherwise one group, where they always are
  };
  bool splits(std::int32_t node) const { return splits_[static_cast<std::size_t>(node)]; }  // pointwise nodes
  const Product& product(std::int32_t node) const {
    return products_[static_cast<std::size_t>(node)];
  }  // units 0: none

 private:
  Product product_of(const ScanForm::Product& product) const;
  bool gates_read_by_columns(const ScanForm::Product& product) const;

  const PlanView& view_;
  std::vector<bool> splits_;
  std::vector<Product> products_;
};

// Null when the node computes nothing.
std::unique_ptr<Call> make_column_call(const PlanView& view, std::int32_t node, const ColumnSplit& split);
// make_output_copies by columns; null when it has nothing to copy, or can not (`possible` is false then).
std::unique_ptr<Call> make_column_output_copies(const PlanView& view, int n_states, bool& possible);

}  // namespace unroll::cpu
