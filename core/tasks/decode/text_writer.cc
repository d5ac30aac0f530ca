// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/decode/text_writer.h"

#include <algorithm>
#include <bit>
#include <map>

#include "core/support/tensor_role.h"
#include "core/tasks/common/task_parts.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

// log sum exp over the last axis: [N,V] -> [N,1]
Value log_sum_exp(Value x) {
  const Value top = reshape(reduce_max(x, {1}), {x.shape()[0], 1});
  return top + log(reshape(reduce_sum(exp(x - top), {1}), top.shape()));
}

// Pads source lengths to few values: sources of one padded length are decoded together, and a row waits only at the end
// of their list. The attention masks the padding.
std::int64_t padded_source(std::int64_t length, std::int64_t limit) {
  const auto padded = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(length)));
  return std::min(std::max<std::int64_t>(padded, 8), limit);
}

const Graph& graph_of(const Program& program) { return *program.plan().graph; }

}  // namespace

TextWriter::TextWriter(const Metadata& metadata, std::string_view task, std::string who, const TensorMap& parameters,
                       BackendHandle backend)
    : who_(std::move(who)), backend_(backend),
      coder_((require_task(metadata, task, who_), PairCoder::of(metadata))), network_(AttentionNetwork::of(metadata)),
      constants_(constants_of(parameters)) {
  step({padded_source(1, coder_.limits().source), 1, 1});  // checks early that metadata and parameters match
}

// source i32 [S,B], lengths i32 [B] -> values [B,S,M], keys [B,S,A] if any, state.<k> [L,B,size]
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

// See TextLanes::Programs; N = B * K, and the lanes of a source are adjacent.
std::shared_ptr<Program> TextWriter::step(const LaneSize& z) {
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
    const Value logits = reshape(w.logits, {N, network_.targets}), a = reshape(w.weights, {N, z.steps});
    const Value gate = network_.pointer ? reshape(w.switched, {N, 1}) : Value();
    graph.output("logits", logits);
    graph.output("shift", gate ? -log_sum_exp(logits) - softplus(-gate) : -log_sum_exp(logits));  // of eq. 9
    if (gate) graph.output("copied", sigmoid(-gate) * a);
    graph.output("attended", attended + reshape(a, attended.shape()));
    for (std::size_t k = 0; k < states.size(); ++k) graph.output(state_name(k), w.states[k]);
    return std::make_shared<Program>(*with_constants(graph, inputs, constants_, who_), backend_);
  });
}

std::vector<std::vector<ScoredText>> TextWriter::write(std::span<const SourceTokens> sources,
                                                       const DecodeOptions& options, const WritingLimits& limits) {
  std::vector<std::vector<ScoredText>> results(sources.size());
  std::map<std::int64_t, std::vector<std::size_t>> by_length;
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (const auto length = std::ssize(sources[i].ids); length > 0)
      by_length[padded_source(length, coder_.limits().source)].push_back(i);
  const std::int64_t beam = std::max<std::int64_t>(options.beam, 1);
  for (const auto& [steps, items] : by_length) {
    // Elements of the memories and of the distributions of all lanes.
    const std::int64_t elements = 4 * steps * network_.model.hidden + beam * (2 * steps + network_.targets);
    const LaneSize size{steps,
                        std::min(prediction_rows(elements, std::int64_t{1} << 23),
                                 static_cast<std::int64_t>(std::bit_ceil(items.size()))),
                        beam};
    std::vector<const SourceTokens*> list;
    for (const std::size_t i : items) list.push_back(&sources[i]);
    TextLanes model(coder_, {encoder(steps, size.rows), step(size)}, size, list, options, limits);
    const auto found = search_lanes(model, list.size(), {size.rows, beam}, coder_.end());
    for (std::size_t k = 0; k < items.size(); ++k)
      for (const Hypothesis& h : found[k])
        results[items[k]].push_back({coder_.text_of(h.tokens, *list[k]), h.log_probability, h.score});
  }
  return results;
}

WrittenAttention TextWriter::attention(std::string_view source, std::string_view target) {
  const SourceTokens from = coder_.source(source, who_);
  const std::vector<std::int32_t> to = coder_.target(target, from, who_).ids;
  WrittenAttention a;
  if (from.ids.empty()) return a;
  a.source = coder_.source_words(source, from);
  std::vector<std::int32_t> read{coder_.end()};  // the previous tokens
  for (const std::int32_t id : to) {
    a.target.push_back(coder_.word(id, from));
    read.push_back(coder_.known(id));
  }
  a.target.emplace_back();
  const auto S = std::ssize(from.ids), T = std::ssize(read);
  Graph graph;
  Scope scope(graph, /*training=*/false);
  const Value ids = graph.input("source", {DType::i32, {S, 1}}), lengths = graph.input("lengths", {DType::i32, {1}}),
              before = graph.input("before", {DType::i32, {T, 1}});
  const AttentionNetwork::Encoded e = network_.encode(scope, ids, lengths);
  const AttentionNetwork::Written w = network_.decode(scope, before, e.states, e.memory);
  graph.output("weights", w.weights);  // of one lane: T * S in either axis order
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
