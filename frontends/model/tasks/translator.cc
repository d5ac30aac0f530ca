// SPDX-License-Identifier: Apache-2.0
// Decoding with a trained encoder and decoder: one program per padded source length, and one of a step per number of
// lanes.
#include <algorithm>
#include <cstring>

#include "frontends/data/buckets.h"
#include "frontends/model/constants.h"
#include "frontends/model/tasks/beam_search.h"
#include "frontends/model/tasks/task_parts.h"
#include "frontends/model/tasks/translate_network.h"
#include "unroll/error.h"
#include "unroll/ops.h"
#include "unroll/run.h"

namespace unroll {

namespace {

constexpr std::string_view k_who = "Translator";

LineCoder coder_of(const Metadata& metadata, const std::string& which) {
  const std::string key = which + ".vocabulary";
  return LineCoder(
      Tokenizer::from_stored(get_text(metadata, "tokens"), get_text(metadata, key), "model metadata '" + key + "'"));
}

std::string state_name(std::size_t k) { return "state." + std::to_string(k); }

// Lane i of the result is lane parents[i] of `state` [L,B,size]; lanes without a parent are those of lane 0.
Tensor reordered(const Tensor& state, std::span<const std::size_t> parents, std::int64_t lanes) {
  const std::int64_t L = state.shape()[0], B = state.shape()[1], size = state.shape()[2];
  Tensor result(state.dtype(), {L, lanes, size});
  const auto from = state.values<float>();
  const auto to = result.values<float>();
  for (std::int64_t l = 0; l < L; ++l)
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      const auto i = static_cast<std::size_t>(lane);
      const std::int64_t parent = i < parents.size() ? static_cast<std::int64_t>(parents[i]) : 0;
      std::copy_n(from.begin() + (l * B + parent) * size, size, to.begin() + (l * lanes + lane) * size);
    }
  return result;
}

}  // namespace

struct Translator::State {
  State(const Metadata& metadata, const TensorMap& parameters, Backend& b)
      : backend(b), source(coder_of(metadata, "source")),
        target(coder_of(metadata, "target")), network{get_model_options(metadata), get_text(metadata, "attention"),
                                                      get_integer(metadata, "embedding"), source.tokenizer().size(),
                                                      target.tokenizer().size() + 1,
                                                      metadata.contains("tied") && get_integer(metadata, "tied") != 0},
        constants(constants_of(parameters)) {
    encoder(padded_length(1));  // so that what does not fit together is refused here
    step(padded_length(1), 1);
  }

  // source i32 [S,1], lengths i32 [1] -> memory [1,S,M], state.<k> [L,1,size]
  Program& encoder(std::int64_t steps) {
    std::unique_ptr<Program>& made = encoders[steps];
    if (made) return *made;
    Graph graph;
    Scope scope(graph, /*training=*/false);
    const Value ids = graph.input("source", {DType::i32, {steps, 1}}),
                lengths = graph.input("lengths", {DType::i32, {1}});
    const TranslateNetwork::Encoded e = network.encode(scope, ids, lengths);
    graph.output("memory", e.memory);
    for (std::size_t k = 0; k < e.states.size(); ++k) graph.output(state_name(k), e.states[k]);
    made = std::make_unique<Program>(*with_constants(graph, 2, constants, k_who), backend);
    return *made;
  }

