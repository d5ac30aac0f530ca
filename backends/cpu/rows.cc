// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/rows.h"

#include <algorithm>

#include "backends/cpu/packed_matmul.h"
#include "unroll/ops.h"

namespace unroll::cpu {

namespace {

class RowCheck {
 public:
  RowCheck(const PlanView& view, const ScanLayout& layout, std::int64_t rows)
      : view_(view), graph_(view.graph()), rows_(rows), first_constant_(layout.n_states + layout.n_sequences) {}

  bool run() {
    has_rows_.assign(graph_.nodes().size(), false);
    in_blocks_.assign(graph_.nodes().size(), false);
    for (int i = 0; i < first_constant_; ++i) {
      const ValueId id = graph_.inputs()[static_cast<std::size_t>(i)].value;
      has_rows_[static_cast<std::size_t>(id.node)] = begins_with_rows(graph_.type(id).shape);
    }
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph_.nodes().size()); ++i)
      if (!check(i)) return false;
    return std::all_of(graph_.outputs().begin(), graph_.outputs().end(),
                       [&](const NamedValue& output) { return has(output.value); });
  }

 private:
  bool begins_with_rows(const Shape& shape) const { return shape.rank() > 0 && shape[0] == rows_; }
  bool begins_with_blocks(const Shape& shape) const { return shape.rank() > 1 && shape[0] * shape[1] == rows_; }
  bool has(const ValueId& id) const { return has_rows_[static_cast<std::size_t>(id.node)]; }
  bool blocks(const ValueId& id) const { return in_blocks_[static_cast<std::size_t>(id.node)]; }

  // Row r of the node's outputs depends on row r of its operands that have rows; outputs have rows when any operand
  // has.
  bool check(std::int32_t id) {
    const Node& node = graph_.node(id);
    if (node.op == Op::input ||
        std::none_of(node.inputs.begin(), node.inputs.end(), [&](const ValueId& v) { return has(v); }))
      return true;
    has_rows_[static_cast<std::size_t>(id)] = true;
    if (node.op == Op::reshape) return check_reshape(id, node);
    if (node.op == Op::scan) return check_row_group(id, node);
    if (std::any_of(node.inputs.begin(), node.inputs.end(), [&](const ValueId& v) { return blocks(v); })) return false;
    for (const Type& type : node.outputs)
      if (!begins_with_rows(type.shape)) return false;
    if (node.op == Op::fused || is_elementwise(node.op)) return check_pointwise(node);
    switch (node.op) {
      case Op::slice:
      case Op::pad: return node.attributes.get<std::int64_t>("axis") > 0;
      case Op::concat:
        return node.attributes.get<std::int64_t>("axis") > 0 &&
               std::all_of(node.inputs.begin(), node.inputs.end(), [&](const ValueId& v) { return has(v); });
      case Op::reduce_sum:
      case Op::reduce_max: return node.attributes.get<Ints>("axes").front() > 0;
      case Op::matmul: return has(node.inputs[0]) && is_packed_matmul(view_, id, first_constant_);
      default: return false;
    }
  }
  // Rows to blocks of rows and back.
  bool check_reshape(std::int32_t id, const Node& node) {
    const Shape &from = graph_.type(node.inputs[0]).shape, &to = node.outputs[0].shape;
    if (blocks(node.inputs[0])) return begins_with_rows(to) && to.rank() == from.rank() - 1;
    const bool is_cut = begins_with_blocks(to) && to.rank() == from.rank() + 1;
    in_blocks_[static_cast<std::size_t>(id)] = is_cut;
    return is_cut;
  }
  // A scan over blocks of rows (core/passes/map_rows.cc): its steps are independent, and so are the rows in them.
  bool check_row_group(std::int32_t id, const Node& node) {
    const ScanLayout layout = scan_layout(node);
    if (layout.n_states != 0 || layout.packed || layout.has_lengths || layout.has_reset) return false;
    in_blocks_[static_cast<std::size_t>(id)] = true;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const bool sequence = i < static_cast<std::size_t>(layout.n_sequences);
      if (has(node.inputs[i]) != sequence || (sequence && !blocks(node.inputs[i]))) return false;
    }
    return std::all_of(node.outputs.begin(), node.outputs.end(),
                       [&](const Type& type) { return begins_with_blocks(type.shape); });
  }
  // Operands with rows have them where the result has, others have one row for all.
  bool check_pointwise(const Node& node) const {
    const Shape& shape = node.outputs[0].shape;
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](const ValueId& v) {
      const Shape& from = graph_.type(v).shape;
      return has(v) ? from.rank() == shape.rank() : from.rank() < shape.rank() || from[0] == 1;
    });
  }

  const PlanView& view_;
  const Graph& graph_;
  std::int64_t rows_;
  int first_constant_;
  std::vector<bool> has_rows_;   // [node]
  std::vector<bool> in_blocks_;  // [node] the rows are two axes: blocks, rows of a block
};

}  // namespace

std::int64_t separate_rows(const PlanView& body, const ScanLayout& layout) {
  if (layout.packed || layout.n_states == 0 || layout.has_lengths || layout.has_reset) return 0;
  const Shape& state = body.graph().type(body.graph().inputs()[0].value).shape;
  if (state.rank() == 0 || state[0] < 2) return 0;
  return RowCheck(body, layout, state[0]).run() ? state[0] : 0;
}

}  // namespace unroll::cpu
