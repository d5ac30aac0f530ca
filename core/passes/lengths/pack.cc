// SPDX-License-Identifier: Apache-2.0
// Packed sequences: a scan whose rows end at t = lengths[b] runs on the rows that are still there, longest first, and
// the products before and after it run on the rows that exist, so that cost follows the sum of the lengths. The form of
// torch.nn.utils.rnn.pack_padded_sequence, made by the compiler: "packed" is [N,...] with the rows of step 0, then of
// step 1, ...; "padded" is [T,B,...], or [T*B,...] when flattened. N is known on the device only, so a packed value has
// room for T*B rows.
#include <algorithm>
#include <cstdint>
#include <map>

#include "core/ir/ops/scan_parts.h"
#include "core/passes/lengths/live_rows.h"
#include "core/passes/lengths/packed_ops.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "unroll/ir/ops.h"
#include "unroll/ir/per_node.h"

namespace unroll {

namespace {

// All that is packed by one vector of lengths.
class Packing {
 public:
  Packing(const Graph& graph, const LengthMask& mask)
      : graph_(graph), mask_(mask), rows_(graph, mask, RowOrder::by_length) {}

  // Null when there is no scan to pack.
  std::shared_ptr<const Graph> run() { return rows_.any() ? emit() : nullptr; }

 private:
  static ValueId output_of(std::size_t i, std::size_t k) {
    return {static_cast<std::int32_t>(i), static_cast<std::int32_t>(k)};
  }
  const Node& node(std::size_t i) const { return graph_.nodes()[i]; }
  const Shape& shape(const ValueId& id) const { return graph_.type(id).shape; }
  std::int64_t places() const { return mask_.steps * mask_.batch; }
  Shape packed_shape(const Shape& s) const {
    Ints dims{places()};
    dims.insert(dims.end(), s.begin() + rows_.row_axes(s), s.end());
    return Shape(dims);
  }

  // The lengths first, then the rest in order.
  std::shared_ptr<const Graph> emit() {
    target_ = std::make_shared<Graph>();
    const std::size_t n = graph_.nodes().size();
    for (const NamedValue& input : graph_.inputs())
      padded_values_[input.value] = target_->input(input.name, graph_.type(input.value));
    PerNode<bool> early(graph_);
    early[mask_.lengths.node] = true;
    for (std::size_t i = n; i-- > 0;)
      if (early[i])
        for (const ValueId& id : node(i).inputs) early[id.node] = true;
    for (std::size_t i = 0; i < n; ++i)
      if (early[i]) copy(i);
    places_ = pack_lengths(padded(mask_.lengths), mask_.steps);
    for (std::size_t i = 0; i < n; ++i)
      if ((rows_.is_read_padded(i) || rows_.is_read_packed(i)) && !early[i]) emit_node(i);
    for (const NamedValue& output : graph_.outputs()) target_->output(output.name, padded(output.value));
    return drop_dead(*target_);
  }
  void copy(std::size_t i) {
    const Node& n = node(i);
    if (n.op == Op::input) return;
    std::vector<Value> operands;
    for (const ValueId& id : n.inputs) operands.push_back(padded(id));
    const auto values = target_->append_copy(graph_, n, operands);
    for (std::size_t k = 0; k < values.size(); ++k) padded_values_[output_of(i, k)] = values[k];
  }
  void emit_node(std::size_t i) {
    const ValueId id{static_cast<std::int32_t>(i), 0};
    const OriginScope of_node(*target_, node(i).origin);
    if (rows_.body(i)) emit_scan(i);
    else if (rows_.is_packed(i)) packed_values_[id] = emit_rows(i);
    else if (rows_.sums_rows(i)) padded_values_[id] = emit_sum(i);
    else copy(i);
  }

  void emit_scan(std::size_t i) {
    const Node& n = node(i);
    const RowBody& body = rows_.body(i);
    const ScanLayout l = scan_layout(n);
    std::vector<Value> operands;
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      operands.push_back(is_state(l, k)                   ? gather(padded(n.inputs[k]), places_.order)
                         : rows_.is_row_sequence(n, l, k) ? packed(n.inputs[k])
                                                          : padded(n.inputs[k]));
    ScanParts parts(n, operands);
    if (body.reads_order) parts.constants.push_back(places_.order);
    parts.batch_sizes = places_.batch_sizes;
    const auto values = parts.emit(body.body);
    for (std::size_t k = 0; k < values.size(); ++k) {
      const ValueId id = output_of(i, k);
      if (is_state(l, k)) padded_values_[id] = gather(values[k], places_.rank);
      else packed_values_[id] = values[k];
    }
  }
  Value emit_rows(std::size_t i) {
    const Node& n = node(i);
    const Shape& out = n.outputs[0].shape;
    if (rows_.selects_by_mask(i)) return packed(n.inputs[1]);
    std::vector<Value> operands;
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      operands.push_back(rows_.operand_has_rows(i, k) ? packed(n.inputs[k]) : padded(n.inputs[k]));
    if (n.op == Op::reshape) return reshape(operands[0], packed_shape(out));
    if (n.op == Op::broadcast) return broadcast(operands[0], packed_shape(out));
    if (n.op == Op::matmul)
      return matmul_rows(reshape(operands[0], shape(n.inputs[0])), operands[1], places_.rows,
                         {.b = n.attributes.get<bool>("transpose_b")});
    const std::int64_t joined_axes = rows_.row_axes(out) - 1;
    Attributes attributes = n.attributes;
    if (attributes.has("axis")) attributes.set("axis", attributes.get<std::int64_t>("axis") - joined_axes);
    if (attributes.has("axes")) {
      Ints axes = attributes.get<Ints>("axes");
      for (std::int64_t& axis : axes) axis -= joined_axes;
      attributes.set("axes", std::move(axes));
    }
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
    const int rows = rows_.row_axes(shape(n.inputs[0]));
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
  const LengthMask mask_;
  const LiveRows rows_;
  std::shared_ptr<Graph> target_;
  PackedRows places_;
  std::map<ValueId, Value> padded_values_, packed_values_;
};

}  // namespace

std::shared_ptr<const Graph> pack(const Graph& graph, PassLog* log) {
  const auto result =
      for_each_mask(graph, [](const Graph& g, const LengthMask& mask) { return Packing(g, mask).run(); });
  if (!log) return result;
  for (const Node& node : result->nodes()) {
    if (node.op != Op::scan || !scan_layout(node).packed) continue;
    const InLoop in_loop(log, *result, node);
    log->add("packed: steps run on existing rows only");
  }
  note_masked(*log, *result, RowOrder::by_length);
  return result;
}

}  // namespace unroll
