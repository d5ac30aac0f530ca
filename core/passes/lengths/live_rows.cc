// SPDX-License-Identifier: Apache-2.0
#include "core/passes/lengths/live_rows.h"

#include <algorithm>

#include "core/passes/rewrite.h"

namespace unroll {

namespace {

std::size_t index(const ValueId& id) { return static_cast<std::size_t>(id.node); }

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
  for (int k = l.n_states; k < l.n_states + l.n_sequences; ++k)
    masks[k] = mask_of(graph_, node(i).inputs[k]) == mask_;
  if (std::find(masks.begin(), masks.end(), true) == masks.end()) return {};
  return row_body(node(i), masks, mask_.batch, order_);
}

int LiveRows::row_axes(const Shape& s) const {
  if (s.rank() >= 2 && s[0] == mask_.steps && s[1] == mask_.batch) return 2;
  return s.rank() >= 1 && s[0] == places() ? 1 : 0;
}
bool LiveRows::is_row_sequence(const Node& scan, const ScanLayout& l, std::size_t k) const {
  return k >= static_cast<std::size_t>(l.n_states) && k < static_cast<std::size_t>(l.n_states + l.n_sequences) &&
         row_axes(shape(scan.inputs[k])) == 2;
}
// An operand that lines up with the rows of the result.
bool LiveRows::lines_up(const ValueId& operand, const Shape& result) const {
  const Shape& s = shape(operand);
  return s.rank() == result.rank() && row_axes(s) > 0 && row_axes(s) == row_axes(result);
}
// An operand that is the same in every row.
bool LiveRows::is_shared(const ValueId& operand, const Shape& result) const {
  return shape(operand).rank() + row_axes(result) <= result.rank();
}

// Whether the node can be computed row by row from packed operands.
bool LiveRows::goes_by_rows(std::size_t i) const {
  const Node& n = node(i);
  const Shape& out = n.outputs[0].shape;
  const int rows = row_axes(out);
  if (rows == 0) return false;
  if (is_elementwise(n.op))
    return std::all_of(n.inputs.begin(), n.inputs.end(),
                       [&](const ValueId& id) { return lines_up(id, out) || is_shared(id, out); });
  switch (n.op) {
    case Op::reshape: return row_axes(shape(n.inputs[0])) > 0;
    case Op::broadcast: return is_shared(n.inputs[0], out);
    case Op::slice:
    case Op::pad:
    case Op::concat:  // with one sequence [T,1] is rows of one element, and [T,B] too
      return n.attributes.get<std::int64_t>("axis") >= rows &&
             std::all_of(n.inputs.begin(), n.inputs.end(), [&](const ValueId& id) { return lines_up(id, out); });
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
bool LiveRows::selects_live(std::size_t i) const {
  const Node& n = node(i);
  return n.op == Op::select && is_mask(n.inputs[0]) && shape(n.inputs[1]) == n.outputs[0].shape;
}
bool LiveRows::selects_zeros(std::size_t i) const {
  return order_ == RowOrder::by_length && zero_[i][0] && selects_live(i) && is_zero(node(i).inputs[1]);
}
bool LiveRows::has_rows(std::size_t i, std::size_t k) const {
  const Node& n = node(i);
  if (n.op == Op::matmul) return k == 0;
  if (n.op == Op::broadcast) return false;
  return !is_elementwise(n.op) || lines_up(n.inputs[k], n.outputs[0].shape);
}

void LiveRows::find_zeros() {
  zero_.assign(graph_.nodes().size(), {});
  for (std::size_t i = 0; i < zero_.size(); ++i) {
    zero_[i].assign(node(i).outputs.size(), false);
    if (bodies_[i]) {
      const auto first = node(i).outputs.size() - bodies_[i].zero.size();
      for (std::size_t k = 0; k < bodies_[i].zero.size(); ++k) zero_[i][first + k] = bodies_[i].zero[k];
    } else if (node(i).op == Op::constant || goes_by_rows(i)) {
      std::vector<EndedRow> operands;
      for (const ValueId& id : node(i).inputs)
        operands.push_back({is_zero(id)   ? EndedRow::Is::zero
                            : is_mask(id) ? EndedRow::Is::off
                                          : EndedRow::Is::anything});
      zero_[i][0] = ended_row(graph_, node(i), operands).is == EndedRow::Is::zero;
    }
  }
}
bool LiveRows::is_zero(const ValueId& id) const { return zero_[index(id)][id.output]; }

// What loops leave out is zero, and what follows from it is computed all the same.
void LiveRows::find_bounds() {
  bounds_.assign(graph_.nodes().size(), {});
  for (std::size_t i = 0; i < bounds_.size(); ++i) {
    bounds_[i].assign(node(i).outputs.size(), {});
    if (bodies_[i]) {
      const auto first = static_cast<std::size_t>(scan_layout(node(i)).n_states);
      for (std::size_t k = first; k < bounds_[i].size(); ++k) {
        bounds_[i][k] = EndedBounds::of(0);
        if (!bodies_[i].zero[k - first]) bounds_[i][k].loop = static_cast<std::int32_t>(i);
      }
      continue;
    }
    std::vector<EndedBounds> operands;
    for (const ValueId& id : node(i).inputs)
      operands.push_back(bounds_[index(id)][id.output]);
    bounds_[i][0] = ended_bounds(graph_, static_cast<std::int32_t>(i), operands);
  }
}
// In rows that are not there, zero times an operand is zero unless the operand is infinite. False when a loop had to be
// left as it is.
bool LiveRows::keeps_finite(std::size_t i) {
  if (order_ != RowOrder::given) return true;
  for (const ValueId& id : node(i).inputs) {
    const EndedBounds& bounds = bounds_[index(id)][id.output];
    if (bounds.is_finite()) continue;
    bodies_[bounds.loop] =
        RowBody::no(node_text(graph_.node(bounds.cause)) + " behind it may be infinite where a row has ended");
    return false;
  }
  return true;
}

// A sum over all rows: of products of two values, or of one value, that adds nothing for rows that are not there.
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
  const std::size_t i = index(id);
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
    if (in_rows) packed_[index(n.inputs[k])] = true;
    return in_rows || want_padded(n.inputs[k]);
  };
  if (bodies_[i]) {
    const ScanLayout l = scan_layout(n);
    for (std::size_t k = 0; k < n.inputs.size(); ++k) {
      if (!want(k, is_row_sequence(n, l, k))) return false;
    }
    return true;
  }
  const bool by_rows = is_by_rows(i), sums = sums_rows(i);
  if ((sums || (by_rows && padded_[i])) && !keeps_finite(i)) return false;
  if (by_rows && selects_live(i)) return want(1, true);
  for (std::size_t k = 0; k < n.inputs.size(); ++k)
    if (!want(k, by_rows ? has_rows(i, k) : sums)) return false;
  return true;
}
// A padded form that is read anyhow gives the packed one by a gather. But a product of rows that are zero where they
// are not there is better made packed and spread out, and a selection of such rows is nothing then.
bool LiveRows::is_by_rows(std::size_t i) const {
  const bool is_spread = node(i).op == Op::matmul ? zero_[i][0] : selects_zeros(i);
  return goes_by_rows(i) && (!padded_[i] || is_spread);
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
