// SPDX-License-Identifier: Apache-2.0
#include "frontends/tasks/document/document_network.h"

#include "frontends/tasks/common/pooling.h"
#include "frontends/tasks/common/task_parts.h"
#include "unroll/error.h"
#include "unroll/ops.h"

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

}  // namespace unroll
