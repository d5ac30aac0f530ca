// SPDX-License-Identifier: Apache-2.0
// Decoding with a trained encoder and decoder: many searches in lock step, a lane for each of their hypotheses.
#include "frontends/data/batch/buckets.h"
#include "frontends/model/constants.h"
#include "frontends/tasks/common/prediction_batches.h"
#include "frontends/tasks/common/split_buckets.h"
#include "frontends/tasks/common/task_parts.h"
#include "frontends/tasks/decode/bound_program.h"
#include "frontends/tasks/decode/lanes.h"
#include "frontends/tasks/translate/translate_network.h"
#include "unroll/ops.h"

namespace unroll {

namespace {

constexpr std::string_view k_translator = "Translator";

std::string excess_tokens(std::size_t tokens) {
  if (tokens <= k_max_line_tokens) return {};
  return "a source may have at most " + std::to_string(k_max_line_tokens) + " tokens; got " + std::to_string(tokens);
}

std::string translation_state(std::size_t k) { return "state." + std::to_string(k); }

}  // namespace

struct Translator::State {
  State(const Metadata& metadata, const TensorMap& parameters, Backend& b)
      : backend(b), source(get_coder(metadata, "source")), target(get_coder(metadata, "target")),
        network(TranslateNetwork::of(metadata)), constants(constants_of(parameters)) {
    encoder(padded_length(1), 1);  // so that what does not fit together is refused here
    step({padded_length(1), 1, 1});
  }

  struct Size {
    std::int64_t steps, rows, lanes;  // S, B, K lanes for each row
    auto operator<=>(const Size&) const = default;
  };

  // source i32 [S,B], lengths i32 [B] -> memory [B,S,M], state.<k> [L,B,size]
  std::shared_ptr<Program> encoder(std::int64_t steps, std::int64_t rows) {
    return encoders.get({steps, rows}, [&] {
      Graph graph;
      Scope scope(graph, /*training=*/false);
      const Value ids = graph.input("source", {DType::i32, {steps, rows}}),
                  lengths = graph.input("lengths", {DType::i32, {rows}});
      const TranslateNetwork::Encoded e = network.encode(scope, ids, lengths);
      graph.output("memory", e.memory);
      for (std::size_t k = 0; k < e.states.size(); ++k) graph.output(translation_state(k), e.states[k]);
      return std::make_shared<Program>(*with_constants(graph, 2, constants, k_translator), backend);
    });
  }

  Type memory_type(std::int64_t steps, std::int64_t rows) {
    const std::shared_ptr<Program> encoding = encoder(steps, rows);
    const Graph& graph = *encoding->plan().graph;
    for (const NamedValue& output : graph.outputs())
      if (output.name == "memory") return graph.type(output.value);
    throw Error(ErrorKind::internal, k_translator, "the encoder has no output 'memory'");
  }

  // ids i32 [1,B*K], lengths i32 [B], memory [B,S,M], state.<k> [L,B*K,size], coverage [1,B*K,S] -> logs [B*K,V],
  // state.<k>, coverage: the attention so far. The lanes of a row lie side by side.
  std::shared_ptr<Program> step(const Size& z) {
    return steppers.get(z, [&] {
      const std::int64_t lanes = z.rows * z.lanes;
      const Type type = memory_type(z.steps, z.rows);
      Graph graph;
      Scope scope(graph, /*training=*/false);
      const Value ids = graph.input("ids", {DType::i32, {1, lanes}}),
                  lengths = graph.input("lengths", {DType::i32, {z.rows}}), memory = graph.input("memory", type);
      std::vector<Value> states;
      for (const Shape& shape : recurrent_state_shapes(network.decoder(), lanes))
        states.push_back(graph.input(translation_state(states.size()), {DType::f32, shape}));
      const Value coverage = graph.input("coverage", {DType::f32, {1, lanes, z.steps}});
      const TranslateNetwork::Decoded d =
          network.decode(scope, ids, states, repeated(memory, z.lanes), repeated(lengths, z.lanes));
      graph.output("logs", reshape(log_softmax(d.logits), {lanes, network.targets}));
      graph.output("coverage", coverage + reshape(d.weights, coverage.shape()));
      for (std::size_t k = 0; k < states.size(); ++k) graph.output(translation_state(k), d.states[k]);
      return std::make_shared<Program>(*with_constants(graph, 4 + states.size(), constants, k_translator), backend);
    });
  }

