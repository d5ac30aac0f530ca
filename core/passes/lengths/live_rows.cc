// SPDX-License-Identifier: Apache-2.0
#include "core/passes/lengths/live_rows.h"

#include <algorithm>

#include "core/ir/ops/scan_parts.h"
#include "core/passes/rewrite.h"

namespace unroll {

namespace {

std::vector<LengthMask> masks_of(const Graph& graph) {
  std::vector<LengthMask> masks;
  for (const Node& node : graph.nodes()) {
    if (node.op != Op::scan) continue;
    for (const ValueId& id : node.inputs) {
      const auto mask = mask_of(graph, id);
      const bool fits = mask && mask->batch > 0 && mask->steps <= INT32_MAX / mask->batch;
      if (fits && std::find(masks.begin(), masks.end(), *mask) == masks.end()) masks.push_back(*mask);
    }
  }
  return masks;
}

}  // namespace

std::optional<LengthMask> mask_of(const Graph& graph, const ValueId& id) {
  const Node& node = graph.node(id.node);
  if (node.op != Op::less) return std::nullopt;
  const Node& time = graph.node(node.inputs[0].node);
  const Shape& lengths = graph.type(node.inputs[1]).shape;
  const Shape& shape = node.outputs[0].shape;
  if (time.op != Op::iota || time.attributes.get<std::int64_t>("axis") != 0 || shape.rank() != 2 ||
      time.outputs[0].shape != shape || lengths != Shape{shape[1]})
    return std::nullopt;
  return LengthMask{node.inputs[1], shape[0], shape[1]};
}

LiveRows::LiveRows(const Graph& graph, const LengthMask& mask, RowOrder order)
    : graph_(graph), mask_(mask), order_(order) {
  for (std::size_t i = 0; i < graph_.nodes().size(); ++i) bodies_.push_back(body_of(i));
  do {
    find_zeros();
    if (order_ == RowOrder::given) find_bounds();
  } while (!find_reads());
}

bool LiveRows::any() const {
  return std::any_of(bodies_.begin(), bodies_.end(), [](const RowBody& body) { return static_cast<bool>(body); });
}

RowBody LiveRows::body_of(std::size_t i) const {
  if (node(i).op != Op::scan) return {};
  const ScanLayout l = scan_layout(node(i));
  if (l.has_lengths || l.has_reset || l.packed || l.steps != mask_.steps || l.steps == 0) return {};
  std::vector<bool> masks(node(i).inputs.size(), false);
  for (std::size_t k = 0; k < masks.size(); ++k)
    masks[k] = scan_role(l, k) == ScanRole::sequence && mask_of(graph_, node(i).inputs[k]) == mask_;
  if (std::find(masks.begin(), masks.end(), true) == masks.end()) return {};
  return row_body(node(i), masks, mask_.batch, order_);
}

int LiveRows::row_axes(const Shape& s) const {
  if (s.rank() >= 2 && s[0] == mask_.steps && s[1] == mask_.batch) return 2;
  return s.rank() >= 1 && s[0] == places() ? 1 : 0;
}
bool LiveRows::is_row_sequence(const Node& scan, const ScanLayout& l, std::size_t k) const {
  return scan_role(l, k) == ScanRole::sequence && row_axes(shape(scan.inputs[k])) == 2;
}
// An operand that lines up with the rows of the result.
bool LiveRows::has_same_rows(const ValueId& operand, const Shape& result) const {
  const Shape& s = shape(operand);
  return s.rank() == result.rank() && row_axes(s) > 0 && row_axes(s) == row_axes(result);
}
// An operand that is the same in every row.
bool LiveRows::is_same_in_all_rows(const ValueId& operand, const Shape& result) const {
  return shape(operand).rank() + row_axes(result) <= result.rank();
}

// True if the node can be computed row by row from packed operands.
bool LiveRows::is_rowwise(std::size_t i) const {
  const Node& n = node(i);
  const Shape& out = n.outputs[0].shape;
  const int rows = row_axes(out);
  if (rows == 0) return false;
  if (is_elementwise(n.op))
    return std::all_of(n.inputs.begin(), n.inputs.end(),
                       [&](const ValueId& id) { return has_same_rows(id, out) || is_same_in_all_rows(id, out); });
  switch (n.op) {
    case Op::reshape: return row_axes(shape(n.inputs[0])) > 0;
    case Op::broadcast: return is_same_in_all_rows(n.inputs[0], out);
    case Op::slice:
    case Op::pad:
    case Op::concat:  // with one sequence [T,1] is rows of one element, and [T,B] too
      return n.attributes.get<std::int64_t>("axis") >= rows &&
             std::all_of(n.inputs.begin(), n.inputs.end(), [&](const ValueId& id) { return has_same_rows(id, out); });
    case Op::matmul:
      return rows == 1 && n.inputs.size() == 2 && out.rank() == 2 && !n.attributes.get<bool>("transpose_a");
    case Op::reduce_sum:
    case Op::reduce_max: {  // within rows; where ended rows are computed, ended_bounds knows nothing of these ops
      const Ints& axes = n.attributes.get<Ints>("axes");
      return order_ == RowOrder::by_length && !axes.empty() && axes[0] >= rows && row_axes(shape(n.inputs[0])) == rows;
    }
    default: return false;
  }
}
bool LiveRows::is_mask(const ValueId& id) const {
  const Node& n = graph_.node(id.node);
  if (mask_of(graph_, id) == mask_) return true;
  return n.op == Op::reshape && row_axes(n.outputs[0].shape) > 0 && is_mask(n.inputs[0]);
}
bool LiveRows::selects_by_mask(std::size_t i) const {
  const Node& n = node(i);
  return n.op == Op::select && is_mask(n.inputs[0]) && shape(n.inputs[1]) == n.outputs[0].shape;
}
bool LiveRows::is_redundant_mask(std::size_t i) const {
  return order_ == RowOrder::by_length && zero_.of_node(i)[0] && selects_by_mask(i) && is_zero(node(i).inputs[1]);
}
bool LiveRows::operand_has_rows(std::size_t i, std::size_t k) const {
  const Node& n = node(i);
  if (n.op == Op::matmul) return k == 0;
  if (n.op == Op::broadcast) return false;
  return !is_elementwise(n.op) || has_same_rows(n.inputs[k], n.outputs[0].shape);
}

void LiveRows::find_zeros() {
  zero_ = PerValue<bool>(graph_);
  for (std::size_t i = 0; i < bodies_.size(); ++i) {
    std::vector<bool>& zero = zero_.of_node(i);
    if (bodies_[i]) {
      const auto first = node(i).outputs.size() - bodies_[i].zero.size();
      for (std::size_t k = 0; k < bodies_[i].zero.size(); ++k) zero[first + k] = bodies_[i].zero[k];
    } else if (node(i).op == Op::constant || is_rowwise(i)) {
      std::vector<EndedRow> operands;
      for (const ValueId& id : node(i).inputs)
        operands.push_back({is_zero(id)   ? EndedRow::Is::zero
                            : is_mask(id) ? EndedRow::Is::off
                                          : EndedRow::Is::anything});
      zero[0] = ended_row(graph_, node(i), operands).is == EndedRow::Is::zero;
    }
  }
}
bool LiveRows::is_zero(const ValueId& id) const { return zero_[id]; }

// Loops write zeros to rows that they leave out. Later nodes compute these rows too.
void LiveRows::find_bounds() {
  bounds_ = PerValue<EndedBounds>(graph_);
  for (std::size_t i = 0; i < bodies_.size(); ++i) {
    std::vector<EndedBounds>& bounds = bounds_.of_node(i);
    if (bodies_[i]) {
      const std::size_t first = bounds.size() - bodies_[i].zero.size();
      for (std::size_t k = first; k < bounds.size(); ++k) {
        bounds[k] = EndedBounds::of(0);
        if (!bodies_[i].zero[k - first]) bounds[k].loop = static_cast<std::int32_t>(i);
      }
      continue;
    }
    std::vector<EndedBounds> operands;
    for (const ValueId& id : node(i).inputs)
      operands.push_back(bounds_[id]);
    bounds[0] = ended_bounds(graph_, static_cast<std::int32_t>(i), operands);
  }
}
// In missing rows, zero times an operand is zero unless the operand is infinite. False when a loop had to be left as it
// is.
bool LiveRows::keeps_finite(std::size_t i) {
  if (order_ != RowOrder::given) return true;
  for (const ValueId& id : node(i).inputs) {
    const EndedBounds& bounds = bounds_[id];
    if (bounds.is_finite()) continue;
    bodies_[bounds.loop] =
        RowBody::no(node_text(graph_.node(bounds.cause)) + " behind it may be infinite where a row has ended");
    return false;
  }
  return true;
}

// A sum over all rows, of one value or of products of two, that adds zero for missing rows.
bool LiveRows::sums_rows(std::size_t i) const {
  const Node& n = node(i);
  if (n.op == Op::matmul && n.inputs.size() == 2 && n.outputs[0].shape.rank() == 2)
    return n.attributes.get<bool>("transpose_a") && !n.attributes.get<bool>("transpose_b") &&
           shape(n.inputs[0])[0] == places() && (is_zero(n.inputs[0]) || is_zero(n.inputs[1]));
  if (n.op != Op::reduce_sum || !is_zero(n.inputs[0]) || !is_float(n.outputs[0].dtype)) return false;
  const Ints& axes = n.attributes.get<Ints>("axes");
  const int rows = row_axes(shape(n.inputs[0]));
  if (rows == 0 || static_cast<int>(axes.size()) < rows) return false;
  for (int axis = 0; axis < rows; ++axis)
    if (axes[axis] != axis) return false;
  return true;
}

// From the outputs back. False when a loop had to be left as it is.
bool LiveRows::find_reads() {
  const std::size_t n = graph_.nodes().size();
  padded_.assign(n, false);
  packed_.assign(n, false);
  for (const NamedValue& output : graph_.outputs()) {
    if (!want_padded(output.value)) return false;
  }
  for (std::size_t i = n; i-- > 0;) {
    if (!padded_[i] && !packed_[i]) continue;
    if (!want_operands(i)) return false;
  }
  return true;
}
bool LiveRows::want_padded(const ValueId& id) {
  const std::int32_t i = id.node;
  const bool stack = bodies_[i] && id.output >= scan_layout(node(i)).n_states;
  if (stack && !is_zero(id)) {  // what ended rows hold cannot be had from packed rows
    bodies_[i] = RowBody::no("its result " + std::to_string(id.output) + " is read in rows that have ended");
    return false;
  }
  padded_[i] = true;
  return true;
}
bool LiveRows::want_operands(std::size_t i) {
  const Node& n = node(i);
  const auto want = [&](std::size_t k, bool in_rows) {
    if (in_rows) packed_[n.inputs[k].node] = true;
    return in_rows || want_padded(n.inputs[k]);
  };
  if (bodies_[i]) {
    const ScanLayout l = scan_layout(n);
    for (std::size_t k = 0; k < n.inputs.size(); ++k) {
      if (!want(k, is_row_sequence(n, l, k))) return false;
    }
    return true;
  }
  const bool by_rows = is_packed(i), sums = sums_rows(i);
  if ((sums || (by_rows && padded_[i])) && !keeps_finite(i)) return false;
  if (by_rows && selects_by_mask(i)) return want(1, true);
  for (std::size_t k = 0; k < n.inputs.size(); ++k)
    if (!want(k, by_rows ? operand_has_rows(i, k) : sums)) return false;
  return true;
}
// If the padded value exists anyway, a gather makes the packed one from it. Exception: products whose missing rows are
// zero are computed in packed form and scattered. A selection of such rows by the mask is then a no-op.
bool LiveRows::is_packed(std::size_t i) const {
  const bool is_spread = node(i).op == Op::matmul ? zero_.of_node(i)[0] : is_redundant_mask(i);
  return is_rowwise(i) && (!padded_[i] || is_spread);
}

std::shared_ptr<const Graph> for_each_mask(const Graph& graph, const MaskedPass& change) {
  std::shared_ptr<const Graph> result = copy_graph(graph);
  for (bool changed = true; changed;) {  // each round leaves fewer loops that read a mask
    changed = false;
    for (const LengthMask& mask : masks_of(*result)) {
      const auto next = change(*result, mask);
      if (!next) continue;
      result = next;
      changed = true;
      break;
    }
  }
  return result;
}

void note_masked(PassLog& log, const Graph& graph, RowOrder order) {
  for (const LengthMask& mask : masks_of(graph)) {
    const LiveRows rows(graph, mask, order);
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
      if (rows.body(i).reason.empty()) continue;
      const InLoop in_loop(&log, graph, graph.nodes()[i]);
      log.add("kept masked", rows.body(i).reason);
    }
  }
}

}  // namespace unroll
