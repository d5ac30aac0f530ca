// SPDX-License-Identifier: Apache-2.0
// Decoding with a trained pointer-generator network: many searches in lock step, a lane for each of their hypotheses.
#include <algorithm>
#include <cmath>

#include "frontends/data/batch/buckets.h"
#include "frontends/data/text/text.h"
#include "frontends/model/constants.h"
#include "frontends/tasks/common/prediction_batches.h"
#include "frontends/tasks/common/split_buckets.h"
#include "frontends/tasks/decode/bound_program.h"
#include "frontends/tasks/decode/lanes.h"
#include "frontends/tasks/summarize/summarize_network.h"
#include "frontends/tasks/summarize/summary_text.h"
#include "unroll/ops.h"

namespace unroll {

namespace {

constexpr std::string_view k_summarizer = "Summarizer";

std::string summary_state(std::size_t k) { return "state." + std::to_string(k); }

using Sources = std::span<const SourceTokens* const>;

// The logarithms of eq. 9 for one lane: `written` log(p_gen P_vocab) [V], `copied` (1 - p_gen) a [S], `to` [V + unknown
// words]. `mass` [V + unknown words] is zero before and after; few words of it are in the source.
void log_distribution(std::span<const float> written, std::span<const float> copied, const SourceTokens& source,
                      std::vector<float>& mass, std::span<float> to) {
  std::copy(written.begin(), written.end(), to.begin());
  std::fill(to.begin() + static_cast<std::ptrdiff_t>(written.size()), to.end(), -HUGE_VALF);
  if (copied.empty()) return;
  mass.resize(std::max(mass.size(), to.size()));
  for (std::size_t i = 0; i < source.copies.size(); ++i) mass[static_cast<std::size_t>(source.copies[i])] += copied[i];
  for (const std::int32_t id : source.copies) {
    const auto word = static_cast<std::size_t>(id);
    if (mass[word] > 0) to[word] = std::log(std::exp(to[word]) + mass[word]);
    mass[word] = 0;  // a word that the source repeats is added once
  }
}

}  // namespace

struct Summarizer::State {
  State(const Metadata& metadata, const TensorMap& parameters, Backend& b)
      : backend(b), coder(SummaryCoder::of(metadata)), network(SummarizeNetwork::of(metadata)),
        constants(constants_of(parameters)) {
    step({padded_length(1), 1, 1});  // so that what does not fit together is refused here
  }

  struct Size {
    std::int64_t steps, rows, lanes;  // S, B, K lanes for each row
    auto operator<=>(const Size&) const = default;
  };

  // source i32 [S,B], lengths i32 [B] -> values [B,S,M], keys [B,S,A], state.<k> [1,B,size]
  std::shared_ptr<Program> encoder(std::int64_t steps, std::int64_t rows) {
    return encoders.get({steps, rows}, [&] {
      Graph graph;
      Scope scope(graph, /*training=*/false);
      const Value ids = graph.input("source", {DType::i32, {steps, rows}}),
                  lengths = graph.input("lengths", {DType::i32, {rows}});
      const SummarizeNetwork::Encoded e = network.encode(scope, ids, lengths);
      graph.output("values", e.memory.values);
      graph.output("keys", e.memory.keys);
      for (std::size_t k = 0; k < e.states.size(); ++k) graph.output(summary_state(k), e.states[k]);
      return std::make_shared<Program>(*with_constants(graph, 2, constants, k_summarizer), backend);
    });
  }

  Type output_type(const std::shared_ptr<Program>& of, std::string_view name) {
    const Graph& graph = *of->plan().graph;
    for (const NamedValue& output : graph.outputs())
      if (output.name == name) return graph.type(output.value);
    return {};
  }

  // ids i32 [1,N], lengths i32 [B], values [B,S,M], keys [B,S,A], state.<k> [1,N,size], attended [1,N,S] ->
  // written = log(p_gen P_vocab) [N,V], copied = (1 - p_gen) a [N,S], state.<k>, attended: the attention so far.
  // N = B * K.
  std::shared_ptr<Program> step(const Size& z) {
    return steppers.get(z, [&] {
      const std::int64_t N = z.rows * z.lanes;
      const std::shared_ptr<Program> encoding = encoder(z.steps, z.rows);
      Graph graph;
      Scope scope(graph, /*training=*/false);
      const Value ids = graph.input("ids", {DType::i32, {1, N}}),
                  lengths = graph.input("lengths", {DType::i32, {z.rows}}),
                  values = graph.input("values", output_type(encoding, "values")),
                  keys = graph.input("keys", output_type(encoding, "keys")),
                  attended = graph.input("attended", {DType::f32, {1, N, z.steps}});
      std::vector<Value> states;
      for (Type type = output_type(encoding, summary_state(0)); type.shape.rank() == 3;
           type = output_type(encoding, summary_state(states.size())))
        states.push_back(graph.input(summary_state(states.size()), {type.dtype, {1, N, type.shape[2]}}));
      const auto outputs = [&](Step&, const SummarizeNetwork::Written& w) {
        const Value p_vocab = log_softmax(w.logits);
        if (!network.pointer) return std::vector{p_vocab, w.weights};
        const Value gate = w.switched;
        return std::vector{p_vocab - softplus(-gate), w.weights, sigmoid(-gate) * w.weights};
      };
      const CellLayerResult r = network.decode(scope, ids, states, {values, keys, lengths}, outputs);
      graph.output("written", row(r.outputs[0], 0));
      if (network.pointer) graph.output("copied", row(r.outputs[2], 0));
      graph.output("attended", attended + r.outputs[1]);
      for (std::size_t k = 0; k < states.size(); ++k) graph.output(summary_state(k), r.states[k]);
      return std::make_shared<Program>(*with_constants(graph, 5 + states.size(), constants, k_summarizer), backend);
    });
  }

