// SPDX-License-Identifier: Apache-2.0
// Choice of loops that run as one kernel, and of their workgroups. The model counts multiplications of a workgroup in a
// step, as tiling.cc does, and compares them with the cost of starting the dispatches of a step.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>

#include "backends/vulkan/scan/loops.h"

namespace unroll::vulkan {

namespace {

using Index = std::int64_t;

// Workgroups at once, invocations of one that advance together, multiplications for which a load counts, for which a
// barrier counts, and for which the start of a dispatch counts, with what else a step of its own costs. By measurements
// on lavapipe; on GPUs a start is taken for 3 us and a multiplication of 128 invocations for 1 ns. Then workgroups that
// rows are shared out to, if there are enough rows, and sizes of a workgroup.
struct LoopMachine {
  double groups, width, load, barrier, start;
  Index wanted_groups;
  std::uint32_t unrolled;  // llvmpipe compiles long shaders slowly
  std::array<std::uint32_t, 3> local_sizes;
};
constexpr LoopMachine k_loop_cpu{8, 8, 1, 40, 40'000, 4, 2, {8, 32, 64}};
constexpr LoopMachine k_loop_gpu{256, 128, 1, 30, 3'000, 32, 4, {64, 128, 256}};
constexpr Index k_most_rows = 8;

std::uint64_t shared_words(const LoopStep& step, const LoopTiling& t, const Limits& limits) {
  std::uint64_t all = 0;
  const auto words = [&](const LoopStep::Array& array) {
    return static_cast<std::uint64_t>(step.rows > 0 ? array.row_words * t.rows : array.words);
  };
  for (const LoopStep::Array& state : step.states) all += 2 * words(state);
  for (const LoopStep::Array& local : step.locals) all += words(local);
  for (const LoopItem& item : step.items)
    if (item.kind == LoopItem::Kind::rows)
      all += row_shared_words(item.expression, loop_row_layout(item.expression, t.local_size, limits));
  return all;
}

bool fits(const LoopStep& step, const LoopTiling& t, const Limits& limits) {
  for (const LoopItem& item : step.items)
    if (item.kind == LoopItem::Kind::rows && loop_row_layout(item.expression, t.local_size, limits).teams == 0)
      return false;
  return shared_words(step, t, limits) * sizeof(std::uint32_t) <= limits.shared_bytes;
}

// Multiplications of a step that follow one another.
double cost(const LoopStep& step, const LoopTiling& t, const LoopMachine& machine, const Limits& limits) {
  const double waves = std::max(1.0, t.local_size / machine.width), barrier = machine.barrier * waves;
  double all = barrier;
  for (const LoopItem& item : step.items) {
    const common::Expression& e = item.expression;
    all += barrier;
    if (item.kind == LoopItem::Kind::product) {
      const LoopProduct& p = item.product;
      const auto m = static_cast<std::uint32_t>(step.rows > 0 ? t.rows : p.m);
      const LoopTile tile = loop_tile(m, p.n, t.local_size);
      const auto rounds = static_cast<double>((tile.tasks(m, p.n) + t.local_size - 1) / t.local_size);
      const double term = tile.rows * tile.columns + machine.load * (tile.rows + tile.columns);
      all += rounds * waves * static_cast<double>(p.k) * term;
      continue;
    }
    const auto elements = static_cast<double>(step.rows > 0 ? e.shape.elements() / step.rows * t.rows
                                                            : e.shape.elements());
    const auto each = machine.load * static_cast<double>(item.inputs.size() + item.targets.size()) +
                      static_cast<double>(e.instructions.size());
    all += std::max(waves, std::ceil(elements / machine.width)) * each;
    if (item.kind != LoopItem::Kind::rows) continue;
    const RowSchedule schedule(e);
    all += 2 * barrier * static_cast<double>(schedule.loops().size()) *
           std::ceil(static_cast<double>(t.rows) / loop_row_layout(e, t.local_size, limits).teams);
  }
  const double rounds = std::ceil(static_cast<double>(t.groups) / machine.groups);
  return all * rounds + machine.start / static_cast<double>(t.steps);
}

// A product or a fused reduction is a dispatch of its own; pointwise work runs with the product before it.
double dispatches(const LoopStep& step) {
  const auto n = std::count_if(step.items.begin(), step.items.end(),
                               [](const LoopItem& item) { return item.kind != LoopItem::Kind::pointwise; });
  return static_cast<double>(std::max<std::ptrdiff_t>(n, 1));
}

}  // namespace

RowLayout loop_row_layout(const common::Expression& e, std::uint32_t local_size, const Limits& limits) {
  const RowSchedule schedule(e);
  RowLayout layout = row_layout(schedule, limits);  // its lanes decide about the order of sums
  layout.teams = local_size / layout.lanes;
  layout.shared_words = 0;
  for (const std::size_t r : schedule.kept())
    layout.shared_words += static_cast<std::uint32_t>(schedule.columns()[r]);
  return layout;
}

std::optional<LoopTiling> choose_loop_tiling(const LoopStep& step, const Limits& limits, bool forced) {
  const LoopMachine& machine = limits.small_sizes ? k_loop_cpu : k_loop_gpu;
  const bool shares = step.rows > 0;
  const Index unit = step.row_unit, wanted = (step.rows + machine.wanted_groups - 1) / machine.wanted_groups;
  const Index most = shares ? (std::clamp<Index>(wanted, 1, k_most_rows) + unit - 1) / unit * unit : 1;
  std::optional<LoopTiling> best;
  double least = 0;
  for (const std::uint32_t local_size : machine.local_sizes) {
    if (local_size > limits.local_size) continue;
    LoopTiling t{.rows = static_cast<std::uint32_t>(most), .local_size = local_size, .unrolled = machine.unrolled};
    while (!fits(step, t, limits) && shares && t.rows > unit) t.rows -= static_cast<std::uint32_t>(unit);
    if (!fits(step, t, limits)) continue;
    t.groups = shares ? (static_cast<std::uint64_t>(step.rows) + t.rows - 1) / t.rows : 1;
    std::uint64_t around = 0;  // iterations before and after the steps
    for (const LoopStep::Array& state : step.states)
      around += 2 * (static_cast<std::uint64_t>(shares ? state.row_words * t.rows : state.words) / local_size + 1);
    if (step.packed) around *= 1 + static_cast<std::uint64_t>(std::bit_width(static_cast<std::uint64_t>(step.steps)));
    const std::uint64_t each = loop_items_iterations(step, t, limits);
    if (around + each > limits.iterations) continue;
    t.steps = std::min((limits.iterations - around) / each, static_cast<std::uint64_t>(step.steps));
    const double now = cost(step, t, machine, limits);
    if (best && now >= least) continue;
    least = now;
    best = t;
  }
  if (best && !forced && least > dispatches(step) * machine.start) return std::nullopt;
  return best;
}

}  // namespace unroll::vulkan
