// SPDX-License-Identifier: Apache-2.0
#include "frontends/tasks/decode/text_writer.h"

#include <algorithm>
#include <cmath>

#include "frontends/data/batch/buckets.h"
#include "frontends/tasks/common/split_buckets.h"
#include "frontends/tasks/common/task_parts.h"
#include "frontends/tasks/decode/bound_program.h"
#include "unroll/ops.h"

namespace unroll {

namespace {

std::string state_name(std::size_t k) { return "state." + std::to_string(k); }

// The logarithms of eq. 9 for one lane: `written` log(p_gen P_vocab) [V], `copied` (1 - p_gen) a [S], `to` [V + words
// with numbers of their own]. `mass` is as long as `to`, and zero before and after; few words of it are in the source.
void log_distribution(std::span<const float> written, std::span<const float> copied, const SourceTokens& source,
                      std::vector<float>& mass, std::span<float> to) {
  std::copy(written.begin(), written.end(), to.begin());
  std::fill(to.begin() + static_cast<std::ptrdiff_t>(written.size()), to.end(), -HUGE_VALF);
  mass.resize(std::max(mass.size(), to.size()));
  for (std::size_t i = 0; i < source.copies.size(); ++i)
    if (source.copies[i] != k_no_source) mass[static_cast<std::size_t>(source.copies[i])] += copied[i];
  for (const std::int32_t id : source.copies) {
    if (id == k_no_source) continue;
    const auto word = static_cast<std::size_t>(id);
    if (mass[word] > 0) to[word] = std::log(std::exp(to[word]) + mass[word]);
    mass[word] = 0;  // a word that the source repeats is added once
  }
}

const Graph& graph_of(const Program& program) { return *program.plan().graph; }

}  // namespace

TextWriter::TextWriter(const Metadata& metadata, std::string_view task, std::string who, const TensorMap& parameters,
                       Backend& backend)
    : who_(std::move(who)), backend_(backend),
      coder_((require_task(metadata, task, who_), PairCoder::of(metadata))), network_(AttentionNetwork::of(metadata)),
      constants_(constants_of(parameters)) {
  step({padded_length(1), 1, 1});  // so that what does not fit together is refused here
}

// source i32 [S,B], lengths i32 [B] -> values [B,S,M], keys [B,S,A] where there are any, state.<k> [L,B,size]
std::shared_ptr<Program> TextWriter::encoder(std::int64_t steps, std::int64_t rows) {
  return encoders_.get({steps, rows}, [&] {
    Graph graph;
    Scope scope(graph, /*training=*/false);
    const Value ids = graph.input("source", {DType::i32, {steps, rows}}),
                lengths = graph.input("lengths", {DType::i32, {rows}});
    const AttentionNetwork::Encoded e = network_.encode(scope, ids, lengths);
    graph.output("values", e.memory.values);
    if (e.memory.keys) graph.output("keys", e.memory.keys);
    for (std::size_t k = 0; k < e.states.size(); ++k) graph.output(state_name(k), e.states[k]);
    return std::make_shared<Program>(*with_constants(graph, 2, constants_, who_), backend_);
  });
}

// What the encoder gives with states [L,N,size], lengths i32 [B], ids i32 [1,N], attended [1,N,S] -> written =
// log(p_gen P_vocab) [N,V], copied = (1 - p_gen) a [N,S] with a pointer, state.<k>, attended: the attention so far.
// N = B * K, the lanes of a source side by side.
std::shared_ptr<Program> TextWriter::step(const Size& z) {
  return steppers_.get(z, [&] {
    const std::int64_t N = z.rows * z.lanes;
    const std::shared_ptr<Program> encoding = encoder(z.steps, z.rows);
    Graph graph;
    Scope scope(graph, /*training=*/false);
    AttentionNetwork::Memory memory;
    std::vector<Value> states;
    for (const NamedValue& output : graph_of(*encoding).outputs()) {
      const Type& type = graph_of(*encoding).type(output.value);
      if (output.name == "values") memory.values = graph.input(output.name, type);
      else if (output.name == "keys") memory.keys = graph.input(output.name, type);
      else states.push_back(graph.input(output.name, {type.dtype, type.shape.with(1, N)}));
    }
    memory.lengths = graph.input("lengths", {DType::i32, {z.rows}});
    const Value ids = graph.input("ids", {DType::i32, {1, N}}),
                attended = graph.input("attended", {DType::f32, {1, N, z.steps}});
    const std::size_t inputs = graph.inputs().size();
    const AttentionNetwork::Written w = network_.decode(scope, ids, states, memory);
    const Value logs = reshape(log_softmax(w.logits), {N, network_.targets}), a = reshape(w.weights, {N, z.steps});
    const Value gate = network_.pointer ? reshape(w.switched, {N, 1}) : Value();
    graph.output("written", gate ? logs - softplus(-gate) : logs);
    if (gate) graph.output("copied", sigmoid(-gate) * a);
    graph.output("attended", attended + reshape(a, attended.shape()));
    for (std::size_t k = 0; k < states.size(); ++k) graph.output(state_name(k), w.states[k]);
    return std::make_shared<Program>(*with_constants(graph, inputs, constants_, who_), backend_);
  });
}

TextWriter::Encoding TextWriter::encode(Sources sources, std::int64_t steps, std::int64_t rows) {
  Tensor ids(DType::i32, {steps, rows}), lengths(DType::i32, {rows});
  for (std::size_t b = 0; b < sources.size(); ++b) {
    put_column(ids, static_cast<std::int64_t>(b), sources[b]->ids);
    lengths.set(static_cast<std::int64_t>(b), static_cast<double>(sources[b]->ids.size()));
  }
  Encoding e;
  e.states = encoder(steps, rows)->run({{"source", std::move(ids)}, {"lengths", lengths}});
  for (const char* name : {"values", "keys"})
    if (e.states.contains(name)) e.memory.insert(e.states.extract(name));
  e.memory.emplace("lengths", std::move(lengths));
  return e;
}

std::vector<std::vector<Hypothesis>> TextWriter::search(Sources sources, std::int64_t steps, std::int64_t rows,
                                                        const DecodeOptions& options, const Limits& limits) {
  const Lanes lanes{rows, std::max<std::int64_t>(options.beam, 1)};
  std::vector<BeamSearch> searches;
  for (const SourceTokens* source : sources)
    searches.emplace_back(BeamOptions{
        .beam = options.beam,
        .length_penalty = options.length_penalty,
        .no_repeat_ngram = options.no_repeat_ngram,
        .min_length = options.min_length,
        .max_length = options.max_length > 0 ? options.max_length
                                             : std::max(limits.longest(*source, coder_), options.min_length),
        .end = coder_.end(),
        .never = limits.writes_unknown && !network_.pointer ? -1 : coder_.target_tokenizer().unknown()});
  const Encoding encoding = encode(sources, steps, rows);
  BoundProgram bound(step({steps, rows, lanes.per_row}));
  bound.set(encoding.memory);
  TensorMap states = encoding.states;
  states.emplace("attended", Tensor(DType::f32, {1, rows, steps}));
  const TensorMap* last = nullptr;
  const RunLanes run = [&](const std::vector<std::int32_t>& tokens, TensorMap inputs) {
    std::vector<std::int32_t> read;
    for (const std::int32_t id : tokens) read.push_back(coder_.known(id));
    bound.set("ids", Tensor::from<std::int32_t>({1, lanes.count()}, read));
    bound.set(inputs);
    last = &bound.run();
    for (auto& [name, tensor] : inputs) tensor = last->at(name);
    return inputs;
  };
  std::vector<float> logs, mass;
  const AdvanceRow advance = [&](std::size_t b, std::size_t first_lane, BeamSearch& search) {
    const SourceTokens& source = *sources[b];
    const auto V = static_cast<std::size_t>(coder_.tokens()), S = static_cast<std::size_t>(steps);
    const std::size_t n = search.tokens().size(), all = V + source.extended.size();
    const auto of_lane = [&](const char* name, std::size_t i, std::size_t width) {
      return last->at(name).values<float>().subspan((first_lane + i) * width, width);
    };
    std::vector<double> bonuses;
    for (std::size_t i = 0; options.coverage_penalty != 0 && i < n; ++i)
      bonuses.push_back(options.coverage_penalty *
                        coverage_penalty(of_lane("attended", i, S).first(source.ids.size())));
    if (!network_.pointer)
      return search.advance(last->at("written").values<float>().subspan(first_lane * V, n * V), bonuses);
    logs.resize(n * all);
    for (std::size_t i = 0; i < n; ++i)
      log_distribution(of_lane("written", i, V), of_lane("copied", i, S), source, mass,
                       std::span(logs).subspan(i * all, all));
    search.advance(logs, bonuses);
  };
  search_lanes(searches, lanes, coder_.end(), std::move(states), run, advance);
  std::vector<std::vector<Hypothesis>> results;
  for (const BeamSearch& s : searches) results.push_back(s.ranked());
  return results;
}

std::vector<std::vector<ScoredText>> TextWriter::write(std::span<const SourceTokens> sources,
                                                       const DecodeOptions& options, const Limits& limits) {
  std::vector<std::vector<ScoredText>> results(sources.size());
  std::map<std::int64_t, std::vector<std::size_t>> by_length;
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (const auto length = static_cast<std::int64_t>(sources[i].ids.size()); length > 0)
      by_length[padded_length(length)].push_back(i);
  for (const auto& [steps, items] : by_length) {
    // Memories, and the distributions of all lanes.
    const std::int64_t elements = 4 * steps * network_.model.hidden +
                                  std::max<std::int64_t>(options.beam, 1) * (2 * steps + network_.targets);
    for_each_batch(items, prediction_rows(elements, std::int64_t{1} << 23),
                   [&, steps = steps](std::span<const std::size_t> part, std::int64_t rows) {
                     std::vector<const SourceTokens*> batch;
                     for (const std::size_t i : part) batch.push_back(&sources[i]);
                     const auto found = search(batch, steps, rows, options, limits);
                     for (std::size_t b = 0; b < part.size(); ++b)
                       for (const Hypothesis& h : found[b])
                         results[part[b]].push_back({coder_.text_of(h.tokens, *batch[b]), h.log_probability, h.score});
                   });
  }
  return results;
}

WrittenAttention TextWriter::attention(std::string_view source, std::string_view target) {
  const SourceTokens from = coder_.source(source, who_);
  const std::vector<std::int32_t> to = coder_.target(target, from, who_).ids;
  WrittenAttention a;
  if (from.ids.empty()) return a;
  a.source = coder_.source_words(source, from);
  std::vector<std::int32_t> read{coder_.end()};  // each token after the one before
  for (const std::int32_t id : to) {
    a.target.push_back(coder_.word(id, from));
    read.push_back(coder_.known(id));
  }
  a.target.emplace_back();
  const auto S = static_cast<std::int64_t>(from.ids.size()), T = static_cast<std::int64_t>(read.size());
  Graph graph;
  Scope scope(graph, /*training=*/false);
  const Value ids = graph.input("source", {DType::i32, {S, 1}}), lengths = graph.input("lengths", {DType::i32, {1}}),
              before = graph.input("before", {DType::i32, {T, 1}});
  const AttentionNetwork::Encoded e = network_.encode(scope, ids, lengths);
  const AttentionNetwork::Written w = network_.decode(scope, before, e.states, e.memory);
  graph.output("weights", w.weights);  // of one lane: T * S in either order
  if (network_.pointer) graph.output("p_gen", sigmoid(w.switched));
  Program program(*with_constants(graph, 3, constants_, who_), backend_);
  const TensorMap out = program.run({{"source", Tensor::from<std::int32_t>({S, 1}, from.ids)},
                                     {"lengths", Tensor::from<std::int32_t>({1}, {static_cast<std::int32_t>(S)})},
                                     {"before", Tensor::from<std::int32_t>({T, 1}, read)}});
  const auto copy = [&](const char* name, std::vector<float>& to_values) {
    const auto values = out.at(name).values<float>();
    to_values.assign(values.begin(), values.end());
  };
  copy("weights", a.weights);
  if (network_.pointer) copy("p_gen", a.p_gen);
  return a;
}

}  // namespace unroll
