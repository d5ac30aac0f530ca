// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "backends/vulkan/kernels/rows.h"

namespace unroll::vulkan {

namespace {

bool is_reduction(Op op) { return op == Op::reduce_sum || op == Op::reduce_max; }
bool reads_other_columns(Op op) { return op == Op::slice || op == Op::concat; }

// True if the op costs no more than reading a value back.
bool is_cheap(Op op) {
  switch (op) {
    case Op::neg:
    case Op::abs:
    case Op::add:
    case Op::sub:
    case Op::mul:
    case Op::maximum:
    case Op::minimum:
    case Op::less:
    case Op::less_equal:
    case Op::equal:
    case Op::logical_and:
    case Op::logical_or:
    case Op::logical_not:
    case Op::select:
    case Op::broadcast:
    case Op::slice: return true;
    default: return false;
  }
}

constexpr int k_most_repeated = 24, k_most_parts = 96;  // instructions; of the parts of a concatenation
constexpr std::uint32_t k_cpu_lanes = 8;  // a subgroup of llvmpipe: barriers then cost nothing
constexpr std::uint32_t k_least_lanes = 32, k_most_lanes = 256, k_team_lanes = 128, k_columns_each = 4;

}  // namespace

RowSchedule::RowSchedule(const common::Expression& expression)
    : e_(expression), dtypes_(common::register_dtypes(expression)), columns_(common::register_columns(expression)),
      first_(expression.inputs.size() + expression.constants.size()), loop_of_(columns_.size(), -1),
      kept_(columns_.size(), false), crossed_(columns_.size(), false),
      costs_(columns_.size(), 0) {
  for (std::size_t r = first_; r < columns_.size(); ++r) join_loop(r);
  repeat_cheap();
}

// A value that a few cheap instructions make from operands of the group, numbers of the row and values that are kept
// anyway is computed again, with the same bits, instead of being kept: memory for a row is scarce.
// A part of a longer concatenation is never kept.
void RowSchedule::repeat_cheap() {
  const auto is_concat = [&](std::size_t r) { return e_.instructions[r - first_].op == Op::concat; };
  std::vector<bool> is_part(columns_.size(), true);
  for (std::size_t r = first_; r < columns_.size(); ++r)
    for (const std::size_t o : operands_of(r)) is_part[o] = is_part[o] && is_concat(r);
  for (const auto& result : e_.results) is_part[result.from] = false;
  for (std::size_t r = first_; r < columns_.size(); ++r) {
    if (columns_[r] == 1) continue;
    const bool joins = is_concat(r) && is_part[r];
    costs_[r] = joins || is_cheap(e_.instructions[r - first_].op) ? 1 : -1;
    for (const std::size_t o : operands_of(r)) {
      if (kept_[o] || costs_[r] < 0) continue;
      costs_[r] = costs_[o] < 0 ? -1 : costs_[r] + costs_[o];
    }
    if (costs_[r] > (joins ? k_most_parts : k_most_repeated)) costs_[r] = -1;
    kept_[r] = kept_[r] && costs_[r] < 0;
  }
  // A value that is read at other columns needs its operands there.
  for (std::size_t r = columns_.size(); r-- > first_;) {
    if (!crossed_[r] || kept_[r]) continue;
    for (const std::size_t o : operands_of(r)) crossed_[o] = crossed_[o] || (o >= first_ && columns_[o] > 1);
  }
}

std::vector<std::size_t> RowSchedule::operands_of(std::size_t r) const {
  const common::Instruction& i = e_.instructions[r - first_];
  const std::size_t all[] = {i.a, i.b, i.c};
  return {all, all + (i.op == Op::concat ? 2 : op_info(i.op).max_inputs)};
}

void RowSchedule::join_loop(std::size_t r) {
  const common::Instruction& i = e_.instructions[r - first_];
  const std::int64_t columns = is_reduction(i.op) ? columns_[i.a] : columns_[r] == 1 ? 0 : columns_[r];
  const int last = static_cast<int>(loops_.size()) - 1;
  bool joins = last >= 0 && loops_.back().columns == columns;
  for (const std::size_t o : operands_of(r)) {
    const bool in_last = o >= first_ && loop_of_[o] == last;
    if (in_last && columns > 0)
      joins = joins && !reads_other_columns(i.op) && !is_reduction(e_.instructions[o - first_].op);
  }
  if (!joins) loops_.push_back({columns, {}});
  loops_.back().registers.push_back(r);
  loop_of_[r] = static_cast<int>(loops_.size()) - 1;
  for (const std::size_t o : operands_of(r)) {
    if (o < first_ || columns_[o] == 1) continue;
    if (loop_of_[o] != loop_of_[r]) kept_[o] = true;
    if (reads_other_columns(i.op)) crossed_[o] = kept_[o] = true;
  }
}

std::vector<std::size_t> RowSchedule::kept() const {
  std::vector<std::size_t> list;
  for (std::size_t r = first_; r < columns_.size(); ++r)
    if (kept_[r]) list.push_back(r);
  std::stable_sort(list.begin(), list.end(), [&](std::size_t a, std::size_t b) { return columns_[a] > columns_[b]; });
  return list;
}

std::int64_t RowSchedule::widest() const { return *std::max_element(columns_.begin(), columns_.end()); }

std::uint64_t RowSchedule::iterations(std::uint32_t lanes) const {
  std::uint64_t n = 0;
  for (const Loop& loop : loops_) n += (static_cast<std::uint64_t>(loop.columns) + lanes - 1) / lanes;
  for (const auto& result : e_.results)
    if (result.from < first_) n += (static_cast<std::uint64_t>(columns_[result.from]) + lanes - 1) / lanes;
  return n * static_cast<std::uint64_t>(std::max<std::int64_t>(e_.sum_rows, 1));
}

RowLayout row_layout(const RowSchedule& schedule, const Limits& limits) {
  RowLayout layout;
  const auto widest = static_cast<std::uint32_t>(schedule.widest());
  if (limits.small_sizes) {
    layout.lanes = std::min(k_cpu_lanes, limits.local_size);
    layout.stores_scalars = true;
  } else {
    const std::uint32_t wanted = std::bit_ceil((widest + k_columns_each - 1) / k_columns_each);
    layout.lanes = std::min(std::clamp(wanted, k_least_lanes, k_most_lanes), std::bit_floor(limits.local_size));
  }
  while (schedule.iterations(layout.lanes) > limits.iterations && layout.lanes * 2 <= limits.local_size)
    layout.lanes *= 2;
  std::uint32_t reductions = 0, words = 0;
  for (const auto& loop : schedule.loops())
    reductions = std::max(reductions, static_cast<std::uint32_t>(loop.registers.size()));
  for (const std::size_t r : schedule.kept()) words += static_cast<std::uint32_t>(schedule.columns()[r]);
  if (!limits.small_sizes) layout.teams = std::max(1u, std::min(k_team_lanes, limits.local_size) / layout.lanes);
  // Half of the memory for values, so that two workgroups fit at once.
  const std::uint32_t most = limits.shared_bytes / 2 / 4;
  while (layout.teams > 1 && words * layout.teams > most) layout.teams /= 2;
  layout.shared_words = std::min(words, most / layout.teams);
  return layout;
}

std::uint32_t spill_words(const RowSchedule& schedule, const RowLayout& layout) {
  std::uint32_t shared = 0, spilled = 0;
  for (const std::size_t r : schedule.kept()) {
    const auto words = static_cast<std::uint32_t>(schedule.columns()[r]);
    if (shared + words <= layout.shared_words) shared += words;
    else spilled += words;
  }
  return spilled;
}

}  // namespace unroll::vulkan
