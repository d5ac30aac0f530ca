// SPDX-License-Identifier: Apache-2.0
// Fused reductions as shaders of their own, whose operands are buffers.
#include <algorithm>

#include "backends/common/walk.h"
#include "backends/vulkan/kernels/rows.h"

namespace unroll::vulkan {

namespace {

using common::Expression;
using common::Instruction;
using common::operands_of;
using common::Strides;

std::size_t last_axis(const Expression& e) { return e.shape.rank() - 1; }

class BufferRows final : public RowOperands {
 public:
  BufferRows(Code& c, const Expression& e, const Buffers& buffers)
      : c_(c), e_(e), b_(buffers), dtypes_(common::register_dtypes(e)) {}
  void begin_row(Term row, Term unit) override;
  Term load(std::size_t k, Term column) override { return load_element(c_, b_.of[k], at(k, column), dtypes_[k]); }
  Term load_sum(std::size_t k, Term column) override {
    return load_element(c_, b_.of[operand(k)], at(operand(k), column), dtype(k));
  }
  void store(std::size_t k, Term column, Term x) override {
    store_element(c_, b_.of[operand(k)], at(operand(k), column), x, dtype(k));
  }

 private:
  std::size_t operand(std::size_t result) const { return e_.inputs.size() + result; }
  DType dtype(std::size_t result) const { return dtypes_[e_.results[result].from]; }
  Term at(std::size_t operand, Term column);

  Code& c_;
  const Expression& e_;
  const Buffers& b_;
  const std::vector<DType> dtypes_;
  std::vector<Term> offsets_;  // [operand] of the row
};

// The offset of the row in each operand. Parameters: units, sizes of the leading axes, strides, distances.
void BufferRows::begin_row(Term row, Term unit) {
  const int rank = e_.shape.rank();
  std::vector<Term> coordinates(rank);
  Term rest = row;
  for (int axis = rank - 2; axis >= 0; --axis) {
    const Term size = parameter(c_, 1 + axis);
    coordinates[axis] = axis > 0 ? rest % size : rest;
    if (axis > 0) rest = rest / size;
  }
  const auto operands = operands_of(e_);
  int next = rank + static_cast<int>(operands.size()) * rank;
  offsets_.clear();
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const int strides = rank + static_cast<int>(k) * rank;
    const bool sums = k >= e_.inputs.size() && e_.results[k - e_.inputs.size()].sums;
    Term at = sums ? unit * parameter(c_, strides + rank - 2) : c_.u(0);
    for (int axis = 0; !sums && axis < rank - 1; ++axis)
      if ((*operands[k])[axis] != 0)
        at = at + coordinates[axis] * parameter(c_, strides + axis);
    if (!b_.is_first(k)) at = at + parameter(c_, next++);
    offsets_.push_back(at);
  }
}

Term BufferRows::at(std::size_t operand, Term column) {
  const std::int64_t inner = (*operands_of(e_)[operand])[last_axis(e_)];
  if (inner == 0) return offsets_[operand];
  if (inner == 1) return offsets_[operand] + column;
  const int rank = e_.shape.rank();
  return offsets_[operand] + column * parameter(c_, rank + static_cast<int>(operand) * rank + rank - 1);
}

}  // namespace

std::uint64_t row_units(const Expression& e) {
  const std::int64_t rows = e.shape.removed(e.shape.rank() - 1).elements();
  return static_cast<std::uint64_t>(rows / std::max<std::int64_t>(e.sum_rows, 1));
}

std::string rows_key(const Expression& e, const Buffers& buffers, const RowLayout& layout) {
  std::string key = "w" + std::to_string(layout.lanes) + "x" + std::to_string(layout.teams) + "," +
                    std::to_string(layout.shared_words) + "," + std::to_string(e.sum_rows) + ";";
  for (const auto& input : e.inputs) key += std::to_string(input.columns) + ",";
  for (const Strides* strides : operands_of(e)) {
    for (std::size_t axis = 0; axis < last_axis(e); ++axis) key += (*strides)[axis] != 0 ? '1' : '0';
    const std::int64_t inner = (*strides)[last_axis(e)];
    key += inner == 0 ? 's' : inner == 1 ? 'd' : 'x';
  }
  for (const Instruction& i : e.instructions) key += std::to_string(i.first) + "," + std::to_string(i.columns) + ",";
  for (const auto& result : e.results) key += result.sums ? 's' : 'r';
  return key + expression_key(e, buffers);
}

Params rows_params(const Expression& e, const Buffers& buffers) {
  Params p{static_cast<std::uint32_t>(row_units(e))};
  for (std::size_t axis = 0; axis < last_axis(e); ++axis)
    p.push_back(static_cast<std::uint32_t>(e.shape[static_cast<int>(axis)]));
  for (const Strides* strides : operands_of(e))
    for (std::size_t axis = 0; axis <= last_axis(e); ++axis) p.push_back(static_cast<std::uint32_t>((*strides)[axis]));
  for (std::size_t k = 0; k < buffers.of.size(); ++k)
    if (!buffers.is_first(k)) p.push_back(buffers.distance[k]);
  return p;
}

Words rows_shader(const Expression& e, const Buffers& buffers, const RowLayout& layout, const Setting& setting) {
  const bool spills = spill_words(RowSchedule(e), layout) > 0;
  ModuleOptions options = module_options(setting, buffers.count + spills);
  options.local_size = layout.lanes * layout.teams;
  options.coherent = spills ? buffers.count + 1 : -1;
  Code c(options);
  BufferRows operands(c, e, buffers);
  write_rows(c, e, layout, operands, buffers.count, {c.live_items(parameter(c, 0)), false});
  return c.finish();
}

}  // namespace unroll::vulkan
