// SPDX-License-Identifier: Apache-2.0
// Packed sequences: a scan whose rows end at t = lengths[b] runs on the rows that are still there, longest first, and
// the products before and after it run on the rows that exist, so that cost follows the sum of the lengths. The form of
// torch.nn.utils.rnn.pack_padded_sequence, made by the compiler: "packed" is [N,...] with the rows of step 0, then of
// step 1, ...; "padded" is [T,B,...], or [T*B,...] when flattened. N is known on the device only, so a packed value has
// room for T*B rows.
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "core/passes/row_body.h"
#include "unroll/ops.h"

namespace unroll {

namespace {

// live[t,b] = t < lengths[b].
struct Mask {
  ValueId lengths;
  std::int64_t steps = 0, batch = 0;
  friend bool operator==(const Mask&, const Mask&) = default;
};
std::optional<Mask> mask_of(const Graph& graph, const ValueId& id) {
  const Node& node = graph.node(id.node);
  if (node.op != Op::less) return std::nullopt;
  const Node& time = graph.node(node.inputs[0].node);
  const Shape& lengths = graph.type(node.inputs[1]).shape;
  const Shape& shape = node.outputs[0].shape;
  if (time.op != Op::iota || time.attributes.get<std::int64_t>("axis") != 0 || shape.rank() != 2 ||
      time.outputs[0].shape != shape || lengths != Shape{shape[1]})
    return std::nullopt;
  return Mask{node.inputs[1], shape[0], shape[1]};
}

// All that is packed by one vector of lengths.
class Packing {
 public:
  Packing(const Graph& graph, const Mask& mask) : graph_(graph), mask_(mask) {}

  // Null when there is no scan to pack.
  std::shared_ptr<const Graph> run() {
    const std::size_t n = graph_.nodes().size();
    bodies_.resize(n);
    for (std::size_t i = 0; i < n; ++i) bodies_[i] = body_of(i);
    do {
      find_zeros();
    } while (!find_forms());
    if (std::none_of(bodies_.begin(), bodies_.end(), [](const auto& body) { return body != nullptr; })) return nullptr;
    return emit();
  }

 private:
  static std::size_t index(const ValueId& id) { return static_cast<std::size_t>(id.node); }
  static ValueId output_of(std::size_t i, std::size_t k) {
    return {static_cast<std::int32_t>(i), static_cast<std::int32_t>(k)};
  }
  const Node& node(std::size_t i) const { return graph_.nodes()[i]; }
  const Shape& shape(const ValueId& id) const { return graph_.type(id).shape; }
  std::int64_t places() const { return mask_.steps * mask_.batch; }

  std::unique_ptr<RowBody> body_of(std::size_t i) const {
    if (node(i).op != Op::scan) return nullptr;
    const ScanLayout l = scan_layout(node(i));
    if (l.has_lengths || l.has_reset || l.packed || l.steps != mask_.steps || l.steps == 0) return nullptr;
    std::vector<bool> masks(node(i).inputs.size(), false);
    for (int k = l.n_states; k < l.n_states + l.n_sequences; ++k)
      masks[static_cast<std::size_t>(k)] = is_mask(node(i).inputs[static_cast<std::size_t>(k)]);
    if (std::find(masks.begin(), masks.end(), true) == masks.end()) return nullptr;
    return row_body(node(i), masks, mask_.batch);
  }
  bool is_mask(const ValueId& id) const { return mask_of(graph_, id) == mask_; }

