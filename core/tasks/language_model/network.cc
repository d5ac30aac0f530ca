// SPDX-License-Identifier: Apache-2.0
#include "core/support/tensor_role.h"
#include "core/tasks/common/network_parts.h"
#include "core/tasks/common/task_parts.h"
#include "core/tasks/language_model/language_model.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

std::int32_t document_start_of(const Metadata& metadata) {
  if (!metadata.contains("document_start")) return -1;
  return static_cast<std::int32_t>(get_integer(metadata, "document_start"));
}

LanguageNetwork LanguageNetwork::of(const Metadata& metadata) {
  return {get_model_options(metadata), get_integer(metadata, "embedding"),
          language_tokenizer(metadata, "model").size(),
          metadata.contains("tied") && get_integer(metadata, "tied") != 0, document_start_of(metadata)};
}

CellLayerResult LanguageNetwork::build(Scope& scope, Value ids, std::span<const Value> states) const {
  if (model.bidirectional)
    throw Error(ErrorKind::usage, "language_model",
                "a bidirectional language model could read the token that it predicts", "Set bidirectional = false");
  const Readout readout{tied};
  Value x = readout.embedding(scope.child("embedding"), ids, vocabulary, embedding);
  // Gal and Ghahramani also drop inputs of the first layer. With a mask per step this would delete characters.
  if (model.variational) x = dropout_layer(scope, x, model.dropout, model.mask());
  const Value reset = document_start >= 0 ? equal(ids, scalar_like(ids, document_start)) : Value();
  CellLayerResult r = recurrent_model(scope.child("recurrent"), x, model, states, {}, reset);
  r.y = readout.logits(scope.child("output"), scope.child("embedding"),
                       dropout_layer(scope, r.y, model.dropout, model.mask()), vocabulary, embedding);
  return r;
}

Tokenizer language_tokenizer(const Metadata& metadata, const std::string& name) {
  const std::string kind = metadata.contains("tokens") ? get_text(metadata, "tokens") : "characters";
  return Tokenizer::from_stored(kind, get_text(metadata, "vocabulary"), name);
}

namespace {

Inference language_inference(const Metadata& metadata) {
  const LanguageNetwork network = LanguageNetwork::of(metadata);
  Inference i{.inputs = {{"ids", DType::i32, {any("T"), any("B")}}},
              .outputs = {{"logits", DType::f32, {any("T"), any("B"), fixed(network.vocabulary)}}}};
  for (const Shape& shape : recurrent_state_shapes(network.model, 1, network.embedding)) {
    i.states.push_back(state_name(i.states.size()));
    const TensorSpec state{i.states.back(), DType::f32, {fixed(shape[0]), any("B"), fixed(shape[2])}};
    i.inputs.push_back(state);
    i.outputs.push_back(state);
  }
  i.network = [network, names = i.states](Scope& scope, const Inputs& in) {
    std::vector<Value> states;
    for (const std::string& name : names) states.push_back(in[name]);
    const CellLayerResult r = network.build(scope, in["ids"], states);
    TaskGraph graph = outputs({{"logits", r.y}});
    for (std::size_t k = 0; k < names.size(); ++k) graph.outputs.emplace_back(names[k], r.states[k]);
    return graph;
  };
  return i;
}

StreamModel language_stream(const Metadata& metadata) {
  const RecurrentModelOptions model = get_model_options(metadata);
  StreamModel stream = recurrent_stream(model, get_integer(metadata, "embedding"));
  stream.input = DType::i32;
  stream.inputs = 1;
  LanguageNetwork network = LanguageNetwork::of(metadata);
  network.document_start = -1;  // the owner of the stream resets it
  stream.build = [network](Scope& scope, Value ids, std::span<const Value> states) {
    return network.build(scope, ids, states);
  };
  return stream;
}

}  // namespace

const NetworkRow language_model_network_row{language_inference, language_stream};

}  // namespace unroll
