// SPDX-License-Identifier: Apache-2.0
// Packed loops: a step runs on its first rows, whose number the device reads. Rows that have ended keep their states,
// since nothing is stored beyond the rows of a step.
#include <algorithm>

#include "backends/common/walk.h"
#include "backends/vulkan/program/program.h"
#include "unroll/ir/ops.h"

namespace unroll::vulkan {

bool NodeCompiler::may_carry(int state) const {
  if (!packed_ || state < 0) return true;
  const Storage& s = plan_.outputs[state];
  return (packed_->reverse || !packed_->kept[state]) && s.place == Storage::Place::output && s.index == state;
}

std::uint32_t NodeCompiler::row_items(std::int32_t node, const Shape& shape, std::int64_t items) const {
  return packed_ && packed_->goes_by_rows(node, shape) ? word(items / packed_->batch) : 0;
}

Setting NodeCompiler::setting() const {
  Setting setting = context_.setting();
  if (live_) setting.live = &*live_;
  return setting;
}

void NodeCompiler::mark_live(std::string& key, Operands& operands, Params& params, std::uint32_t row_items) {
  live_.reset();
  if (!packed_) return;
  LiveRows live{.param = static_cast<int>(params.size()), .by_rows = row_items > 0, .reverse = packed_->reverse};
  if (live.by_rows) params.push_back(row_items);
  bool any = live.by_rows;
  key += live.by_rows ? (live.reverse ? "|-" : "|+") : "|";
  for (const Operand& operand : operands) {
    const device::PackedBody::Way of = packed_->way_of(operand, graph());
    const LiveRows::Operand way{.moves = of.moves, .guards = of.guards, .previous = operand.previous};
    live.operands.push_back(way);
    key += static_cast<char>('0' + way.moves + 2 * way.guards + 4 * way.previous);
    if (way.is_plain()) continue;
    any = true;
    params.push_back(word(of.row_elements));
    params.push_back(word(static_cast<std::int64_t>(operand.storage.offset / operand.element)));
  }
  if (!any) return;
  key += "," + std::to_string(live.param);
  operands.push_back(packed_->live_rows());
  live_ = std::move(live);
}

void NodeCompiler::move_output(NodeWork& work, int output) {
  work_ = &work;
  Lowering::move_output(output);
  work.ahead = {output};
}

Operand NodeCompiler::live_rows(NodeWork& work) {
  const Node& node = graph().node(work.node);
  const std::int64_t steps = scan_layout(node).steps;
  require_iterations(node, steps, "steps");
  const Operand rows = workspace(steps * 2 * sizeof(std::uint32_t));
  add(work, "lr", {operand(node.inputs.back()), rows}, {word(steps), word(device::packed_batch(plan_, work.node))},
      static_cast<std::uint64_t>(steps), [&] { return live_rows_shader(setting()); })
      .results = 1;
  return rows;
}

// In reverse, rows come in: their first step reads a copy of the state that no step has written for them.
void NodeCompiler::around_packed(NodeWork& work) {
  const Node& node = graph().node(work.node);
  const ScanLayout layout = scan_layout(node);
  const Operand rows = live_rows(work);
  work.loop.live_rows = rows;
  for (int i = 0; i < layout.n_states && layout.reverse; ++i) {
    Operands operands;
    common::Expression e = first_states(work.node, i, operands);
    expression(work, std::move(e), std::move(operands));
    if (node.outputs[i].shape.elements() > 0) work.dispatches.back().results = 2;
  }
  work.before = std::exchange(work.dispatches, {});
  for (FinalState& state : final_states(work.node, rows))
    add(work, "lf" + std::to_string(static_cast<int>(state.dtype)), std::move(state.operands), words(state.sizes),
        state.sizes[0], [&] { return final_states_shader(state.dtype, setting()); })
        .results = 1;
  work.after = std::exchange(work.dispatches, {});
}

}  // namespace unroll::vulkan