  // How many leading axes are the padded rows: 2 for [T,B,...], 1 for [T*B,...], 0 for neither.
  int row_axes(const Shape& s) const {
    if (s.rank() >= 2 && s[0] == mask_.steps && s[1] == mask_.batch) return 2;
    return s.rank() >= 1 && s[0] == places() ? 1 : 0;
  }
  Shape packed_shape(const Shape& s) const {
    Ints dims{places()};
    dims.insert(dims.end(), s.begin() + row_axes(s), s.end());
    return Shape(dims);
  }
  bool is_row_sequence(const Node& scan, const ScanLayout& l, std::size_t k) const {
    return k >= static_cast<std::size_t>(l.n_states) && k < static_cast<std::size_t>(l.n_states + l.n_sequences) &&
           row_axes(shape(scan.inputs[k])) == 2;
  }
  // An operand that lines up with the rows of the result.
  bool has_rows(const ValueId& operand, const Shape& result) const {
    const Shape& s = shape(operand);
    return s.rank() == result.rank() && row_axes(s) > 0 && row_axes(s) == row_axes(result);
  }
  // An operand that is the same in every row.
  bool is_shared(const ValueId& operand, const Shape& result) const {
    return shape(operand).rank() + row_axes(result) <= result.rank();
  }

  // Whether the node can be computed row by row from packed operands.
  bool goes_by_rows(std::size_t i) const {
    const Node& n = node(i);
    const Shape& out = n.outputs[0].shape;
    const int rows = row_axes(out);
    if (rows == 0) return false;
    if (is_elementwise(n.op))
      return std::all_of(n.inputs.begin(), n.inputs.end(),
                         [&](const ValueId& id) { return has_rows(id, out) || is_shared(id, out); });
    switch (n.op) {
      case Op::reshape: return row_axes(shape(n.inputs[0])) > 0;
      case Op::broadcast: return is_shared(n.inputs[0], out);
      case Op::slice:
      case Op::pad:
      case Op::concat: return n.attributes.get<std::int64_t>("axis") >= rows;
      case Op::matmul:
        return rows == 1 && n.inputs.size() == 2 && out.rank() == 2 && !n.attributes.get<bool>("transpose_a");
      default: return false;
    }
  }
  // Operand k of such a node has rows (the others are the same for all).
  bool rows_of(std::size_t i, std::size_t k) const {
    const Node& n = node(i);
    if (n.op == Op::matmul) return k == 0;
    if (n.op == Op::broadcast) return false;
    return !is_elementwise(n.op) || has_rows(n.inputs[k], n.outputs[0].shape);
  }

  // zero_: values that are zero in the rows that are not there.
  void find_zeros() {
    zero_.assign(graph_.nodes().size(), {});
    for (std::size_t i = 0; i < zero_.size(); ++i) {
      zero_[i].assign(node(i).outputs.size(), false);
      if (bodies_[i]) {
        const auto first = node(i).outputs.size() - bodies_[i]->zero.size();
        for (std::size_t k = 0; k < bodies_[i]->zero.size(); ++k) zero_[i][first + k] = bodies_[i]->zero[k];
      } else if (node(i).op == Op::constant || goes_by_rows(i)) {
        std::vector<EndedRow> operands;
        for (const ValueId& id : node(i).inputs)
          operands.push_back({is_zero(id) ? EndedRow::Is::zero : EndedRow::Is::anything});
        zero_[i][0] = ended_row(graph_, node(i), operands).is == EndedRow::Is::zero;
      }
    }
  }
  bool is_zero(const ValueId& id) const { return zero_[index(id)][static_cast<std::size_t>(id.output)]; }

  // A sum over all rows: of products of two values, or of one value, that adds nothing for rows that are not there.
  bool sums_rows(std::size_t i) const {
    const Node& n = node(i);
    if (n.op == Op::matmul && n.inputs.size() == 2 && n.outputs[0].shape.rank() == 2)
      return n.attributes.get<bool>("transpose_a") && !n.attributes.get<bool>("transpose_b") &&
             shape(n.inputs[0])[0] == places() && (is_zero(n.inputs[0]) || is_zero(n.inputs[1]));
    if (n.op != Op::reduce_sum || !is_zero(n.inputs[0]) || !is_float(n.outputs[0].dtype)) return false;
    const Ints& axes = n.attributes.get<Ints>("axes");
    const int rows = row_axes(shape(n.inputs[0]));
    if (rows == 0 || static_cast<int>(axes.size()) < rows) return false;
    for (int axis = 0; axis < rows; ++axis)
      if (axes[static_cast<std::size_t>(axis)] != axis) return false;
    return true;
  }

