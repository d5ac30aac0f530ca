// SPDX-License-Identifier: Apache-2.0
#include "core/passes/group/row_body.h"

#include <algorithm>
#include <map>

#include "core/ir/ops/scan_parts.h"
#include "core/ir/ops/unary_ops.h"
#include "core/passes/log.h"
#include "core/passes/rewrite.h"
#include "unroll/ir/per_node.h"

namespace unroll {

namespace {

using Is = EndedRow::Is;

bool keeps_zero(Op op) {
  constexpr Op k_ops[] = {Op::reshape, Op::slice, Op::pad, Op::broadcast, Op::transpose, Op::reduce_sum};
  const UnaryOp* unary = find_unary(op);
  return (unary && unary->keeps_zero) || std::find(std::begin(k_ops), std::end(k_ops), op) != std::end(k_ops);
}

class Analysis {
 public:
  Analysis(const Node& scan, const std::vector<bool>& masks, std::int64_t batch, RowOrder order)
      : body_(*scan.body), layout_(scan_layout(scan)), masks_(masks), batch_(batch), order_(order),
        rows_(body_), live_(body_), permuted_(body_), ended_(body_) {}

  RowBody run() {
    for (std::size_t i = 0; i < rows_.size(); ++i)
      if (!visit(i)) return RowBody::no(why_not(i));
    RowBody result;
    for (std::size_t k = 0; k < body_.outputs().size(); ++k) {
      const std::int32_t i = body_.outputs()[k].value.node;
      if (!rows_[i] || !has_batch(i)) return RowBody::no(same_in_all(k));
      if (is_state(layout_, k) && ended_[i] != EndedRow{Is::state, static_cast<int>(k)})
        return RowBody::no("rows that have ended do not keep state " + std::to_string(k));
      if (!is_state(layout_, k)) result.zero.push_back(ended_[i].is == Is::zero);
    }
    result.body = emit(result);
    if (order_ == RowOrder::given) return result;
    // Without the mask some results may be the same in all rows.
    const std::size_t k = first_without_rows(*result.body);
    return k == body_.outputs().size() ? std::move(result) : RowBody::no(same_in_all(k));
  }

 private:
  const Node& node(std::size_t i) const { return body_.nodes()[i]; }
  const Shape& shape(std::size_t i) const { return node(i).outputs[0].shape; }
  bool has_batch(std::size_t i) const { return shape(i).rank() > 0 && shape(i)[0] == batch_; }

  std::string why_not(std::size_t i) const {
    return node(i).op == Op::input ? "its state " + std::to_string(i) + " has no rows"
                                   : node_text(node(i)) + " in its step mixes rows";
  }
  static std::string same_in_all(std::size_t output) {
    return "its result " + std::to_string(output) + " is the same for all rows";
  }

  // The number of outputs when all have rows.
  std::size_t first_without_rows(const Graph& body) const {
    PerNode<bool> rows(body);
    for (std::size_t k = 0; k < body_.inputs().size(); ++k)
      rows[body.inputs()[k].value.node] = rows_[body_.inputs()[k].value.node];
    for (std::size_t i = 0; i < rows.size(); ++i)
      for (const ValueId& id : body.nodes()[i].inputs) rows[i] = rows[i] || rows[id.node];
    std::size_t k = 0;
    while (k < body.outputs().size() && rows[body.outputs()[k].value.node]) ++k;
    return k;
  }

  bool visit(std::size_t i) {
    const Node& n = node(i);
    if (n.op == Op::input) return visit_input(i);
    std::vector<EndedRow> operands;
    bool any = false;
    for (const ValueId& id : n.inputs) {
      operands.push_back(ended_[id.node]);
      any = any || rows_[id.node];
    }
    rows_[i] = any;
    if (any && !is_rowwise(i)) return false;
    const bool same_mask = (n.op == Op::reshape || n.op == Op::broadcast) && live_[n.inputs[0].node];
    live_[i] = same_mask;
    ended_[i] = ended_row(body_, n, operands);
    return true;
  }
  bool visit_input(std::size_t i) {  // inputs come first: states, sequences, constants
    const ScanRole role = scan_role(layout_, i);
    // A sequence without a batch axis is the same in every row.
    rows_[i] = role == ScanRole::state || (role == ScanRole::sequence && has_batch(i));
    live_[i] = masks_[i];
    if (role == ScanRole::state) ended_[i] = {Is::state, static_cast<int>(i)};
    if (masks_[i]) ended_[i] = {Is::off};
    return !rows_[i] || has_batch(i);
  }

