// SPDX-License-Identifier: Apache-2.0
// Packed loops: a step runs on its first rows, whose number the device reads. Rows that have ended keep their states,
// since nothing is stored beyond the rows of a step.
#include <algorithm>

#include "backends/common/walk.h"
#include "backends/vulkan/program/program.h"
#include "unroll/ops.h"

namespace unroll::vulkan {

namespace {

using common::Expression;

bool is_expression(const Node& node) { return node.op == Op::fused || is_elementwise(node.op); }

Operand in_arena(std::size_t offset, const Type& type, std::size_t bytes) {
  return {.storage = {Storage::Place::arena, 0, offset, {}}, .bytes = bytes, .element = dtype_bytes(type.dtype)};
}

std::int64_t packed_batch(const Plan& plan, std::int32_t scan) {
  const Graph& body = *plan.bodies[static_cast<std::size_t>(scan)]->graph;
  return body.type(body.outputs()[0].value).shape[0];
}

}  // namespace

void NodeCompiler::set_packed(const Plan& outer, std::int32_t scan) {
  const Node& node = outer.graph->node(scan);
  const ScanLayout layout = scan_layout(node);
  Packed packed{.n_states = layout.n_states,
                .n_inputs = static_cast<int>(graph().inputs().size()),
                .batch = packed_batch(outer, scan),
                .reverse = layout.reverse};
  packed.has_rows.assign(graph().nodes().size(), false);
  for (std::size_t i = 0; i < graph().inputs().size(); ++i) {
    packed.inputs.push_back(device::is_packed_sequence(outer, scan, i));
    const bool is_state = i < static_cast<std::size_t>(layout.n_states);
    packed.has_rows[static_cast<std::size_t>(graph().inputs()[i].value.node)] = is_state || packed.inputs[i];
  }
  for (std::size_t n = 0; n < packed.has_rows.size(); ++n)
    for (const ValueId in : graph().node(static_cast<std::int32_t>(n)).inputs)
      packed.has_rows[n] = packed.has_rows[n] || packed.has_rows[static_cast<std::size_t>(in.node)];
  for (std::size_t k = 0; k < node.outputs.size(); ++k)
    packed.outputs.push_back(static_cast<int>(k) >= layout.n_states &&
                             outer.storage[static_cast<std::size_t>(scan)][k].place != Storage::Place::none);
  for (std::size_t i = 0; i < static_cast<std::size_t>(layout.n_states); ++i)
    packed.kept.push_back(outer.storage[static_cast<std::size_t>(scan)][i].place != Storage::Place::none);
  packed_ = std::move(packed);
}

bool NodeCompiler::may_carry(int state) const {
  if (!packed_ || state < 0) return true;
  const auto index = static_cast<std::size_t>(state);
  const Storage& s = plan_.outputs[index];
  return (packed_->reverse || !packed_->kept[index]) && s.place == Storage::Place::output && s.index == state;
}

bool NodeCompiler::goes_by_rows(std::int32_t node, const Shape& shape) const {
  return packed_ && packed_->has_rows[static_cast<std::size_t>(node)] && shape.rank() > 0 && shape[0] == packed_->batch;
}
std::uint32_t NodeCompiler::row_items(std::int32_t node, const Shape& shape, std::int64_t items) const {
  return goes_by_rows(node, shape) ? word(items / packed_->batch) : 0;
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
    LiveRows::Operand way{.previous = operand.previous};
    const auto index = static_cast<std::size_t>(operand.storage.index);
    std::int64_t elements = 0;
    if (!operand.workspace && operand.storage.place == Storage::Place::input && index < packed_->inputs.size()) {
      way.moves = packed_->inputs[index];
      elements = type(graph().inputs()[index].value).shape.elements();
    } else if (!operand.workspace && operand.storage.place == Storage::Place::output) {
      way.moves = packed_->outputs[index];
      way.guards = way.moves || static_cast<int>(index) < packed_->n_states;
      elements = type(graph().outputs()[index].value).shape.elements();
    }
    live.operands.push_back(way);
    key += static_cast<char>('0' + way.moves + 2 * way.guards + 4 * way.previous);
    if (way.is_plain()) continue;
    any = true;
    params.push_back(word(elements / packed_->batch));
    params.push_back(word(static_cast<std::int64_t>(operand.storage.offset / operand.element)));
  }
  if (!any) return;
  key += "," + std::to_string(live.param);
  const Storage pair{Storage::Place::input, packed_->n_inputs, 0, {}};
  operands.push_back({.storage = pair, .bytes = 2 * sizeof(std::uint32_t)});
  live_ = std::move(live);
}

