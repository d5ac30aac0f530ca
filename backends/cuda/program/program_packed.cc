// SPDX-License-Identifier: Apache-2.0
// Packed loops: a step runs on its first rows, whose number its kernels read from the device, so launches and graphs
// stay as they are when lengths change. Nothing is stored beyond these rows: rows that have ended keep their states.
#include <utility>

#include "backends/cuda/program/program.h"
#include "unroll/ir/ops.h"

namespace unroll::cuda {

std::int64_t NodeCompiler::live_items(const Shape& shape, std::int64_t items) const {
  return packed_ && packed_->goes_by_rows(work_->node, shape) ? items / packed_->batch : 0;
}

std::string NodeCompiler::live_text(std::string text, Operands& operands, std::int64_t items, bool finds_end) const {
  if (!packed_) return text;
  std::vector<std::int64_t> moves;
  bool any = items > 0 || finds_end;
  for (const Operand& operand : operands) {
    const device::PackedBody::Way way = packed_->way_of(operand, graph());
    if (way.guards && !any)
      device::refuse("cuda", "a packed loop whose step makes " +
                                 std::string(op_info(graph().node(work_->node).op).name) + " without rows");
    moves.push_back(way.moves ? way.row_elements : 0);
  }
  for (const std::int64_t elements : moves) any = any || elements > 0;
  if (!any) return text;
  operands.push_back(packed_->live_rows());
  return for_live_rows(std::move(text), moves, items);
}

bool NodeCompiler::reads_live_rows(const Operands& operands) const {
  const Storage& last = operands.back().storage;
  return packed_ && last.place == Storage::Place::input && last.index == packed_->n_inputs;
}

bool NodeCompiler::is_guarded(ValueId id) const {
  return packed_ && packed_->way_of({.storage = storage(id)}, graph()).guards;
}

bool NodeCompiler::begins_at_step(ValueId id) const {
  return packed_ && packed_->way_of({.storage = storage(id)}, graph()).moves;
}

// The library gets no row count from the device. It computes what is not there too, from and to memory that nobody
// reads. In a step own kernels compute fewer rows, and the library is taken where tensor cores multiply. Sums over
// rows need zeros in both operands, which only values of the plan may get.
bool NodeCompiler::may_take_all_rows(const Node& node, ValueId c, const device::ProductShape& shape,
                                     bool has_tensor_cores) const {
  if (packed_ && packed_->goes_by_rows(work_->node, type(c).shape)) return has_tensor_cores;
  const auto in_arena = [&](ValueId id) { return common::space_of(plan_, storage(id)).place == Storage::Place::arena; };
  const bool sums_rows = node.inputs.size() > 2 && node.attributes.get_or<bool>("transpose_a", false);
  if (!sums_rows) return true;
  const bool repeats = shape.a_column == 0 || shape.b_row == 0;  // zeros would be in all rows
  return !repeats && in_arena(node.inputs[0]) && in_arena(node.inputs[1]);
}

void NodeCompiler::zero_tails(const Node& node, const device::ProductShape& shape) {
  if (node.inputs.size() < 3 || !node.attributes.get_or<bool>("transpose_a", false)) return;
  const MatrixRows of[] = {{shape.k, shape.m, shape.a_column, shape.a_row},
                           {shape.k, shape.n, shape.b_row, shape.b_column}};
  for (std::size_t k = 0; k < 2; ++k)
    if (zeroed_.insert(node.inputs[k]).second)
      add(print_zero_tail(type(node.inputs[k]).dtype, of[k]), {operand(node.inputs[2]), operand(node.inputs[k])});
}

void NodeCompiler::add_second_places(NodeWork& work) const {
  for (const int output : stored_ahead(work.node)) {
    const Operand to = output_operand(output);
    work.writes.push_back({common::space_of(plan_, to.storage), {{0, to.bytes}}});
  }
  for (const Through& each : through_)
    if (each.node == work.node) work.reads.push_back(common::region_of(plan_, each.input));
}

void NodeCompiler::compile_move(NodeWork& work, int output) {
  work_ = &work;
  const ValueId value = graph().outputs()[output].value;
  const Operand to = output_operand(output);
  work.node = value.node;
  work.reads = {common::region_of(plan_, value)};
  work.writes = {{common::space_of(plan_, to.storage), {{0, to.bytes}}}};
  move_output(output);
}

// In reverse, rows come in: their first step reads a copy of the state that no step has written for them.
void NodeCompiler::around_packed(NodeWork& work) {
  work_ = &work;
  const Node& node = graph().node(work.node);
  const ScanLayout layout = scan_layout(node);
  const Operand rows = workspace(layout.steps * 2 * sizeof(std::uint32_t));
  work.loop.live_rows = rows;
  add(print_live_rows(layout.steps, device::packed_batch(plan_, work.node)), {operand(node.inputs.back()), rows});
  for (int i = 0; i < layout.n_states && layout.reverse; ++i) {
    Operands operands;
    common::Expression e = first_states(work.node, i, operands);
    expression(std::move(e), std::move(operands));
  }
  work.before = std::exchange(work.launches, {});
  for (FinalState& state : final_states(work.node, rows))
    add(print_final_states(state.dtype, state.sizes), std::move(state.operands));
  work.after = std::exchange(work.launches, {});
}

}  // namespace unroll::cuda
