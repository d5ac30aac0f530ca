// SPDX-License-Identifier: Apache-2.0
// Bytes that the dispatches of a recording touch: those that the hazards of the plan state for their nodes, and those
// that they bind.
#include <algorithm>
#include <iterator>

#include "backends/vulkan/program/record.h"

namespace unroll::vulkan {

namespace {

bool is_within(const device::Touch& touch, const std::vector<device::Touch>& others) {
  return std::any_of(others.begin(), others.end(), [&](const device::Touch& other) {
    return touch.memory == other.memory && touch.begin >= other.begin && touch.end <= other.end;
  });
}

}  // namespace

std::vector<device::Touch> Recorder::touches_of(const PlanProgram& program, const NodeWork& work,
                                                const Frame& frame) const {
  const auto task = [&](std::int32_t node) -> const common::Task& {
    return program.hazards->tasks[node];
  };
  std::vector<device::Touch> list;
  const auto add = [&](const common::Task& of) {
    touches(program, of.reads, false, frame, list);
    touches(program, of.writes, true, frame, list);
  };
  add(task(work.node));
  for (const std::int32_t node : work.joined)
    if (node != work.in_tile) add(task(node));
  for (const std::size_t k : work.ahead) {
    const Place& to = frame.outputs[k];
    const Graph& body = *program.plan->graph;
    const bool is_packed = k < frame.packed_outputs.size() && frame.packed_outputs[k];
    const std::size_t begin = is_packed ? to.begin : to.at;
    list.push_back({to.memory, begin,
                    begin + (is_packed ? to.bytes : body.type(body.outputs()[k].value).bytes()), true});
  }
  // A product that its epilogue reads in the tile is nowhere in memory.
  std::vector<device::Touch> in_tile;
  const bool carries = frame.previous && work.carried_product >= 0;
  if (work.in_tile >= 0) touches(program, task(work.in_tile).writes, true, frame, in_tile);
  const std::int32_t product = work.carried_product, maker = work.carried_through;
  if (carries) touches(program, task(maker < 0 ? product : maker).writes, true, *frame.previous, in_tile);
  std::erase_if(list, [&](const device::Touch& t) { return !t.writes && is_within(t, in_tile); });
  if (work.in_tile >= 0) touches(program, task(work.in_tile).reads, false, frame, list);
  if (!carries) return list;
  touches(program, task(product).reads, false, *frame.previous, list);
  if (maker < 0) return list;
  // The node that makes the state reads the product from the tile, too.
  std::vector<device::Touch> reads, tile;
  touches(program, task(maker).reads, false, *frame.previous, reads);
  touches(program, task(product).writes, true, *frame.previous, tile);
  std::copy_if(reads.begin(), reads.end(), std::back_inserter(list),
               [&](const device::Touch& t) { return !is_within(t, tile); });
  return list;
}

// Workspace counts as written, and so does what holds bytes that the node writes.
std::vector<device::Touch> Recorder::bound_by(const PlanProgram& program, const Dispatch& dispatch, const Frame& frame,
                                              const std::vector<device::Touch>& touches) const {
  std::vector<device::Touch> list;
  for (const Operand& operand : dispatch.operands) {
    const Place p = place(program, operand, operand.previous ? *frame.previous : frame);
    const auto holds = [&](const device::Touch& touch) {
      return touch.writes && touch.memory == p.memory && touch.begin < p.begin + p.bytes && p.begin < touch.end;
    };
    const bool writes = operand.workspace || std::any_of(touches.begin(), touches.end(), holds);
    list.push_back({p.memory, bound_begin(p), p.begin + p.bytes, writes});
  }
  return list;
}

void Recorder::log_dispatch(const PlanProgram& program, const NodeWork& work, const Dispatch& dispatch,
                            const Frame& frame, const std::vector<device::Touch>& touches) {
  Command command{.unit = units_, .follows = dispatch.follows, .work = &work, .touches = touches};
  command.operands = bound_by(program, dispatch, frame, touches);
  for (const Operand& operand : dispatch.operands)
    if (operand.workspace) command.workspace_bytes += operand.bytes;
  log_->push_back(std::move(command));
}

}  // namespace unroll::vulkan
