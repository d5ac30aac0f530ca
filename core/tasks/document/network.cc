// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/common/network_parts.h"
#include "core/tasks/document/network.h"

#include "core/tasks/common/pooling.h"
#include "core/tasks/common/task_parts.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

DocumentNetwork DocumentNetwork::of(const Metadata& metadata, const Lexicon& words, const Lexicon& labels) {
  if (labels.size() == 0) throw Error(ErrorKind::input_file, "model", "metadata 'labels' is empty");
  return {get_model_options(metadata), get_text(metadata, "pooling"), get_integer(metadata, "embedding"),
          words.size() + 1, labels.size()};
}

DocumentNetwork::Outputs DocumentNetwork::build(Scope& scope, Value ids, Value n_words, Value n_sentences) const {
  const auto dropped = [&](Value x) { return dropout_layer(scope, x, model.dropout, model.mask()); };
  // x [T,N,I] with lengths [N] -> [N,D*P]
  const auto read = [&](const std::string& part, Value x, Value lengths) {
    const Value y = recurrent_model(scope.child(part + "s"), x, model, {}, lengths).y;
    return pooled(scope.child(part + "_pooling"), y, pooling, model.bidirectional, lengths);
  };
  const Value x = dropped(embedding_layer(scope.child("embedding"), ids, words, embedding));
  const Pooled sentences = read("word", x, n_words);  // [S*B,D*P]
  const std::int64_t B = n_sentences.shape()[0], SB = n_words.shape()[0];
  const Value rows = reshape(sentences.output, {SB / B, B, sentences.output.shape()[1]});
  const Pooled document = read("sentence", dropped(rows), n_sentences);
  const Value last = dropout_layer(scope, document.output, model.dropout);
  return {linear_layer(scope.child("output"), last, labels), sentences.weights, document.weights};
}

namespace {

Inference document_inference(const Metadata& metadata) {
  const DocumentNetwork network =
      DocumentNetwork::of(metadata, get_lexicon(metadata, "vocabulary"), get_lexicon(metadata, "labels"));
  return {.inputs = {{"ids", DType::i32, {any("W"), any("S*B")}},
                     {"words", DType::i32, {any("S*B")}},
                     {"sentences", DType::i32, {any("B")}}},
          .outputs = {{"probabilities", DType::f32, {any("B"), fixed(network.labels)}}},
          .network = [network](Scope& scope, const Inputs& in) {
            const std::int64_t columns = in["words"].shape()[0], B = in["sentences"].shape()[0];
            if (B == 0 || columns % B != 0)
              throw Error(ErrorKind::shape, "document",
                          "'words' has " + std::to_string(columns) + " columns, not the same number for each of " +
                              std::to_string(B) + " documents");
            const Value logits = network.build(scope, in["ids"], in["words"], in["sentences"]).logits;
            return outputs({{"probabilities", softmax(logits)}});
          }};
}

}  // namespace

const NetworkRow document_network_row{document_inference};

}  // namespace unroll
