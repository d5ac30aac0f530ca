// SPDX-License-Identifier: Apache-2.0
#include "frontends/tasks/label/label_network.h"

#include "frontends/tasks/common/task_parts.h"
#include "unroll/error.h"
#include "unroll/ops.h"

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

}  // namespace unroll
