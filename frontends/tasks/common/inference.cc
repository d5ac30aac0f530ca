// SPDX-License-Identifier: Apache-2.0
// Trained tasks as networks from named inputs to named outputs.
#include "unroll/inference.h"

#include <algorithm>

#include "core/support/tensor_role.h"
#include "core/support/text/nearest_name.h"
#include "frontends/tasks/classify/features.h"
#include "frontends/tasks/common/pooling.h"
#include "frontends/tasks/common/task_parts.h"
#include "frontends/tasks/decode/attention_network.h"
#include "frontends/tasks/document/document_network.h"
#include "frontends/tasks/forecast/series_units.h"
#include "frontends/tasks/label/label_network.h"
#include "frontends/tasks/language_model/language_model.h"
#include "frontends/tasks/sequential/sequential.h"
#include "unroll/error.h"
#include "unroll/ops.h"

namespace unroll {

namespace {

Axis any(const char* letter) { return {letter, 0}; }
Axis fixed(std::int64_t size) { return {{}, size}; }

TaskGraph outputs(std::vector<std::pair<std::string, Value>> values) {
  TaskGraph graph;
  graph.outputs = std::move(values);
  return graph;
}

Inference language_inference(const Metadata& metadata) {
  const LanguageNetwork network = LanguageNetwork::of(metadata);
  Inference i{.inputs = {{"ids", DType::i32, {any("T"), any("B")}}},
              .outputs = {{"logits", DType::f32, {any("T"), any("B"), fixed(network.vocabulary)}}}};
  for (const Shape& shape : recurrent_state_shapes(network.model, 1)) {
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

Inference classify_inference(const Metadata& metadata) {
  const Features features = Features::of(metadata);
  const std::int64_t classes = get_integer(metadata, "classes");
  const std::string pooling = metadata.contains("pooling") ? get_text(metadata, "pooling") : "final";
  // A row is standardized column by column, so it has as many steps as in training.
  const bool by_column = features.normalize && features.steps > 1;
  const Axis steps = by_column ? fixed(features.steps) : any("T");
  return {.inputs = {{"x", DType::f32, {steps, any("B"), fixed(features.width())}}},
          .outputs = {{"probabilities", DType::f32, {any("B"), fixed(classes)}}},
          .network = [=, model = get_model_options(metadata)](Scope& scope, const Inputs& in) {
            const Value logits = sequence_answers(scope, features.scaled(in["x"]), model, pooling, classes);
            return outputs({{"probabilities", softmax(logits)}});
          }};
}

Inference forecast_inference(const Metadata& metadata) {
  const std::vector<SeriesScales> series = get_scales(metadata);
  const auto S = static_cast<std::int64_t>(series.size()), H = static_cast<std::int64_t>(series[0].ahead.size());
  const bool changes = get_integer(metadata, "difference") != 0;
  return {.inputs = {{"x", DType::f32, {any("T"), any("B"), fixed(S)}}},
          .outputs = {{"forecast", DType::f32, {any("B"), fixed(H), fixed(S)}}},
          .network = [=, model = get_model_options(metadata)](Scope& scope, const Inputs& in) {
            const Value x = in["x"];
            const std::int64_t T = x.shape()[0], B = x.shape()[1];
            if (changes && T < 2)
              throw Error(ErrorKind::shape, "forecast",
                          "a model of changes needs 2 steps or more; got " + std::to_string(T));
            const SeriesUnits read(scope.graph(), series, 1), given(scope.graph(), series, H);
            const Value values = changes ? slice(x, 0, 1, T - 1) - slice(x, 0, 0, T - 1) : x;
            const Value scaled = sequence_answers(scope, read.to_scaled(values), model, "final", H * S);
            const Value ahead = given.from_scaled(scaled);
            const Value by_step = reshape(ahead, {B, H, S});
            return outputs({{"forecast", changes ? by_step + reshape(row(x, T - 1), {B, 1, S}) : by_step}});
          }};
}

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

// Of translate without a pointer the logarithms of the distribution. Else the distribution of the vocabulary and of
// copying; a caller adds up what is copied by source word.
Inference written_inference(const Metadata& metadata) {
  const AttentionNetwork network = AttentionNetwork::of(metadata);
  const bool only_logs = get_text(metadata, "task") == "translate" && !network.pointer;
  const Axis S = any("S"), T = any("T"), B = any("B"), V = fixed(network.targets);
  Inference inference{
      .inputs = {{"source", DType::i32, {S, B}}, {"source_lengths", DType::i32, {B}}, {"target", DType::i32, {T, B}}},
      .outputs = {{"probabilities", DType::f32, {T, B, V}}, {"attention", DType::f32, {T, B, S}}},
      .network = [network, only_logs](Scope& scope, const Inputs& in) {
        const AttentionNetwork::Encoded e = network.encode(scope, in["source"], in["source_lengths"]);
        const AttentionNetwork::Written w = network.decode(scope, in["target"], e.states, e.memory);
        if (only_logs)
          return outputs({{"log_probabilities", transpose(network.reordered(log_softmax(w.logits)), {1, 0, 2})}});
        const Value p = network.reordered(softmax(w.logits)), attention = network.reordered(w.weights);
        if (!network.pointer) return outputs({{"probabilities", p}, {"attention", attention}});
        const Value p_gen = network.reordered(sigmoid(w.switched));  // [T,B,1]
        return outputs({{"probabilities", p_gen * p},
                        {"attention", attention},
                        {"p_gen", reshape(p_gen, {p_gen.shape()[0], p_gen.shape()[1]})}});
      }};
  if (only_logs) inference.outputs = {{"log_probabilities", DType::f32, {B, T, V}}};
  if (network.pointer) inference.outputs.push_back({"p_gen", DType::f32, {T, B}});
  return inference;
}

std::string text_of(const Axis& axis) { return axis.letter.empty() ? std::to_string(axis.size) : axis.letter; }

void bind(const TensorSpec& spec, const Tensor& tensor, std::map<std::string, std::int64_t>& sizes) {
  const auto refuse = [&](ErrorKind kind) {
    throw Error(kind, spec.name, "expected " + spec.text() + ", got " + tensor.type().text());
  };
  if (tensor.dtype() != spec.dtype) refuse(ErrorKind::type);
  if (tensor.shape().rank() != static_cast<int>(spec.axes.size())) refuse(ErrorKind::shape);
  for (std::size_t k = 0; k < spec.axes.size(); ++k) {
    const std::int64_t got = tensor.shape()[static_cast<int>(k)];
    if (spec.axes[k].letter.empty()) {
      if (got != spec.axes[k].size) refuse(ErrorKind::shape);
      continue;
    }
    const auto [at, is_new] = sizes.emplace(spec.axes[k].letter, got);
    if (!is_new && at->second != got)
      throw Error(ErrorKind::shape, spec.name,
                  "expected " + spec.text() + " with " + at->first + " = " + std::to_string(at->second) +
                      " as in another input, got " + tensor.type().text());
  }
}

}  // namespace

std::string TensorSpec::text() const {
  std::string text(dtype_name(dtype));
  for (std::size_t k = 0; k < axes.size(); ++k) text += (k == 0 ? "[" : ",") + text_of(axes[k]);
  return text + (axes.empty() ? "[]" : "]");
}

Inference task_inference(const Metadata& metadata) {
  struct Row {
    std::string_view task;
    Inference (*make)(const Metadata&);
  };
  constexpr Row k_tasks[] = {{"language_model", language_inference}, {"classify", classify_inference},
                             {"forecast", forecast_inference},       {"label", label_inference},
                             {"document", document_inference},       {"translate", written_inference},
                             {"summarize", written_inference},
                             {"sequential", sequential_inference}};
  const std::string& task = get_text(metadata, "task");
  for (const Row& row : k_tasks)
    if (row.task == task) return row.make(metadata);
  throw Error(ErrorKind::input_file, "model", "unknown task '" + task.substr(0, 40) + "'");
}

std::map<std::string, std::int64_t> bind_sizes(const Inference& inference, const TensorMap& inputs) {
  std::map<std::string, std::int64_t> sizes;
  std::vector<std::string_view> known;
  for (const TensorSpec& spec : inference.inputs) {
    known.push_back(spec.name);
    if (const auto at = inputs.find(spec.name); at != inputs.end())
      bind(spec, at->second, sizes);
    else if (std::find(inference.states.begin(), inference.states.end(), spec.name) == inference.states.end())
      throw Error(ErrorKind::usage, "inputs", "'" + spec.name + "' " + spec.text() + " is missing");
  }
  for (const auto& [name, tensor] : inputs)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw Error(ErrorKind::usage, "inputs", "there is no input '" + name + "'", known_names(name, known));
  return sizes;
}

TensorMap zero_states(const Inference& inference, const TensorMap& inputs) {
  const auto sizes = bind_sizes(inference, inputs);
  TensorMap zeros;
  for (const TensorSpec& spec : inference.inputs)
    if (!inputs.contains(spec.name)) zeros.emplace(spec.name, Tensor(spec.dtype, shape_of(spec, sizes)));
  return zeros;
}

Shape shape_of(const TensorSpec& spec, const std::map<std::string, std::int64_t>& sizes) {
  std::vector<std::int64_t> dims;
  for (const Axis& axis : spec.axes) {
    const auto at = sizes.find(axis.letter);
    if (!axis.letter.empty() && at == sizes.end())
      throw Error(ErrorKind::usage, spec.name, "the size of " + axis.letter + " is not known");
    dims.push_back(axis.letter.empty() ? axis.size : at->second);
  }
  return Shape(dims);
}

}  // namespace unroll
