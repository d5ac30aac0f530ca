// SPDX-License-Identifier: Apache-2.0
// Labels for sentences, one at a time: a program for each padded length.
#include <algorithm>

#include "frontends/data/buckets.h"
#include "frontends/data/lines.h"
#include "frontends/data/text.h"
#include "frontends/model/constants.h"
#include "frontends/model/tasks/label_network.h"
#include "frontends/model/tasks/task_parts.h"
#include "unroll/error.h"
#include "unroll/ops.h"
#include "unroll/run.h"

namespace unroll {

namespace {

constexpr std::size_t k_max_length = 4096;

Lexicon lexicon_of(const Metadata& metadata, const char* key) {
  return Lexicon::from_lines(get_text(metadata, key), "model metadata '" + std::string(key) + "'");
}

}  // namespace

struct Labeller::State {
  State(const Metadata& metadata, const TensorMap& parameters, Backend& b)
      : backend(b), by_characters(get_text(metadata, "tokens") == "characters"),
        tokens(lexicon_of(metadata, "vocabulary")), labels(lexicon_of(metadata, "labels")),
        network(LabelNetwork::of(metadata, tokens, labels)), constants(constants_of(parameters)) {
    program(padded_length(1));  // so that what does not fit together is refused here
  }

  // ids i32 [T,1], lengths i32 [1] -> labels i32 [T,1]
  Program& program(std::int64_t steps) {
    std::unique_ptr<Program>& made = programs[steps];
    if (made) return *made;
    Graph graph;
    Scope scope(graph, /*training=*/false);
    const Value ids = graph.input("ids", {DType::i32, {steps, 1}}), lengths = graph.input("lengths", {DType::i32, {1}});
    graph.output("labels", network.decode(scope, network.build(scope, ids, lengths), lengths));
    made = std::make_unique<Program>(*with_constants(graph, 2, constants, "Labeller"), backend);
    return *made;
  }

  Backend& backend;
  bool by_characters;
  Lexicon tokens, labels;
  LabelNetwork network;
  Constants constants;
  std::map<std::int64_t, std::unique_ptr<Program>> programs;  // by T
};

Labeller::Labeller(const Metadata& metadata, const TensorMap& parameters, Backend& backend) {
  if (get_text(metadata, "task") != "label")
    throw Error(ErrorKind::usage, "Labeller",
                "the model is a '" + get_text(metadata, "task").substr(0, 40) + "', not a label");
  state_ = std::make_unique<State>(metadata, parameters, backend);
}
Labeller::~Labeller() = default;
Labeller::Labeller(Labeller&&) noexcept = default;
Labeller& Labeller::operator=(Labeller&&) noexcept = default;

std::vector<std::string> Labeller::cut(std::string_view line) const {
  if (!state_->by_characters) return words_of(line);
  std::vector<std::string> characters;
  for (const char32_t c : decode_utf8(line, "Labeller")) append_utf8(characters.emplace_back(), c);
  return characters;
}

std::vector<std::string> Labeller::label(std::span<const std::string> tokens) {
  if (tokens.size() > k_max_length)
    throw Error(
        ErrorKind::usage, "Labeller",
        "a sentence has at most " + std::to_string(k_max_length) + " tokens; got " + std::to_string(tokens.size()));
  if (tokens.empty()) return {};
  const auto length = static_cast<std::int64_t>(tokens.size()), steps = padded_length(length);
  Tensor ids(DType::i32, {steps, 1});
  std::transform(tokens.begin(), tokens.end(), ids.values<std::int32_t>().begin(),
                 [&](const std::string& token) { return state_->tokens.id(token); });
  TensorMap inputs;
  inputs.emplace("ids", std::move(ids));
  inputs.emplace("lengths", Tensor::from<std::int32_t>({1}, {static_cast<std::int32_t>(length)}));
  const TensorMap outputs = state_->program(steps).run(inputs);
  std::vector<std::string> labels;
  for (const std::int32_t id : outputs.at("labels").values<std::int32_t>().first(tokens.size()))
    labels.push_back(state_->labels.text(id));
  return labels;
}

}  // namespace unroll
