// SPDX-License-Identifier: Apache-2.0
// Functions that append composites. Bodies and claims read the attributes set here.
#include <cmath>

#include "unroll/error.h"
#include "unroll/ops.h"

namespace unroll {

namespace {

Value append(Op op, std::initializer_list<Value> inputs, Attributes attributes = {}) {
  const Value& first = *inputs.begin();
  if (!first) throw Error(ErrorKind::usage, op_info(op).name, "operand 0 is empty");
  return first.graph().append_one(op, std::span(inputs.begin(), inputs.size()), std::move(attributes));
}

AttentionResult attend(Op op, std::vector<Value> inputs, Value mask, Attributes attributes) {
  if (!inputs[0]) throw Error(ErrorKind::usage, op_info(op).name, "operand 0 is empty");
  if (mask) inputs.push_back(mask);
  const auto outputs = inputs[0].graph().append(op, inputs, std::move(attributes));
  return {outputs[0], outputs[1]};
}

}  // namespace

RecurrentResult recurrent(Op cell, const RecurrentInputs& in, const RecurrentOptions& o) {
  if (cell != Op::rnn && cell != Op::gru && cell != Op::lstm)
    throw Error(ErrorKind::usage, "recurrent", "the cell must be rnn, gru or lstm");
  Attributes attributes{{"hidden", o.hidden},
                        {"layers", static_cast<std::int64_t>(o.layers)},
                        {"bidirectional", o.bidirectional},
                        {"bias", o.bias},
                        {"dropout", o.dropout},
                        {"site", o.site},
                        {"lengths", static_cast<bool>(in.lengths)}};
  if (cell == Op::rnn) attributes.set("relu", o.relu);
  if (cell == Op::gru) attributes.set("reset_after", o.reset_after);
  if (cell == Op::lstm) {
    attributes.set("projection", o.projection);
    attributes.set("peephole", o.peephole);
  }
  std::vector<Value> inputs{in.x, in.h0};
  if (cell == Op::lstm) inputs.push_back(in.c0);
  if (in.lengths) inputs.push_back(in.lengths);
  if (o.dropout > 0) inputs.push_back(in.key);
  inputs.insert(inputs.end(), in.parameters.begin(), in.parameters.end());
  if (!in.x) throw Error(ErrorKind::usage, "recurrent", "x is empty");
  const auto outputs = in.x.graph().append(cell, inputs, std::move(attributes));
  return {outputs[0], outputs[1], cell == Op::lstm ? outputs[2] : Value()};
}

Value softmax(Value x) { return append(Op::softmax, {x}); }
Value log_softmax(Value x) { return append(Op::log_softmax, {x}); }
Value layer_norm(Value x, Value weight, Value bias, double epsilon) {
  return append(Op::layer_norm, {x, weight, bias}, {{"epsilon", epsilon}});
}
Value dropout(Value x, Value key, double rate, std::int64_t site, Value step) {
  const Attributes attributes{{"rate", rate}, {"site", site}};
  return step ? append(Op::dropout, {x, key, step}, attributes) : append(Op::dropout, {x, key}, attributes);
}
Value embedding(Value table, Value ids) { return append(Op::embedding, {table, ids}); }

AttentionResult dot_attention(Value q, Value k, Value v, Value mask, double scale) {
  if (scale == 0 && q && q.rank() > 0)
    scale = 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(q.shape()[q.rank() - 1], 1)));
  return attend(Op::dot_attention, {q, k, v}, mask, {{"scale", scale}});
}
AttentionResult additive_attention(Value q, Value k, Value v, Value w_q, Value w_k, Value v_a, Value mask) {
  return attend(Op::additive_attention, {q, k, v, w_q, w_k, v_a}, mask, {});
}
AttentionResult multi_head_attention(Value q, Value k, Value v, Value in_weight, Value in_bias, Value out_weight,
                                     Value out_bias, int heads, Value mask) {
  return attend(Op::multi_head_attention, {q, k, v, in_weight, in_bias, out_weight, out_bias}, mask,
                {{"heads", static_cast<std::int64_t>(heads)}});
}

Value softmax_cross_entropy(Value logits, Value labels) { return append(Op::softmax_cross_entropy, {logits, labels}); }
Value mse(Value prediction, Value target) { return append(Op::mse, {prediction, target}); }
Value mae(Value prediction, Value target) { return append(Op::mae, {prediction, target}); }
Value huber(Value prediction, Value target, double delta) {
  return append(Op::huber, {prediction, target}, {{"delta", delta}});
}
Value bce(Value logits, Value target) { return append(Op::bce, {logits, target}); }

}  // namespace unroll
