// SPDX-License-Identifier: Apache-2.0
// Loops as dispatches of one kernel.
#include <algorithm>
#include <string>

#include "backends/vulkan/program/program.h"
#include "backends/vulkan/scan/loops.h"
#include "unroll/ir/ops.h"

namespace unroll::vulkan {

namespace {

using common::Expression;

// Marks the inputs and outputs of the scan that the kernel reads and writes.
void mark(const LoopStep& step, std::vector<bool>& inputs, std::vector<bool>& outputs) {
  for (std::size_t i = 0; i < step.states.size(); ++i) inputs[i] = true, outputs[i] = step.kept[i];
  for (const LoopItem& item : step.items)
    for (const auto* list : {&item.inputs, &item.targets})
      for (const LoopPlace& place : *list) {
        if (place.where == LoopPlace::Where::input) inputs[place.index] = true;
        if (place.where == LoopPlace::Where::output) outputs[place.index] = true;
      }
}

// Gives products the order of additions of a step. False: they have parts of blocks (above 4,096 terms), which only
// steps have.
bool set_parts(LoopStep& step, const Limits& limits) {
  for (LoopItem& item : step.items) {
    if (item.kind != LoopItem::Kind::product) continue;
    LoopProduct& p = item.product;
    const ProductSizes sizes{.m = word(p.m), .units = word(p.n), .k = word(p.k)};
    const Tiling in_step = *choose_tiling(sizes, 1, Sum::in_parts, limits);
    if (in_step.tile.in_blocks && in_step.part < p.k) return false;
    p.part = in_step.tile.in_blocks ? k_block_terms : in_step.part;
  }
  return true;
}

}  // namespace

// Neighboring invocations read neighboring columns of weights: those that lie by columns are copied once.
void NodeCompiler::pack_weights(NodeWork& work, LoopStep& step, std::vector<Operand>& packed) {
  const Node& scan = graph().node(work.node);
  for (LoopItem& item : step.items) {
    if (item.kind != LoopItem::Kind::product) continue;
    LoopProduct& p = item.product;
    LoopPlace& weight = item.inputs[1];
    if (weight.where != LoopPlace::Where::input || p.b_column <= 1 || p.n == 1) continue;
    const Operand from = operand(scan.inputs[weight.index]);
    Operand to = workspace(p.k * p.n * dtype_bytes(p.operands));
    to.element = dtype_bytes(p.operands);
    Expression move;
    move.shape = {p.k, p.n};
    move.inputs.push_back({p.operands, {p.b_row, p.b_column}});
    move.results.push_back({0, {p.n, 1}});
    Operand begin = from;
    device::skip(begin, weight.offset, p.operands);
    expression(work, std::move(move), {begin, to});
    weight.index = static_cast<int>(scan.inputs.size() + packed.size());
    weight.offset = 0;
    p.b_row = p.n, p.b_column = 1;
    packed.push_back(to);
  }
}

// Appends the operands of the kernel, of which each buffer is one. `packed`: inputs behind those of the scan.
LoopOperands NodeCompiler::loop_operands(NodeWork& work, const LoopStep& step, const std::vector<Operand>& packed,
                                         Operands& operands) {
  const Node& scan = graph().node(work.node);
  const std::size_t n_inputs = scan.inputs.size() + packed.size();
  std::vector<bool> inputs(n_inputs, false), outputs(scan.outputs.size(), false);
  mark(step, inputs, outputs);
  const auto add = [&](const Operand& operand) {
    operands.push_back(operand);
    return static_cast<int>(operands.size() - 1);
  };
  LoopOperands places;
  places.inputs.assign(n_inputs, -1), places.outputs.assign(outputs.size(), -1);
  places.input_at.assign(n_inputs, 0), places.output_at.assign(outputs.size(), 0);
  for (std::size_t i = 0; i < n_inputs; ++i)
    if (inputs[i])
      places.inputs[i] = add(i < scan.inputs.size() ? operand(scan.inputs[i]) : packed[i - scan.inputs.size()]);
  for (std::int32_t k = 0; k < std::ssize(outputs); ++k)
    if (outputs[k]) places.outputs[k] = add(operand({work.node, k}));
  std::size_t carried = 1;
  for (const LoopStep::Array& state : step.states) carried += state.words;
  places.carry = add(workspace(carried * sizeof(std::uint32_t)));
  if (step.packed) places.live = add(live_rows(work));
  const Buffers buffers = shared_buffers(operands);
  for (auto [list, offsets] : {std::pair(&places.inputs, &places.input_at), {&places.outputs, &places.output_at}})
    for (std::size_t k = 0; k < list->size(); ++k) {
      int& place = (*list)[k];
      if (place < 0) continue;
      (*offsets)[k] = buffers.distance[place];
      place = buffers.of[place];
    }
  places.carry = buffers.of[places.carry];
  if (step.packed) places.live = buffers.of[places.live];
  places.count = buffers.count;
  return places;
}

bool NodeCompiler::whole_loop(NodeWork& work, const common::Hazards& body) {
  const Loops choice = context_.loops;
  if (choice == Loops::steps) return false;
  std::optional<LoopStep> step = loop_step(plan_, work.node, body);
  const Limits& limits = context_.device.limits();
  if (!step || !set_parts(*step, limits)) return false;
  const auto tiling = choose_loop_tiling(*step, limits, choice == Loops::whole);
  if (!tiling) return false;
  NodeWork made{work.node};
  std::vector<Operand> packed;
  pack_weights(made, *step, packed);
  Operands operands;
  const LoopOperands places = loop_operands(made, *step, packed, operands);
  if (operands.size() > most_operands()) return false;
  const Words shader = loop_shader(*step, *tiling, places, setting(), limits);
  const std::string key = "loop" + std::string(reinterpret_cast<const char*>(shader.data()), shader.size() * 4);
  const auto steps = static_cast<std::uint64_t>(step->steps);
  for (std::uint64_t begin = 0; begin < steps; begin += tiling->steps) {
    const bool is_ordered = !made.dispatches.empty();
    const std::uint64_t end = std::min(begin + tiling->steps, steps);
    Dispatch& dispatch = add(made, key, operands, {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)},
                             tiling->groups * tiling->local_size, [&] { return shader; }, tiling->local_size);
    dispatch.follows = is_ordered;
    dispatch.weight = static_cast<int>((end - begin) * step->items.size());
  }
  work.dispatches = std::move(made.dispatches);
  return true;
}

}  // namespace unroll::vulkan
