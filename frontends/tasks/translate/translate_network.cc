// SPDX-License-Identifier: Apache-2.0
#include "frontends/tasks/translate/translate_network.h"

#include "core/nn/in_layer.h"
#include "frontends/tasks/common/pooling.h"
#include "frontends/tasks/common/task_parts.h"
#include "unroll/error.h"
#include "unroll/ops.h"

namespace unroll {

TranslateNetwork TranslateNetwork::of(const Metadata& metadata) {
  return {get_model_options(metadata),
          get_text(metadata, "attention"),
          get_integer(metadata, "embedding"),
          get_coder(metadata, "source").tokenizer().size(),
          get_coder(metadata, "target").tokenizer().size() + 1,
          metadata.contains("tied") && get_integer(metadata, "tied") != 0};
}

void TranslateNetwork::check() const {
  if (attention != "dot" && attention != "additive")
    throw Error(ErrorKind::usage, "translate", "attention must be dot or additive; got '" + attention + "'");
  if (embedding < 1)
    throw Error(ErrorKind::usage, "translate", "embedding must be at least 1; got " + std::to_string(embedding));
}

RecurrentModelOptions TranslateNetwork::decoder() const {
  RecurrentModelOptions options = model;
  options.bidirectional = false;
  return options;
}

TranslateNetwork::Encoded TranslateNetwork::encode(Scope& scope, Value ids, Value lengths) const {
  check();
  const Value x = dropout_layer(scope, embedding_layer(scope.child("source"), ids, sources, embedding), model.dropout,
                                model.mask());
  const Value y = recurrent_model(scope.child("encoder"), x, model, {}, lengths).y;  // [S,B,M]
  const Value ends = pooled(scope, y, "final", model.bidirectional, lengths).output;  // [B,M]
  Encoded e{transpose(y, {1, 0, 2}), {}};
  for (const Shape& shape : recurrent_state_shapes(decoder(), ids.shape()[1])) {  // [L,B,size]
    const Scope bridge = scope.child("bridge").child(std::to_string(e.states.size()));
    const Value state = tanh(linear_layer(bridge, ends, shape[0] * shape[2]));
    e.states.push_back(transpose(reshape(state, {shape[1], shape[0], shape[2]}), {1, 0, 2}));
  }
  return e;
}

TranslateNetwork::Decoded TranslateNetwork::decode(Scope& scope, Value ids, std::span<const Value> states, Value memory,
                                                   Value lengths) const {
  const Readout readout{tied};
  const Value x = dropout_layer(scope, readout.embedding(scope.child("target"), ids, targets, embedding), model.dropout,
                                model.mask());
  CellLayerResult r = recurrent_model(scope.child("decoder"), x, decoder(), states);
  const Value query = transpose(r.y, {1, 0, 2});  // [B,T,P]
  const std::int64_t B = memory.shape()[0], S = memory.shape()[1], M = memory.shape()[2], P = query.shape()[2];
  const Value mask = reshape(transpose(live_steps(lengths, S), {1, 0}), {B, 1, S});
  Scope attend = scope.child("attention");
  const auto weight = [&](const char* name, Shape shape) {
    return attend.parameter(name, shape, Initializer::xavier_uniform());
  };
  const AttentionResult attended = in_layer(attend, [&] {
    return attention == "dot" ? dot_attention(linear(query, weight("weight", {M, P})), memory, memory, mask)
                              : additive_attention(query, memory, memory, weight("w_q", {model.hidden, P}),
                                                   weight("w_k", {model.hidden, M}),
                                                   attend.parameter("v_a", {model.hidden}, Initializer::normal(0.1)),
                                                   mask);
  });
  const Value combined =
      tanh(linear_layer(scope.child("combine"), concat(std::vector{attended.y, query}, 2), model.hidden));
  const Value dropped = dropout_layer(scope, combined, model.dropout);
  return {readout.logits(scope.child("output"), scope.child("target"), dropped, targets, embedding),
          attended.weights, std::move(r.states)};
}

}  // namespace unroll