  struct Encoding {
    TensorMap memory;  // values, keys, lengths
    TensorMap states;
  };
  Encoding encode(Sources sources, std::int64_t steps, std::int64_t rows) {
    Tensor ids(DType::i32, {steps, rows}), lengths(DType::i32, {rows});
    for (std::size_t b = 0; b < sources.size(); ++b) {
      put_column(ids, static_cast<std::int64_t>(b), sources[b]->ids);
      lengths.set(static_cast<std::int64_t>(b), static_cast<double>(sources[b]->ids.size()));
    }
    Encoding e;
    e.states = encoder(steps, rows)->run({{"source", std::move(ids)}, {"lengths", lengths}});
    for (const char* name : {"values", "keys"}) e.memory.insert(e.states.extract(name));
    e.memory.emplace("lengths", std::move(lengths));
    return e;
  }

  std::vector<std::vector<Hypothesis>> search(Sources sources, std::int64_t steps, std::int64_t rows,
                                              const DecodeOptions& options);

  Backend& backend;
  SummaryCoder coder;
  SummarizeNetwork network;
  Constants constants;
  ProgramCache<std::pair<std::int64_t, std::int64_t>> encoders;  // by S and B
  ProgramCache<Size> steppers;
};

std::vector<std::vector<Hypothesis>> Summarizer::State::search(Sources sources, std::int64_t steps, std::int64_t rows,
                                                               const DecodeOptions& options) {
  const Lanes lanes{rows, std::max<std::int64_t>(options.beam, 1)};
  const std::int64_t longest = options.max_length > 0 ? options.max_length
                                                      : std::max(coder.limits().target, options.min_length);
  std::vector<BeamSearch> searches(sources.size(), BeamSearch({.beam = options.beam,
                                                               .length_penalty = options.length_penalty,
                                                               .no_repeat_ngram = options.no_repeat_ngram,
                                                               .min_length = options.min_length,
                                                               .max_length = longest,
                                                               .end = coder.end(),
                                                               .never = coder.tokenizer().unknown()}));
  const Encoding encoding = encode(sources, steps, rows);
  const std::shared_ptr<Program> program = step({steps, rows, lanes.per_row});
  BoundProgram bound(program);
  bound.set(encoding.memory);
  TensorMap states = encoding.states;
  states.emplace("attended", Tensor(DType::f32, {1, rows, steps}));
  const TensorMap* last = nullptr;
  const RunLanes run = [&](const std::vector<std::int32_t>& tokens, TensorMap inputs) {
    std::vector<std::int32_t> read;
    for (const std::int32_t id : tokens) read.push_back(coder.known(id));
    bound.set("ids", Tensor::from<std::int32_t>({1, lanes.count()}, read));
    bound.set(inputs);
    last = &bound.run();
    for (auto& [name, tensor] : inputs) tensor = last->at(name);
    return inputs;
  };
  std::vector<float> logs, mass;
  const AdvanceRow advance = [&](std::size_t b, std::size_t first_lane, BeamSearch& search) {
    const SourceTokens& source = *sources[b];
    const auto V = static_cast<std::size_t>(coder.tokens()), S = static_cast<std::size_t>(steps);
    const std::size_t n = search.tokens().size(), all = V + source.unknown.size();
    logs.resize(n * all);
    std::vector<double> bonuses;
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t lane = first_lane + i;
      std::span<const float> copied;
      if (network.pointer) copied = last->at("copied").values<float>().subspan(lane * S, S);
      log_distribution(last->at("written").values<float>().subspan(lane * V, V), copied, source, mass,
                       std::span(logs).subspan(i * all, all));
      if (options.coverage_penalty != 0)
        bonuses.push_back(options.coverage_penalty *
                          coverage_penalty(last->at("attended").values<float>().subspan(lane * S, source.ids.size())));
    }
    search.advance(logs, bonuses);
  };
  search_lanes(searches, lanes, coder.end(), std::move(states), run, advance);
  std::vector<std::vector<Hypothesis>> results;
  for (const BeamSearch& s : searches) results.push_back(s.ranked());
  return results;
}

