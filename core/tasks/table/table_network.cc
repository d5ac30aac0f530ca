// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/table/table_network.h"

#include "core/support/text/in_quotes.h"
#include "core/tasks/common/network_parts.h"
#include "core/tasks/common/pooling.h"
#include "unroll/support/error.h"

namespace unroll {

TableNetwork TableNetwork::of(const Metadata& metadata) {
  return {Features::of(metadata), get_model_options(metadata),
          metadata.contains("pooling") ? get_text(metadata, "pooling") : "final"};
}

Value TableNetwork::answers(Scope& scope, Value x, std::int64_t n) const {
  return sequence_answers(scope, x, model, pooling, n);
}

Inference TableNetwork::inference(const std::string& name, std::int64_t n,
                                  const std::function<Value(Value)>& finish) const {
  // Standardization is by column, so a row has the same number of steps as in training.
  const bool by_column = features.normalize && features.steps > 1;
  const Axis steps = by_column ? fixed(features.steps) : any("T");
  return {.inputs = {{"x", DType::f32, {steps, any("B"), fixed(features.width())}}},
          .outputs = {{name, DType::f32, {any("B"), fixed(n)}}},
          .network = [self = *this, name, n, finish](Scope& scope, const Inputs& in) {
            return outputs({{name, finish(self.answers(scope, self.features.scaled(in["x"]), n))}});
          }};
}

StreamModel TableNetwork::stream(std::int64_t n) const {
  if (pooling != "final")
    throw Error(ErrorKind::unsupported, "task_stream",
                "a stream reads only the last step; the pooling of this model needs the whole sequence: " +
                    in_quotes(pooling),
                "Use `unroll predict` for whole sequences, or train with pooling = \"final\"");
  if (features.normalize && features.steps > 1)
    throw Error(ErrorKind::unsupported, "task_stream",
                "the model standardizes each column of a row by itself; a stream has no columns",
                "Use `unroll predict` for whole sequences, or train with data.normalize = false");
  StreamModel stream = recurrent_stream(model, features.width());
  stream.build = [self = *this, n](Scope& scope, Value x, std::span<const Value> states) {
    return step_answers(scope, self.features.scaled(x), self.model, states, n);
  };
  return stream;
}

}  // namespace unroll
