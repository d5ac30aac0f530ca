// SPDX-License-Identifier: Apache-2.0
#include "core/passes/group/row_body.h"

#include <algorithm>
#include <map>

#include "core/ir/ops/unary_ops.h"
#include "core/passes/log.h"
#include "core/passes/rewrite.h"

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
      : body_(*scan.body), layout_(scan_layout(scan)), masks_(masks), batch_(batch), order_(order) {}

  RowBody run() {
    const std::size_t n = body_.nodes().size();
    rows_.assign(n, false);
    live_.assign(n, false);
    permuted_.assign(n, false);
    ended_.assign(n, {});
    for (std::size_t i = 0; i < n; ++i)
      if (!visit(i)) return RowBody::no(why_not(i));
    RowBody result;
    for (std::size_t k = 0; k < body_.outputs().size(); ++k) {
      const std::size_t i = index(body_.outputs()[k].value);
      const bool is_state = k < static_cast<std::size_t>(layout_.n_states);
      if (!rows_[i] || !has_batch(i)) return RowBody::no(same_in_all(k));
      if (is_state && ended_[i] != EndedRow{Is::state, static_cast<int>(k)})
        return RowBody::no("rows that have ended do not keep state " + std::to_string(k));
      if (!is_state) result.zero.push_back(ended_[i].is == Is::zero);
    }
    result.body = emit(result);
    if (order_ == RowOrder::given) return result;
    // What only the mask made differ from row to row is no longer a value of rows.
    const std::size_t k = first_without_rows(*result.body);
    return k == body_.outputs().size() ? std::move(result) : RowBody::no(same_in_all(k));
  }

 private:
  static std::size_t index(const ValueId& id) { return static_cast<std::size_t>(id.node); }
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
    std::vector<bool> rows(body.nodes().size(), false);
    for (std::size_t k = 0; k < body_.inputs().size(); ++k)
      rows[index(body.inputs()[k].value)] = rows_[index(body_.inputs()[k].value)];
    for (std::size_t i = 0; i < rows.size(); ++i)
      for (const ValueId& id : body.nodes()[i].inputs) rows[i] = rows[i] || rows[index(id)];
    std::size_t k = 0;
    while (k < body.outputs().size() && rows[index(body.outputs()[k].value)]) ++k;
    return k;
  }

  bool visit(std::size_t i) {
    const Node& n = node(i);
    if (n.op == Op::input) return visit_input(i);
    std::vector<EndedRow> operands;
    bool any = false;
    for (const ValueId& id : n.inputs) {
      operands.push_back(ended_[index(id)]);
      any = any || rows_[index(id)];
    }
    rows_[i] = any;
    if (any && !goes_by_rows(i)) return false;
    const bool same_mask = (n.op == Op::reshape || n.op == Op::broadcast) && live_[index(n.inputs[0])];
    live_[i] = same_mask;
    ended_[i] = ended_row(body_, n, operands);
    return true;
  }
  bool visit_input(std::size_t i) {  // inputs come first: states, sequences, constants
    const auto states = static_cast<std::size_t>(layout_.n_states);
    // A sequence without a batch axis is the same in every row.
    rows_[i] = i < states || (i < states + static_cast<std::size_t>(layout_.n_sequences) && has_batch(i));
    live_[i] = masks_[i];
    if (i < states) ended_[i] = {Is::state, static_cast<int>(i)};
    if (masks_[i]) ended_[i] = {Is::off};
    return !rows_[i] || has_batch(i);
  }

  // Row b of the result comes from rows b of the operands that have rows, and axis 0 is the batch.
  bool goes_by_rows(std::size_t i) {
    const Node& n = node(i);
    if (n.outputs.size() != 1 || !has_batch(i)) return false;
    const auto has = [&](std::size_t k) { return rows_[index(n.inputs[k])]; };
    if (is_elementwise(n.op)) return operands_line_up(i);
    switch (n.op) {
      case Op::reshape: return true;  // axis 0 of both is the batch: the elements of a row stay together
      case Op::broadcast: return shape(index(n.inputs[0])).rank() == shape(i).rank();
      case Op::slice:
      case Op::pad: return n.attributes.get<std::int64_t>("axis") != 0;
      case Op::concat: return n.attributes.get<std::int64_t>("axis") != 0 && operands_line_up(i);
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
  // What is the same in every step but has a batch axis is put in the order of the rows.
  bool operands_line_up(std::size_t i) {
    for (const ValueId& id : node(i).inputs) {
      const std::size_t from = index(id);
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
    std::vector<std::vector<Value>> map(body_.nodes().size());
    for (const NamedValue& input : body_.inputs())
      map[index(input.value)] = {target->input(input.name, body_.type(input.value))};
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
        const bool moves = rows_[i] && permuted_[index(id)] && (is_elementwise(n.op) || n.op == Op::concat) &&
                           shape(index(id)).rank() == shape(i).rank();
        Value value = map[index(id)][static_cast<std::size_t>(id.output)];
        if (live_[index(id)]) value = broadcast(constant(*target, Tensor::filled({DType::b8, {}}, 1)), value.shape());
        operands.push_back(moves ? gather(value, order) : value);
      }
      if (n.op == Op::select && live_[index(n.inputs[0])]) map[i] = {broadcast(operands[1], shape(i))};
      else map[i] = target->append_copy(body_, n, operands);
    }
    for (const NamedValue& output : body_.outputs())
      target->output(output.name, map[index(output.value)][static_cast<std::size_t>(output.value.output)]);
    return drop_dead(*target);
  }

  const Graph& body_;
  const ScanLayout layout_;
  const std::vector<bool>& masks_;
  const std::int64_t batch_;
  const RowOrder order_;
  // Per node: has rows; is the mask in some shape; is the same in every step and to be put in order; ended rows.
  std::vector<bool> rows_, live_, permuted_;
  std::vector<EndedRow> ended_;
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
