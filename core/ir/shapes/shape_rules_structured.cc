// SPDX-License-Identifier: Apache-2.0
// Shape rules of scan, fused, fused_reduction and gradient.
#include "core/ir/ops/row_ops.h"
#include "core/ir/ops/scan_parts.h"
#include "core/ir/shapes/shape_rules.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

ScanLayout layout_of(const Attributes& attributes, std::size_t n_inputs) {
  ScanLayout l{};
  l.steps = attributes.get<std::int64_t>("steps");
  l.n_states = static_cast<int>(attributes.get<std::int64_t>("states"));
  l.n_sequences = static_cast<int>(attributes.get<std::int64_t>("sequences"));
  l.reverse = attributes.get_or<bool>("reverse", false);
  l.has_lengths = attributes.get_or<bool>("lengths", false);
  l.has_reset = attributes.get_or<bool>("reset", false);
  l.packed = attributes.get_or<bool>("packed", false);
  const int others = l.n_states + l.n_sequences + l.has_lengths + l.has_reset + l.packed;
  const auto constants = static_cast<std::int64_t>(n_inputs) - others;
  l.n_constants = static_cast<int>(constants);
  return l;
}

void check_masks(const ShapeQuery& q, const ScanLayout& l, std::span<const Type> outputs) {
  if (!l.has_lengths && !l.has_reset) return;
  const std::size_t at = q.body->inputs().size();
  const Type& mask = q.in(at);
  const std::int64_t batch = l.has_lengths ? (mask.shape.rank() == 1 ? mask.shape[0] : -1)
                                           : (mask.shape.rank() == 2 ? mask.shape[1] : -1);
  q.require(batch >= 0, l.has_lengths ? "lengths must be [B]" : "reset must be [T,B]");
  if (l.has_lengths) q.require_dtype(at, DType::i32, "lengths");
  if (l.has_reset) {
    q.require_dtype(at + l.has_lengths, DType::b8, "reset");
    q.require_shape(at + l.has_lengths, Shape{l.steps, batch}, "reset");
  }
  // Outputs of the node: final states [B,...], then stacks [T,B,...].
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const int axis = is_state(l, i) ? 0 : 1;
    const bool matters = axis == 0 || l.has_lengths;
    q.require(!matters || (outputs[i].shape.rank() > axis && outputs[i].shape[axis] == batch),
              "with lengths or reset every state and output needs axis 0 = B = " + std::to_string(batch) + "; got " +
                  outputs[i].text());
  }
}

// Rows of all steps below each other: [B,...] of one step becomes [T*B,...].
Shape all_rows(const ShapeQuery& q, const ScanLayout& l, const Shape& step) {
  q.require(step.rank() > 0, "every state, sequence and output of a packed scan needs axis 0 = B");
  std::int64_t rows = 0;
  q.require(!__builtin_mul_overflow(l.steps, step[0], &rows), "the packed rows are too many");
  return step.with(0, rows);
}

void check_packed(const ShapeQuery& q, const ScanLayout& l, std::span<const Type> outputs) {
  q.require(!l.has_lengths && !l.has_reset, "a packed scan has neither lengths nor reset");
  const std::size_t at = q.body->inputs().size();
  q.require_dtype(at, DType::i32, "batch sizes");
  q.require_shape(at, Shape{l.steps}, "batch sizes");
  std::int64_t batch = -1;
  const auto check = [&](const Shape& step) {
    q.require(step.rank() > 0 && (batch < 0 || step[0] == batch),
              "every state, sequence and output of a packed scan needs one axis 0 = B; got " + step.text());
    batch = step[0];
  };
  for (std::size_t i = 0; i < outputs.size(); ++i) check(q.body->type(q.body->outputs()[i].value).shape);
}

// The type of a sequence operand in a step.
Type step_type(const ShapeQuery& q, const ScanLayout& l, Type sequence, const Shape& step) {
  if (l.packed && sequence.shape.rank() == step.rank() && sequence.shape == all_rows(q, l, step))
    return {sequence.dtype, step};
  q.require(sequence.shape.rank() >= 1 && sequence.shape[0] == l.steps,
            "a sequence must be [" + std::to_string(l.steps) + ",...]; got " + sequence.text());
  return {sequence.dtype, sequence.shape.removed(0)};
}