  struct Encoding {
    Tensor memory, lengths;
    TensorMap states;
  };
  Encoding encode(std::span<const std::vector<std::int32_t>* const> sources, std::int64_t steps, std::int64_t rows) {
    Tensor ids(DType::i32, {steps, rows}), lengths(DType::i32, {rows});
    for (std::size_t b = 0; b < sources.size(); ++b) {
      put_column(ids, static_cast<std::int64_t>(b), *sources[b]);
      lengths.set(static_cast<std::int64_t>(b), static_cast<double>(sources[b]->size()));
    }
    Encoding e;
    e.states = encoder(steps, rows)->run({{"source", std::move(ids)}, {"lengths", lengths}});
    e.memory = e.states.at("memory");
    e.states.erase("memory");
    e.lengths = std::move(lengths);
    return e;
  }

  std::vector<std::vector<Hypothesis>> search(std::span<const std::vector<std::int32_t>* const> sources,
                                              std::int64_t steps, std::int64_t rows, const DecodeOptions& options);

  Backend& backend;
  LineCoder source, target;
  TranslateNetwork network;
  Constants constants;
  ProgramCache<std::pair<std::int64_t, std::int64_t>> encoders;  // by S and B
  ProgramCache<Size> steppers;
};

std::vector<std::vector<Hypothesis>> Translator::State::search(
    std::span<const std::vector<std::int32_t>* const> sources, std::int64_t steps, std::int64_t rows,
    const DecodeOptions& options) {
  const std::int64_t K = std::max<std::int64_t>(options.beam, 1), lanes = rows * K;
  std::vector<BeamSearch> searches;
  for (const std::vector<std::int32_t>* one : sources) {
    const auto length = static_cast<std::int64_t>(one->size());
    searches.emplace_back(BeamOptions{.beam = options.beam,
                                      .length_penalty = options.length_penalty,
                                      .no_repeat_ngram = options.no_repeat_ngram,
                                      .min_length = options.min_length,
                                      .max_length = options.max_length > 0
                                                        ? options.max_length
                                                        : std::max(2 * length + 20, options.min_length),
                                      .end = static_cast<std::int32_t>(network.targets - 1)});
  }
  const Encoding encoding = encode(sources, steps, rows);
  const std::shared_ptr<Program> program = step({steps, rows, K});
  TensorMap states = encoding.states;
  states.emplace("coverage", Tensor(DType::f32, {1, rows, steps}));
  BoundProgram bound(program);
  bound.set("lengths", encoding.lengths);
  bound.set("memory", encoding.memory);
  const TensorMap* last = nullptr;
  const RunLanes run = [&](const std::vector<std::int32_t>& tokens, TensorMap inputs) {
    bound.set("ids", Tensor::from<std::int32_t>({1, lanes}, tokens));
    bound.set(inputs);
    last = &bound.run();
    for (auto& [name, tensor] : inputs) tensor = last->at(name);
    return inputs;
  };
  const AdvanceRow advance = [&](std::size_t b, std::size_t first_lane, BeamSearch& search) {
    const std::size_t n = search.tokens().size(), V = static_cast<std::size_t>(network.targets);
    std::vector<double> bonuses;
    for (std::size_t lane = first_lane; options.coverage_penalty != 0 && lane < first_lane + n; ++lane)
      bonuses.push_back(options.coverage_penalty *
                        coverage_penalty(last->at("coverage").values<float>().subspan(
                            lane * static_cast<std::size_t>(steps), sources[b]->size())));
    search.advance(last->at("logs").values<float>().subspan(first_lane * V, n * V), bonuses);
  };
  const auto end = static_cast<std::int32_t>(network.targets - 1);
  search_lanes(searches, {rows, K}, end, std::move(states), run, advance);
  std::vector<std::vector<Hypothesis>> results;
  for (const BeamSearch& s : searches) results.push_back(s.ranked());
  return results;
}

Translator::Translator(const Metadata& metadata, const TensorMap& parameters, Backend& backend) {
  require_task(metadata, "translate", k_translator);
  state_ = std::make_unique<State>(metadata, parameters, backend);
}
Translator::~Translator() = default;
Translator::Translator(Translator&&) noexcept = default;
Translator& Translator::operator=(Translator&&) noexcept = default;

void Translator::check(std::string_view source) const {
  if (const std::string what = excess_tokens(state_->source.encode(source, std::string(k_translator)).size());
      !what.empty())
    throw Error(ErrorKind::usage, k_translator, what);
}

std::vector<Translator::Result> Translator::predict(std::span<const std::string> sources,
                                                    const DecodeOptions& options) {
  State& s = *state_;
  std::vector<Result> results(sources.size());
  std::vector<std::vector<std::int32_t>> ids(sources.size());
  std::map<std::int64_t, std::vector<std::size_t>> by_length;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    ids[i] = s.source.encode(sources[i], std::string(k_translator));
    if (const std::string what = excess_tokens(ids[i].size()); !what.empty()) refuse_input(k_translator, i, what);
    results[i].tokens = static_cast<std::int64_t>(ids[i].size());
    results[i].unknown = std::count(ids[i].begin(), ids[i].end(), s.source.tokenizer().unknown());
    if (!ids[i].empty()) by_length[padded_length(results[i].tokens)].push_back(i);
  }
  for (const auto& [steps, items] : by_length) {
    // Memories and log probabilities of all lanes.
    const std::int64_t elements = std::max<std::int64_t>(options.beam, 1) * (steps * s.network.model.hidden +
                                                                             s.network.targets);
    for_each_batch(items, prediction_rows(elements, std::int64_t{1} << 22),
                   [&, steps = steps](std::span<const std::size_t> part, std::int64_t rows) {
                     std::vector<const std::vector<std::int32_t>*> batch;
                     for (const std::size_t i : part) batch.push_back(&ids[i]);
                     const auto found = s.search(batch, steps, rows, options);
                     for (std::size_t b = 0; b < part.size(); ++b) {
                       Result& result = results[part[b]];
                       for (const Hypothesis& h : found[b])
                         result.targets.push_back({s.target.decode(h.tokens), h.log_probability, h.score});
                       result.text = result.targets[0].text;
                       result.log_probability = result.targets[0].log_probability;
                     }
                   });
  }
  return results;
}

