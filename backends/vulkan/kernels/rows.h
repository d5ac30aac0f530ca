// SPDX-License-Identifier: Apache-2.0
// Fused reductions: `lanes` invocations share a row, and a workgroup computes `teams` rows, or `teams` sums of
// neighboring rows. Every reduction adds up in an order that depends on the number of lanes alone, not on the subgroups
// of the device.
#pragma once

#include <string>

#include "backends/vulkan/kernels/kernels.h"

namespace unroll::vulkan {

struct RowLayout {
  std::uint32_t lanes = 8, teams = 1;      // lanes: a power of two
  std::uint32_t shared_words = 0;          // for values of a row; those beyond lie in the spill buffer
  // Values with one element per row are stored by each lane, and read again where they are used. llvmpipe (Mesa 22.3)
  // computes some of them wrong behind a barrier: tanh(x) beside a softmax became NaN.
  bool stores_scalars = false;
};

// The loops over columns that compute a row expression, one after the other. An instruction joins the last loop unless
// it needs other columns of a value of that loop, or its reduction.
class RowSchedule {
 public:
  struct Loop {
    std::int64_t columns;  // 0: statements of the row
    std::vector<std::size_t> registers;
  };
  explicit RowSchedule(const common::Expression& expression);

  const std::vector<Loop>& loops() const { return loops_; }
  const std::vector<DType>& dtypes() const { return dtypes_; }            // [register]
  const std::vector<std::int64_t>& columns() const { return columns_; }  // [register]
  bool is_kept(std::size_t r) const { return kept_[r]; }  // a later loop reads it; what is not kept is computed again
  bool is_crossed(std::size_t r) const { return kept_[r] && crossed_[r]; }  // other columns of it are read
  std::size_t first() const { return first_; }                  // register of an instruction
  std::vector<std::size_t> operands_of(std::size_t r) const;
  std::vector<std::size_t> kept() const;  // registers, the widest first: shared memory goes to as much as fits
  std::int64_t widest() const;
  std::uint64_t iterations(std::uint32_t lanes) const;  // of an invocation, for a row

 private:
  void join_loop(std::size_t r);
  void repeat_cheap();

  const common::Expression& e_;
  std::vector<DType> dtypes_;
  std::vector<std::int64_t> columns_;
  std::size_t first_;
  std::vector<Loop> loops_;
  std::vector<int> loop_of_;  // [register]
  std::vector<bool> kept_, crossed_;
  std::vector<int> costs_;  // [register] instructions that compute it from memory and numbers of the row; -1: too many
};

RowLayout row_layout(const RowSchedule& schedule, const Limits& limits);
// Words of a row in the spill buffer, which is the last operand when there are some.
std::uint32_t spill_words(const RowSchedule& schedule, const RowLayout& layout);

// The operands of the code of a fused reduction, which it reads and writes column by column of its row.
class RowOperands {
 public:
  virtual ~RowOperands() = default;
  virtual void begin_row(Term row, Term unit) = 0;  // unit: number of the sum of neighboring rows
  virtual Term load(std::size_t input, Term column) = 0;
  virtual Term load_sum(std::size_t result, Term column) = 0;  // so far
  virtual void store(std::size_t result, Term column, Term x) = 0;
};
// Rows, or sums of neighboring rows: spread over workgroups, or all of them by each workgroup, after one another.
struct RowRange {
  Term units;
  bool all_by_group;
};
// In uniform control flow. `spill`: the operand with the spill buffer.
void write_rows(Code& c, const common::Expression& expression, const RowLayout& layout, RowOperands& operands,
                int spill, const RowRange& range);
std::uint32_t row_shared_words(const common::Expression& expression, const RowLayout& layout);

// A shader of its own. Operands: the inputs, the results, the spill buffer.
std::string rows_key(const common::Expression& expression, const Buffers& buffers, const RowLayout& layout);
Words rows_shader(const common::Expression& expression, const Buffers& buffers, const RowLayout& layout,
                  const Setting& setting);
Params rows_params(const common::Expression& expression, const Buffers& buffers);
std::uint64_t row_units(const common::Expression& expression);  // rows, or sums of rows

}  // namespace unroll::vulkan