Summarizer::Summarizer(const Metadata& metadata, const TensorMap& parameters, Backend& backend) {
  require_task(metadata, "summarize", k_summarizer);
  state_ = std::make_unique<State>(metadata, parameters, backend);
}
Summarizer::~Summarizer() = default;
Summarizer::Summarizer(Summarizer&&) noexcept = default;
Summarizer& Summarizer::operator=(Summarizer&&) noexcept = default;

void Summarizer::check(std::string_view source) const {
  if (const std::size_t at = first_not_utf8(source); at != std::string_view::npos)
    throw Error(ErrorKind::usage, std::string(k_summarizer),
                "the source is not UTF-8 at byte " + std::to_string(at + 1));
}

std::vector<Summarizer::Result> Summarizer::predict(std::span<const std::string> sources,
                                                    const DecodeOptions& options) {
  State& s = *state_;
  std::vector<Result> results(sources.size());
  std::vector<SourceTokens> tokens(sources.size());
  std::map<std::int64_t, std::vector<std::size_t>> by_length;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    check(sources[i]);
    tokens[i] = s.coder.source(sources[i], std::string(k_summarizer));
    results[i].tokens = static_cast<std::int64_t>(tokens[i].ids.size());
    results[i].unknown = tokens[i].n_unknown;
    results[i].cut = tokens[i].cut;
    if (!tokens[i].ids.empty()) by_length[padded_length(results[i].tokens)].push_back(i);
  }
  for (const auto& [steps, items] : by_length) {
    // Memories, and the distributions of all lanes.
    const std::int64_t elements = 4 * steps * s.network.model.hidden +
                                  std::max<std::int64_t>(options.beam, 1) * (2 * steps + s.network.tokens);
    for_each_batch(items, prediction_rows(elements, std::int64_t{1} << 23),
                   [&, steps = steps](std::span<const std::size_t> part, std::int64_t rows) {
                     std::vector<const SourceTokens*> batch;
                     for (const std::size_t i : part) batch.push_back(&tokens[i]);
                     const auto found = s.search(batch, steps, rows, options);
                     for (std::size_t b = 0; b < part.size(); ++b)
                       for (const Hypothesis& h : found[b])
                         results[part[b]].summaries.push_back(
                             {s.coder.text_of(h.tokens, *batch[b]), h.log_probability, h.score});
                   });
  }
  return results;
}

std::string Summarizer::summarize(std::string_view source, const DecodeOptions& options) {
  const std::string one[] = {std::string(source)};
  const std::vector<Result> results = predict(one, options);
  return results[0].summaries.empty() ? "" : results[0].summaries[0].text;
}

Summarizer::Attention Summarizer::attention(std::string_view source, std::string_view summary) {
  State& s = *state_;
  const std::string who(k_summarizer);
  check(source);
  check(summary);
  const SourceTokens from = s.coder.source(source, who);
  std::vector<std::int32_t> to = s.coder.target(summary, from, who).ids, read{s.coder.end()};
  Attention a;
  if (from.ids.empty()) return a;
  for (const std::int32_t id : from.copies) a.source.push_back(s.coder.word(id, from));
  for (const std::int32_t id : to) {
    a.target.push_back(s.coder.word(id, from));
    read.push_back(s.coder.known(id));
  }
  a.target.emplace_back();
  const auto S = static_cast<std::int64_t>(from.ids.size()), T = static_cast<std::int64_t>(read.size());
  Graph graph;
  Scope scope(graph, /*training=*/false);
  const Value ids = graph.input("source", {DType::i32, {S, 1}}), lengths = graph.input("lengths", {DType::i32, {1}}),
              before = graph.input("before", {DType::i32, {T, 1}});
  const SummarizeNetwork::Encoded e = s.network.encode(scope, ids, lengths);
  const auto outputs = [](Step&, const SummarizeNetwork::Written& w) {
    return w.switched ? std::vector{w.weights, sigmoid(w.switched)} : std::vector{w.weights};
  };
  const CellLayerResult r = s.network.decode(scope, before, e.states, e.memory, outputs);
  graph.output("weights", r.outputs[0]);
  if (r.outputs.size() > 1) graph.output("p_gen", r.outputs[1]);
  Program program(*with_constants(graph, 3, s.constants, k_summarizer), s.backend);
  const TensorMap out = program.run({{"source", Tensor::from<std::int32_t>({S, 1}, from.ids)},
                                     {"lengths", Tensor::from<std::int32_t>({1}, {static_cast<std::int32_t>(S)})},
                                     {"before", Tensor::from<std::int32_t>({T, 1}, read)}});
  const auto weights = out.at("weights").values<float>();
  a.weights.assign(weights.begin(), weights.end());
  a.p_gen.assign(static_cast<std::size_t>(T), 1);
  if (s.network.pointer) std::copy_n(out.at("p_gen").values<float>().begin(), T, a.p_gen.begin());
  return a;
}

}  // namespace unroll