// A value that an elementwise node or a row group computes is stored twice by it; a value that the step gets is stored
// by one that reads it.
void NodeCompiler::store_packed_outputs(device::StatePlaces& states, const common::Hazards& hazards,
                                        std::vector<int>& left) {
  const auto n_states = static_cast<std::size_t>(packed_->n_states);
  states.after.assign(n_states, -1), states.before.assign(n_states, -1), states.in_arena.assign(n_states, false);
  states.settled.assign(plan_.outputs.size(), true);
  const auto works = [&](std::int32_t n) { return !hazards.tasks[static_cast<std::size_t>(n)].writes.empty(); };
  for (std::size_t k = 0; k < plan_.outputs.size(); ++k) {
    const Storage& s = plan_.outputs[k];
    const ValueId value = graph().outputs()[k].value;
    const int output = static_cast<int>(k);
    if (s.place == Storage::Place::output && s.index == output) continue;
    if ((k >= n_states && !packed_->outputs[k]) || type(value).shape.elements() == 0) continue;
    const Node& maker = graph().node(value.node);
    if ((is_expression(maker) || maker.op == Op::row_group) && works(value.node) && is_stored(value)) {
      ahead_.emplace_back(value, output);
      continue;
    }
    const std::int32_t reader = maker.op == Op::input ? reader_of(value, hazards) : -1;
    if (reader >= 0) through_.push_back({reader, value, output});
    else left.push_back(output);
  }
}

// An elementwise node of the value's shape, or a row group of the same rows; best one that reads the value anyway.
std::int32_t NodeCompiler::reader_of(ValueId value, const common::Hazards& hazards) const {
  std::int32_t reader = -1;
  const Shape& shape = type(value).shape;
  for (std::int32_t n = 0; n < static_cast<std::int32_t>(graph().nodes().size()); ++n) {
    const Node& node = graph().node(n);
    const Shape& own = node.outputs[0].shape;
    const bool fits = is_expression(node) ? own == shape
                                          : node.op == Op::row_group && own.rank() == 2 && shape.rank() == 2 &&
                                                own[0] == shape[0] && shape[1] > 1;
    if (!fits || hazards.tasks[static_cast<std::size_t>(n)].writes.empty()) continue;
    const bool reads = std::find(node.inputs.begin(), node.inputs.end(), value) != node.inputs.end();
    if (reads) return n;
    if (reader < 0) reader = n;
  }
  return reader;
}

void NodeCompiler::move_output(NodeWork& work, int output) {
  const ValueId value = graph().outputs()[static_cast<std::size_t>(output)].value;
  const Shape& shape = type(value).shape;
  work_ = &work;
  move(type(value).dtype, shape, {operand(value), 0, strides(value, shape)},
       {output_operand(output), 0, common::dense_strides(shape)});
  work.ahead = {output};
}

Operand NodeCompiler::live_rows(NodeWork& work) {
  const Node& node = graph().node(work.node);
  const std::int64_t steps = scan_layout(node).steps;
  require_iterations(node, steps, "steps");
  const Operand rows = workspace(static_cast<std::size_t>(steps) * 2 * sizeof(std::uint32_t));
  add(work, "lr", {operand(node.inputs.back()), rows}, {word(steps), word(packed_batch(plan_, work.node))},
      static_cast<std::uint64_t>(steps), [&] { return live_rows_shader(setting()); })
      .results = 1;
  return rows;
}

// In reverse, rows come in: their first step reads a copy of the state that no step has written for them.
void NodeCompiler::around_packed(NodeWork& work) {
  const Node& node = graph().node(work.node);
  const ScanLayout layout = scan_layout(node);
  const auto n_states = static_cast<std::size_t>(layout.n_states);
  const std::int64_t batch = packed_batch(plan_, work.node);
  const Operand rows = live_rows(work);
  work.loop.live_rows = rows;
  for (std::size_t i = 0; i < n_states && layout.reverse; ++i) {
    const Type& type = node.outputs[i];
    const device::StateCopies at = device::state_copies(plan_, work.node, i);
    const common::Strides dense = common::dense_strides(type.shape);
    Expression e;
    e.shape = type.shape;
    e.inputs.push_back({type.dtype, strides(node.inputs[i], type.shape)});
    e.results = {{0, dense}, {0, dense}};
    expression(work, std::move(e), {operand(node.inputs[i]), in_arena(at.first, type, type.bytes()),
                                    in_arena(at.first + at.apart, type, type.bytes())});
    if (type.shape.elements() > 0) work.dispatches.back().results = 2;
  }
  work.before = std::exchange(work.dispatches, {});
  for (std::size_t i = 0; i < n_states; ++i) {
    const ValueId out{work.node, static_cast<std::int32_t>(i)};
    const Type& type = node.outputs[i];
    if (!is_stored(out) || type.shape.elements() == 0) continue;
    const device::StateCopies at = device::state_copies(plan_, work.node, i);
    const std::size_t element = dtype_bytes(type.dtype);
    add(work, "lf" + std::to_string(static_cast<int>(type.dtype)),
        {rows, operand(node.inputs[i]), in_arena(at.first, type, at.apart + type.bytes()), operand(out)},
        {word(type.shape.elements()), word(type.shape.elements() / batch), word(layout.steps),
         word(static_cast<std::int64_t>(at.apart / element)), word(layout.reverse)},
        static_cast<std::uint64_t>(type.shape.elements()), [&] { return final_states_shader(type.dtype, setting()); })
        .results = 1;
  }
  work.after = std::exchange(work.dispatches, {});
}

}  // namespace unroll::vulkan
