// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/common/network_parts.h"
#include "core/tasks/label/network.h"

#include "core/tasks/common/task_parts.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

LabelNetwork LabelNetwork::of(const Metadata& metadata, const Lexicon& tokens, const Lexicon& labels) {
  if (labels.size() == 0) throw Error(ErrorKind::input_file, "model", "metadata 'labels' is empty");
  return {get_model_options(metadata), get_integer(metadata, "embedding"), tokens.size() + 1, labels.size(),
          metadata.contains("output") && get_text(metadata, "output") == "crf"};
}

Value LabelNetwork::build(Scope& scope, Value ids, Value lengths) const {
  const auto dropped = [&](Value sequence) { return dropout_layer(scope, sequence, model.dropout, model.mask()); };
  const Value x = dropped(embedding_layer(scope.child("embedding"), ids, tokens, embedding));
  const Value y = recurrent_model(scope.child("recurrent"), x, model, {}, lengths).y;
  return linear_layer(scope.child("output"), dropped(y), labels);
}

Value LabelNetwork::decode(Scope& scope, Value logits, Value lengths) const {
  return crf ? crf_decode(field(scope), logits, lengths) : argmax(logits, -1);
}

namespace {

Inference label_inference(const Metadata& metadata) {
  const LabelNetwork network =
      LabelNetwork::of(metadata, get_lexicon(metadata, "vocabulary"), get_lexicon(metadata, "labels"));
  const char* const scores = network.crf ? "scores" : "probabilities";
  return {.inputs = {{"ids", DType::i32, {any("T"), any("B")}}, {"lengths", DType::i32, {any("B")}}},
          .outputs = {{"labels", DType::i32, {any("T"), any("B")}},
                      {scores, DType::f32, {any("T"), any("B"), fixed(network.labels)}}},
          .network = [=](Scope& scope, const Inputs& in) {
            const Value logits = network.build(scope, in["ids"], in["lengths"]);
            return outputs({{"labels", network.decode(scope, logits, in["lengths"])},
                            {scores, network.crf ? logits : softmax(logits)}});
          }};
}

}  // namespace

const NetworkRow label_network_row{label_inference};

}  // namespace unroll
