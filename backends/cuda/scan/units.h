// SPDX-License-Identifier: Apache-2.0
// Elementwise work of a resident loop: each block computes it for the units and rows that it owns.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "backends/common/expression.h"
#include "backends/cuda/scan/exchange_buffers.h"
#include "backends/cuda/scan/loops.h"

namespace unroll::cuda {

inline std::string decimal(std::int64_t n) { return std::to_string(n); }

// Owners of elements: of values [rows, ..., units], a block has some units and, if rows are independent,
// some rows. Blocks of the grid are numbered [groups, blocks].
struct UnitMap {
  std::int64_t blocks = 1;  // along the units
  std::int64_t groups = 1;  // along the rows
  std::int64_t rows = 0;    // of axis 0, where there are several groups
  std::map<std::int64_t, std::int64_t> granules = {};  // of values with these units: owned in multiples of it
  std::int64_t own_units(std::int64_t units) const;
  std::int64_t own_rows(std::int64_t all_rows) const;  // of all leading axes
  std::int64_t n_blocks() const { return blocks * groups; }
};

// The expression of the element in `row` (all leading axes as one, row-major) and `unit`, which the text of the caller
// declares with the type index().
class UnitPrinter {
 public:
  // `gates`: [input] the sum s<gate> that the caller declares, in place of memory; -1 or missing: memory. `operands`
  // are those in memory: inputs, then results.
  UnitPrinter(const common::Expression& expression, const device::Operands& operands, std::vector<int> gates = {});
  void set_passed(std::vector<PassedResult> passed) { passed_ = std::move(passed); }
  const std::vector<PassedResult>& passed() const { return passed_; }
  // The place of a result among accesses().
  std::size_t access_of(std::size_t result) const;
  // True if rows of every operand lie where groups of rows expect them.
  static bool fits(const common::Expression& expression, const UnitMap& map);

  std::string index() const { return is_short_ ? "int" : "long long"; }
  std::int64_t rows() const;
  std::int64_t units() const;
  std::string parameters() const;  // "const float* x0, float* y0, "
  std::string places(const std::string& indent) const;  // i0, i1, ...: where the operands' elements are
  // Operands in memory into registers l0, l1, ...: for work whose memory nothing else changes meanwhile.
  std::string early_loads(const std::string& indent, const std::string& condition) const;
  std::string statements(const std::string& indent, bool loaded_early) const;
  std::vector<UnitAccess> accesses() const;  // of the operands

 private:
  const common::Strides& strides(std::size_t operand) const;
  bool is_gate(std::size_t operand) const { return operand < gates_.size() && gates_[operand] >= 0; }
  std::string name(std::size_t operand) const;
  std::string load(std::size_t input) const;

  const common::Expression& e_;
  const device::Operands& operands_;
  std::vector<int> gates_;
  std::vector<DType> dtypes_;  // [operand]
  std::vector<PassedResult> passed_;
  bool is_short_;
};

// Accesses of a row kernel to its operands: inputs, then results.
std::vector<UnitAccess> row_accesses(const common::Expression& rows, const device::Operands& operands);
// "  const int first_unit = ..., rows_begin = ..., rows_end = ...;": what a block owns of [rows, units].
std::string print_owned(const UnitMap& map, std::int64_t rows, std::int64_t units, std::int64_t live_rows = 0);

}  // namespace unroll::cuda