ScanLayout checked_layout(const ShapeQuery& q) {
  const std::int64_t most = std::ssize(q.inputs);
  for (const char* count : {"states", "sequences"})
    q.require(q.integer(count) >= 0 && q.integer(count) <= most,
              std::string(count) + " is " + std::to_string(q.integer(count)) + " but the node has " +
                  std::to_string(most) + " inputs");
  const ScanLayout l = layout_of(q.attributes, q.inputs.size());
  q.require(l.steps >= 0 && l.n_constants >= 0, "counts of states, sequences and inputs do not agree");
  const std::int64_t n_data = l.n_states + l.n_sequences + l.n_constants;
  q.require(std::ssize(q.body->inputs()) == n_data, "the body takes " + std::to_string(q.body->inputs().size()) +
                                                        " values, the scan gives " + std::to_string(n_data));
  q.require(std::ssize(q.body->outputs()) >= l.n_states, "the body must give every next state");
  return l;
}

std::vector<Type> scan_rule(const ShapeQuery& q) {
  if (!q.body) throw Error(ErrorKind::graph, "scan", "needs a body");
  const ScanLayout l = checked_layout(q);
  for (std::size_t i = 0; i < q.body->inputs().size(); ++i) {
    const Type& wanted = q.body->type(q.body->inputs()[i].value);
    const bool is_sequence = scan_role(l, i) == ScanRole::sequence;
    const Type seen = is_sequence ? step_type(q, l, q.in(i), wanted.shape) : q.in(i);
    q.require(seen == wanted,
              "input " + std::to_string(i) + " of the body is " + wanted.text() + "; got " + seen.text());
  }
  std::vector<Type> outputs;
  for (std::size_t i = 0; i < q.body->outputs().size(); ++i) {
    Type t = q.body->type(q.body->outputs()[i].value);
    if (is_state(l, i))
      q.require(t == q.in(i),
                "state " + std::to_string(i) + " is " + q.in(i).text() + " but its next value is " + t.text());
    else
      t.shape = l.packed ? all_rows(q, l, t.shape) : t.shape.inserted(0, l.steps);
    outputs.push_back(t);
  }
  if (l.packed) check_packed(q, l, outputs);
  check_masks(q, l, outputs);
  return outputs;
}

void check_body_inputs(const ShapeQuery& q, const char* name) {
  if (!q.body) throw Error(ErrorKind::graph, name, "needs a body");
  const auto body_inputs = q.body->inputs();
  q.require(body_inputs.size() == q.inputs.size(), "the body takes " + std::to_string(body_inputs.size()) +
                                                       " values, the node gives " + std::to_string(q.inputs.size()));
  for (std::size_t i = 0; i < q.inputs.size(); ++i)
    q.require(q.body->type(body_inputs[i].value) == q.in(i), "input " + std::to_string(i) + " differs from the body's");
}

// Outputs that are sums over rows (unroll/ir/row_sums.h).
void sum_rows(const ShapeQuery& q, std::vector<Type>& outputs) {
  const Ints sums = q.attributes.get_or<Ints>("sums", {});
  if (sums.empty()) return;
  const std::int64_t n = q.integer("sum_rows"), rows = leading_axes(outputs[0].shape).elements();
  q.require(n > 0 && rows % n == 0, "sum_rows must divide the " + std::to_string(rows) + " rows; got " +
                                        std::to_string(n));
  std::vector<bool> done(outputs.size(), false);
  for (const std::int64_t k : sums) {
    q.require(k >= 0 && k < static_cast<std::int64_t>(outputs.size()) && !done[k],
              "sums must name different outputs; got " + std::to_string(k));
    done[k] = true;
    Type& type = outputs[k];
    if (type.dtype == DType::b8 || is_half(type.dtype))
      q.fail_type("output " + std::to_string(k) + " is " + type.text() + ", which has no sums");
    type.shape = {rows / n, type.shape[type.shape.rank() - 1]};
  }
}