  // Which form of each node is read, from the outputs back. False when a scan had to be left as it is.
  bool find_forms() {
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
  bool want_padded(const ValueId& id) {
    const std::size_t i = index(id);
    const bool stack = bodies_[i] && id.output >= scan_layout(node(i)).n_states;
    if (stack && !is_zero(id)) {  // what ended rows hold cannot be had from packed rows
      bodies_[i] = nullptr;
      return false;
    }
    padded_[i] = true;
    return true;
  }
  bool want_operands(std::size_t i) {
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
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      if (!want(k, by_rows ? rows_of(i, k) : sums)) return false;
    return true;
  }
  // A padded form that is read anyhow gives the packed one by a gather. But a product of rows that are zero where they
  // are not there is better made packed and spread out.
  bool is_by_rows(std::size_t i) const {
    return goes_by_rows(i) && (!padded_[i] || (node(i).op == Op::matmul && zero_[i][0]));
  }

  // The lengths first, then the rest in order.
  std::shared_ptr<const Graph> emit() {
    target_ = std::make_shared<Graph>();
    const std::size_t n = graph_.nodes().size();
    for (const NamedValue& input : graph_.inputs())
      padded_values_[input.value] = target_->input(input.name, graph_.type(input.value));
    std::vector<bool> early(n, false);
    early[index(mask_.lengths)] = true;
    for (std::size_t i = n; i-- > 0;)
      if (early[i])
        for (const ValueId& id : node(i).inputs) early[index(id)] = true;
    for (std::size_t i = 0; i < n; ++i)
      if (early[i]) copy(i);
    places_ = pack_lengths(padded(mask_.lengths), mask_.steps);
    for (std::size_t i = 0; i < n; ++i)
      if ((padded_[i] || packed_[i]) && !early[i]) emit_node(i);
    for (const NamedValue& output : graph_.outputs()) target_->output(output.name, padded(output.value));
    return drop_dead(*target_);
  }
  void copy(std::size_t i) {
    const Node& n = node(i);
    if (n.op == Op::input) return;
    std::vector<Value> operands;
    for (const ValueId& id : n.inputs) operands.push_back(padded(id));
    const auto values = target_->append(n.op, operands, n.attributes, n.body);
    for (std::size_t k = 0; k < values.size(); ++k) padded_values_[output_of(i, k)] = values[k];
  }
  void emit_node(std::size_t i) {
    const ValueId id{static_cast<std::int32_t>(i), 0};
    if (bodies_[i]) emit_scan(i);
    else if (is_by_rows(i)) packed_values_[id] = emit_rows(i);
    else if (sums_rows(i)) padded_values_[id] = emit_sum(i);
    else copy(i);
  }

  void emit_scan(std::size_t i) {
    const Node& n = node(i);
    const ScanLayout l = scan_layout(n);
    const auto n_states = static_cast<std::size_t>(l.n_states);
    std::vector<Value> operands;
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      operands.push_back(k < n_states                 ? gather(padded(n.inputs[k]), places_.order)
                         : is_row_sequence(n, l, k) ? packed(n.inputs[k])
                                                    : padded(n.inputs[k]));
    if (bodies_[i]->reads_order) operands.push_back(places_.order);
    operands.push_back(places_.batch_sizes);
    Attributes attributes = n.attributes;
    attributes.set("packed", true);
    const auto values = target_->append(Op::scan, operands, std::move(attributes), bodies_[i]->body);
    for (std::size_t k = 0; k < values.size(); ++k) {
      const ValueId id = output_of(i, k);
      if (k < n_states) padded_values_[id] = gather(values[k], places_.rank);
      else packed_values_[id] = values[k];
    }
  }
  Value emit_rows(std::size_t i) {
    const Node& n = node(i);
    const Shape& out = n.outputs[0].shape;
    std::vector<Value> operands;
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      operands.push_back(rows_of(i, k) ? packed(n.inputs[k]) : padded(n.inputs[k]));
    if (n.op == Op::reshape) return reshape(operands[0], packed_shape(out));
    if (n.op == Op::broadcast) return broadcast(operands[0], packed_shape(out));
    if (n.op == Op::matmul)
      return matmul_rows(reshape(operands[0], shape(n.inputs[0])), operands[1], places_.rows,
                         {.b = n.attributes.get<bool>("transpose_b")});
    Attributes attributes = n.attributes;
    if (attributes.has("axis")) attributes.set("axis", attributes.get<std::int64_t>("axis") - (row_axes(out) - 1));
    return target_->append_one(n.op, operands, std::move(attributes));
  }
  Value emit_sum(std::size_t i) {
    const Node& n = node(i);
    const Value x = packed(n.inputs[0]);
    if (n.op == Op::matmul)
      return matmul_rows(reshape(x, shape(n.inputs[0])), reshape(packed(n.inputs[1]), shape(n.inputs[1])),
                         places_.rows, {.a = true});
    // A product with ones adds up the rows that are there.
    const Value ones = filled(*target_, {x.dtype(), Shape{places(), 1}}, 1);
    const Shape row = x.shape().removed(0);
    const Value flat = reshape(x, Shape{places(), row.elements()});
    const Value total = reshape(matmul_rows(ones, flat, places_.rows, {.a = true}), row);
    Ints axes;
    const int rows = row_axes(shape(n.inputs[0]));
    for (const std::int64_t axis : n.attributes.get<Ints>("axes"))
      if (axis >= rows) axes.push_back(axis - rows);
    return reshape(axes.empty() ? total : reduce_sum(total, axes), n.outputs[0].shape);
  }

  // Padded and packed forms of emitted values, each made when it is first read.
  Value padded(const ValueId& id) {
    Value& value = padded_values_[id];
    if (value) return value;
    const Shape& s = shape(id);
    value = reshape(gather(packed_values_.at(id), places_.unpack), s);
    return value;
  }
  Value packed(const ValueId& id) {
    Value& value = packed_values_[id];
    if (!value) value = gather(reshape(padded(id), packed_shape(shape(id))), places_.pack);
    return value;
  }

  const Graph& graph_;
  const Mask mask_;
  std::vector<std::unique_ptr<RowBody>> bodies_;  // [node] of scans to pack
  std::vector<std::vector<bool>> zero_;           // [node][output]
  std::vector<bool> padded_, packed_;             // [node] forms that are read
  std::shared_ptr<Graph> target_;
  PackedRows places_;
  std::map<ValueId, Value> padded_values_, packed_values_;
};

std::vector<Mask> masks_of(const Graph& graph) {
  std::vector<Mask> masks;
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

void note_packed(PassLog& log, const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    if (node.op != Op::scan) continue;
    const InLoop in_loop(&log, graph, node);
    const bool masked = std::any_of(node.inputs.begin(), node.inputs.end(),
                                    [&](const ValueId& id) { return mask_of(graph, id).has_value(); });
    if (scan_layout(node).packed) log.add("packed: steps run on existing rows only");
    else if (masked) log.add("kept masked", "its body mixes rows, or a result of ended rows is read");
  }
}

}  // namespace

std::shared_ptr<const Graph> pack(const Graph& graph, PassLog* log) {
  std::shared_ptr<const Graph> result = copy_graph(graph);
  for (bool packed = true; packed;) {  // each round leaves fewer scans to pack
    packed = false;
    for (const Mask& mask : masks_of(*result)) {
      const auto next = Packing(*result, mask).run();
      if (!next) continue;
      result = next;
      packed = true;
      break;
    }
  }
  if (log) note_packed(*log, *result);
  return result;
}

}  // namespace unroll