  // ids i32 [1,K], lengths i32 [1], memory [1,S,M], state.<k> [L,K,size] -> logs [K,V], state.<k>
  Program& step(std::int64_t steps, std::int64_t lanes) {
    std::unique_ptr<Program>& made = steppers[{steps, lanes}];
    if (made) return *made;
    Graph graph;
    Scope scope(graph, /*training=*/false);
    const Value ids = graph.input("ids", {DType::i32, {1, lanes}}), lengths = graph.input("lengths", {DType::i32, {1}});
    const Graph& encoding = *encoder(steps).plan().graph;
    const auto type_of = [&](std::string_view name) {
      for (const NamedValue& output : encoding.outputs())
        if (output.name == name) return encoding.type(output.value);
      throw Error(ErrorKind::internal, k_who, "the encoder has no output '" + std::string(name) + "'");
    };
    const Value memory = graph.input("memory", type_of("memory"));
    std::vector<Value> states;
    for (const Shape& shape : recurrent_state_shapes(network.decoder(), lanes))
      states.push_back(graph.input(state_name(states.size()), {DType::f32, shape}));
    const TranslateNetwork::Decoded d = network.decode(
        scope, ids, states, broadcast(memory, memory.shape().with(0, lanes)), broadcast(lengths, {lanes}));
    graph.output("logs", reshape(log_softmax(d.logits), {lanes, network.targets}));
    for (std::size_t k = 0; k < states.size(); ++k) graph.output(state_name(k), d.states[k]);
    made = std::make_unique<Program>(*with_constants(graph, 3 + states.size(), constants, k_who), backend);
    return *made;
  }

  Backend& backend;
  LineCoder source, target;
  TranslateNetwork network;
  Constants constants;
  std::map<std::int64_t, std::unique_ptr<Program>> encoders;                           // by S
  std::map<std::pair<std::int64_t, std::int64_t>, std::unique_ptr<Program>> steppers;  // by S and lanes
};

Translator::Translator(const Metadata& metadata, const TensorMap& parameters, Backend& backend) {
  if (get_text(metadata, "task") != "translate")
    throw Error(ErrorKind::usage, k_who,
                "the model is a '" + get_text(metadata, "task").substr(0, 40) + "', not a translate");
  state_ = std::make_unique<State>(metadata, parameters, backend);
}
Translator::~Translator() = default;
Translator::Translator(Translator&&) noexcept = default;
Translator& Translator::operator=(Translator&&) noexcept = default;

std::string Translator::translate(std::string_view source, const DecodeOptions& options) {
  State& s = *state_;
  const std::vector<std::int32_t> ids = s.source.encode(source, "Translator");
  if (ids.size() > k_max_line_tokens)
    throw Error(
        ErrorKind::usage, k_who,
        "a source has at most " + std::to_string(k_max_line_tokens) + " tokens; got " + std::to_string(ids.size()));
  if (ids.empty()) return {};
  const auto length = static_cast<std::int64_t>(ids.size()), S = padded_length(length);
  Tensor padded(DType::i32, {S, 1});
  std::copy(ids.begin(), ids.end(), padded.values<std::int32_t>().begin());
  const Tensor lengths = Tensor::from<std::int32_t>({1}, {static_cast<std::int32_t>(length)});
  TensorMap outputs = s.encoder(S).run({{"source", std::move(padded)}, {"lengths", lengths}});
  const Tensor memory = outputs.at("memory");
  outputs.erase("memory");

  const std::int64_t lanes = std::max<std::int64_t>(options.beam, 1);
  const BeamStep step = [&](std::span<const std::int32_t> tokens, std::span<const std::size_t> parents) {
    Tensor last(DType::i32, {1, lanes});
    std::copy(tokens.begin(), tokens.end(), last.values<std::int32_t>().begin());
    TensorMap inputs{{"ids", std::move(last)}, {"lengths", lengths}, {"memory", memory}};
    for (const auto& [name, tensor] : outputs)
      if (name != "logs") inputs.emplace(name, reordered(tensor, parents, lanes));
    outputs = s.step(S, lanes).run(inputs);
    return std::span<const float>(outputs.at("logs").values<float>())
        .first(tokens.size() * static_cast<std::size_t>(s.network.targets));
  };
  const BeamOptions beam{.beam = options.beam,
                         .length_penalty = options.length_penalty,
                         .no_repeat_ngram = options.no_repeat_ngram,
                         .max_length = options.max_length > 0 ? options.max_length : 2 * length + 20,
                         .end = static_cast<std::int32_t>(s.network.targets - 1)};
  return s.target.decode(beam_search(step, beam).tokens);
}

}  // namespace unroll