// All results have the same rows.
std::vector<Type> fused_reduction_rule(const ShapeQuery& q) {
  check_body_inputs(q, "fused_reduction");
  for (const Node& node : q.body->nodes())
    if (node.op != Op::input && node.op != Op::constant && !is_row_op(*q.body, node))
      throw Error(ErrorKind::graph, "fused_reduction",
                  "the body may hold ops that work row by row only; got " + std::string(op_info(node.op).name));
  std::vector<Type> outputs;
  for (const NamedValue& output : q.body->outputs()) {
    outputs.push_back(q.body->type(output.value));
    const Shape &first = outputs.front().shape, &shape = outputs.back().shape;
    q.require(shape.rank() >= 2 && shape.rank() == first.rank() && leading_axes(shape) == leading_axes(first),
              "all outputs must have the same rows; got " + outputs.front().text() + " and " + outputs.back().text());
  }
  q.require(!outputs.empty(), "the body has no outputs");
  sum_rows(q, outputs);
  return outputs;
}

std::vector<Type> fused_rule(const ShapeQuery& q) {
  check_body_inputs(q, "fused");
  for (const Node& node : q.body->nodes())
    if (!is_elementwise(node.op) && node.op != Op::input && node.op != Op::constant)
      throw Error(ErrorKind::graph, "fused",
                  "the body may hold elementwise ops only; got " + std::string(op_info(node.op).name));
  std::vector<Type> outputs;
  for (const NamedValue& output : q.body->outputs()) {
    outputs.push_back(q.body->type(output.value));
    q.require(outputs.back().shape == outputs.front().shape,
              "all outputs must have one shape; got " + outputs.front().text() + " and " + outputs.back().text());
  }
  return outputs;
}

std::vector<Type> gradient_rule(const ShapeQuery& q) {
  const OpInfo* of = find_op(q.attributes.get<std::string>("of"));
  if (!of || of->tier != OpTier::composite)
    throw Error(ErrorKind::graph, "gradient", "attribute of must name a composite");
  const auto n = static_cast<std::size_t>(q.integer("n_inputs"));
  const Ints& d_outputs = q.attributes.get<Ints>("d_outputs");
  q.require(n <= q.inputs.size(), "takes the composite's inputs");
  const auto forward = infer_types({of->op, q.inputs.first(n), q.attributes, nullptr});
  const bool reads_saved = q.attributes.get_or<std::int64_t>("saved_bytes", 0) != 0;
  const std::size_t n_saved = reads_saved ? forward.size() : 0, first_saved = n + d_outputs.size();
  q.require(
      first_saved + n_saved == q.inputs.size(),
      "takes the composite's inputs, one cotangent per entry of d_outputs and, when it reads saved bytes, the outputs");
  for (std::size_t k = 0; k < n_saved; ++k)
    q.require(q.in(first_saved + k) == forward[k],
              "operand " + std::to_string(first_saved + k) + " must be output " + std::to_string(k));
  for (std::size_t i = 0; i < d_outputs.size(); ++i) {
    const std::int64_t k = d_outputs[i];
    q.require(k >= 0 && k < std::ssize(forward) && q.in(n + i) == forward[k],
              "cotangent " + std::to_string(i) + " must have the type of its output");
  }
  std::vector<Type> outputs;
  for (const std::int64_t k : q.attributes.get<Ints>("d_inputs")) {
    q.require(k >= 0 && std::cmp_less(k, n), "d_inputs must name inputs of the composite");
    outputs.push_back(q.in(k));
  }
  return outputs;
}

constexpr ShapeRow k_structured_rows[] = {
    {Op::scan, scan_rule},
    {Op::fused, fused_rule},
    {Op::fused_reduction, fused_reduction_rule},
    {Op::gradient, gradient_rule},
};

}  // namespace

ScanLayout scan_layout(const Node& node) { return layout_of(node.attributes, node.inputs.size()); }

std::span<const ShapeRow> structured_shape_rules() { return k_structured_rows; }

}  // namespace unroll