std::string Translator::translate(std::string_view source, const DecodeOptions& options) {
  check(source);
  const std::string one[] = {std::string(source)};
  return std::move(predict(one, options)[0].text);
}

Translator::Attention Translator::attention(std::string_view source, std::string_view target) {
  State& s = *state_;
  const std::string who(k_translator);
  const std::vector<std::int32_t> from = s.source.encode(source, who), to = s.target.encode(target, who);
  for (const std::size_t tokens : {from.size(), to.size()})
    if (const std::string what = excess_tokens(tokens); !what.empty())
      throw Error(ErrorKind::usage, k_translator, what);
  Attention a;
  if (from.empty()) return a;
  for (const std::int32_t id : from) a.source.push_back(s.source.tokenizer().text(id));
  for (const std::int32_t id : to) a.target.push_back(s.target.tokenizer().text(id));
  a.target.emplace_back();
  const std::int64_t S = padded_length(static_cast<std::int64_t>(from.size()));
  const auto T = static_cast<std::int64_t>(to.size()) + 1;
  const std::vector<std::int32_t>* const one[] = {&from};
  const State::Encoding encoding = s.encode(one, S, 1);
  Graph graph;
  Scope scope(graph, /*training=*/false);
  const Value ids = graph.input("ids", {DType::i32, {T, 1}}), lengths = graph.input("lengths", {DType::i32, {1}}),
              memory = graph.input("memory", encoding.memory.type());
  std::vector<Value> states;
  for (std::size_t k = 0; k < encoding.states.size(); ++k)
    states.push_back(graph.input(translation_state(k), encoding.states.at(translation_state(k)).type()));
  graph.output("weights", s.network.decode(scope, ids, states, memory, lengths).weights);
  std::vector<std::int32_t> read{static_cast<std::int32_t>(s.network.targets - 1)};  // each token after the one before
  read.insert(read.end(), to.begin(), to.end());
  TensorMap inputs = encoding.states;
  inputs.emplace("ids", Tensor::from<std::int32_t>({T, 1}, read));
  inputs.emplace("lengths", encoding.lengths);
  inputs.emplace("memory", encoding.memory);
  Program program(*with_constants(graph, 3 + states.size(), s.constants, k_translator), s.backend);
  const TensorMap outputs = program.run(inputs);
  const auto weights = outputs.at("weights").values<float>();  // [1,T,S]
  for (std::int64_t t = 0; t < T; ++t) {
    const auto row = weights.subspan(static_cast<std::size_t>(t * S), from.size());
    a.weights.insert(a.weights.end(), row.begin(), row.end());
  }
  return a;
}

}  // namespace unroll