  // Row b of the result comes from rows b of the operands that have rows, and axis 0 is the batch.
  bool is_rowwise(std::size_t i) {
    const Node& n = node(i);
    if (n.outputs.size() != 1 || !has_batch(i)) return false;
    const auto has = [&](std::size_t k) { return rows_[n.inputs[k].node]; };
    if (is_elementwise(n.op)) return has_same_rows(i);
    switch (n.op) {
      case Op::reshape: return true;  // axis 0 of both is the batch: the elements of a row stay together
      case Op::broadcast: return body_.type(n.inputs[0]).shape.rank() == shape(i).rank();
      case Op::slice:
      case Op::pad: return n.attributes.get<std::int64_t>("axis") != 0;
      case Op::concat: return n.attributes.get<std::int64_t>("axis") != 0 && has_same_rows(i);
      case Op::transpose: return n.attributes.get<Ints>("permutation")[0] == 0;
      case Op::matmul:
        return n.inputs.size() == 2 && shape(i).rank() == 2 && has(0) && !has(1) &&
               !n.attributes.get<bool>("transpose_a");
      case Op::reduce_sum:
      case Op::reduce_max: {
        const Ints& axes = n.attributes.get<Ints>("axes");
        return axes.empty() || axes[0] != 0;
      }
      case Op::argmax: return n.attributes.get<std::int64_t>("axis") != 0;
      case Op::gather: return !has(0);
      default: return false;
    }
  }
  // A value that is the same in every step but has a batch axis is put in the order of the rows.
  bool has_same_rows(std::size_t i) {
    for (const ValueId& id : node(i).inputs) {
      const std::int32_t from = id.node;
      const bool aligned = shape(from).rank() == shape(i).rank();
      if (rows_[from]) {
        if (!aligned) return false;
        continue;
      }
      if (order_ == RowOrder::by_length && aligned && shape(from)[0] == batch_ && batch_ > 1) permuted_[from] = true;
    }
    return true;
  }

  std::shared_ptr<const Graph> emit(RowBody& result) const {
    auto target = std::make_shared<Graph>();
    PerNode<std::vector<Value>> map(body_);
    for (const NamedValue& input : body_.inputs())
      map[input.value.node] = {target->input(input.name, body_.type(input.value))};
    Value order;
    if (std::find(permuted_.begin(), permuted_.end(), true) != permuted_.end()) {
      result.reads_order = true;
      std::string name = "order";
      while (target->find_input(name)) name += "_";
      order = target->input(name, {DType::i32, Shape{batch_}});
    }
    for (std::size_t i = 0; i < map.size(); ++i) {
      const Node& n = node(i);
      if (!map[i].empty()) continue;
      std::vector<Value> operands;
      for (const ValueId& id : n.inputs) {
        const bool moves = rows_[i] && permuted_[id.node] && (is_elementwise(n.op) || n.op == Op::concat) &&
                           body_.type(id).shape.rank() == shape(i).rank();
        Value value = map[id.node][id.output];
        if (live_[id.node]) value = broadcast(constant(*target, Tensor::filled({DType::b8, {}}, 1)), value.shape());
        operands.push_back(moves ? gather(value, order) : value);
      }
      if (n.op == Op::select && live_[n.inputs[0].node]) map[i] = {broadcast(operands[1], shape(i))};
      else map[i] = target->append_copy(body_, n, operands);
    }
    for (const NamedValue& output : body_.outputs())
      target->output(output.name, map[output.value.node][output.value.output]);
    return drop_dead(*target);
  }

  const Graph& body_;
  const ScanLayout layout_;
  const std::vector<bool>& masks_;
  const std::int64_t batch_;
  const RowOrder order_;
  // Per node: has rows; is the mask in some shape; is the same in every step and to be put in order; ended rows.
  PerNode<bool> rows_, live_, permuted_;
  PerNode<EndedRow> ended_;
};

}  // namespace

EndedRow ended_row(const Graph& graph, const Node& node, const std::vector<EndedRow>& operands) {
  const auto is = [&](std::size_t k, Is what) { return operands[k].is == what; };
  const auto all = [&](Is what) {
    return std::all_of(operands.begin(), operands.end(), [&](const EndedRow& o) { return o.is == what; });
  };
  const auto same_shape = [&](std::size_t k) { return graph.type(node.inputs[k]).shape == node.outputs[0].shape; };
  const auto passed = [&](std::size_t k) { return same_shape(k) || is(k, Is::zero) ? operands[k] : EndedRow{}; };
  if (node.op == Op::constant) {
    const Tensor& tensor = *node.attributes.get<std::shared_ptr<const Tensor>>("value");
    const bool zero = tensor.elements() == 1 && tensor.at(0) == 0;
    return {!zero ? Is::anything : tensor.dtype() == DType::b8 ? Is::off : Is::zero};
  }
  if (operands.empty()) return {};
  if (keeps_zero(node.op) && is(0, Is::zero)) return {Is::zero};
  switch (node.op) {
    case Op::reshape:
    case Op::broadcast: return is(0, Is::off) ? operands[0] : EndedRow{};
    case Op::stop_gradient: return operands[0];
    case Op::cast: return {is(0, Is::off) || is(0, Is::zero) ? Is::zero : Is::anything};
    case Op::logical_and: return {is(0, Is::off) || is(1, Is::off) ? Is::off : Is::anything};
    case Op::logical_or: return {all(Is::off) ? Is::off : Is::anything};
    case Op::select: return is(0, Is::off) ? passed(2) : operands[1] == operands[2] ? passed(1) : EndedRow{};
    case Op::add: return is(0, Is::zero) ? passed(1) : is(1, Is::zero) ? passed(0) : EndedRow{};
    case Op::sub: return is(1, Is::zero) ? passed(0) : EndedRow{};
    case Op::mul: return {is(0, Is::zero) || is(1, Is::zero) ? Is::zero : Is::anything};
    case Op::div:
    case Op::matmul: return {is(0, Is::zero) ? Is::zero : Is::anything};
    case Op::concat: return {all(Is::zero) ? Is::zero : Is::anything};
    default: return {};
  }
}

RowBody row_body(const Node& scan, const std::vector<bool>& masks, std::int64_t batch, RowOrder order) {
  return Analysis(scan, masks, batch, order).run();
}

}  // namespace unroll
