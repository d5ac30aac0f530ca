// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/decode/attention_network.h"

#include "core/nn/in_layer.h"
#include "core/tasks/common/network_parts.h"
#include "core/tasks/common/pooling.h"
#include "core/tasks/decode/line_coder.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

constexpr double k_low = -1e30;   // a log probability that is negligible in sums, and keeps differences finite
constexpr double k_tiny = 1e-30;  // minimum attention weight: smaller floats may underflow to zero

Value log_sigmoid(Value x) { return -softplus(-x); }

// Returns log(e^a + e^b) without overflow, with the gradient of the exact sum.
Value log_add(Value a, Value b) {
  const Value top = stop_gradient(maximum(a, b));
  return top + log(exp(a - top) + exp(b - top));
}

// Returns a b8 mask [B,1,S], true within each source.
Value live_sources(const AttentionNetwork::Memory& memory) {
  const std::int64_t B = memory.values.shape()[0], S = memory.values.shape()[1];
  return reshape(transpose(live_steps(memory.lengths, S), {1, 0}), {B, 1, S});
}

// The attention of each decoder step with input feeding.
class StepAttention {
 public:
  StepAttention(Scope scope, const AttentionNetwork& network, const AttentionNetwork::Memory& memory, std::int64_t P)
      : memory_(memory), live_(live_sources(memory)) {
    const std::int64_t A = network.model.hidden, M = memory.values.shape()[2];
    const auto uniform = Initializer::xavier_uniform();
    if (network.attention == "dot") {
      w_dot_ = scope.parameter("weight", {M, P}, uniform);
    } else {
      w_s_ = scope.child("query").parameter("weight", {A, P}, uniform);
      b_ = scope.child("query").parameter("bias", {A}, Initializer::zeros());
      v_ = scope.parameter("v", {A}, Initializer::normal(0.1));
    }
    if (network.coverage) w_c_ = scope.parameter("coverage", {A}, Initializer::normal(0.1));
  }

  // s [N,P], covered [N,S] -> h* = sum_i a_i h_i [B,K,M], eq. 3, and a [B,K,S]. h is zero after the end of a source.
  AttentionResult attend(Step& step, Value s, Value covered) const {
    const Value values = step.outer(memory_.values);
    const std::int64_t B = values.shape()[0], S = values.shape()[1], M = values.shape()[2], K = s.shape()[0] / B;
    if (w_dot_)
      return dot_attention(reshape(linear(s, step.outer(w_dot_)), {B, K, M}), values, values, step.outer(live_));
    // e = v . tanh(W_h h + W_s s + w_c c + b), eq. 1 and 11; a = softmax(e) over the words of the source, eq. 2.
    const std::int64_t A = v_.shape()[0];
    const Value query = reshape(linear(s, step.outer(w_s_), step.outer(b_)), {B, K, 1, A});
    Value sum = query + reshape(step.outer(memory_.keys), {B, 1, S, A});
    if (w_c_) sum = sum + reshape(covered, {B, K, S, 1}) * step.outer(w_c_);
    const Value score = reduce_sum(tanh(sum) * step.outer(v_), {3});
    const Value weights = softmax(select(step.outer(live_), score, scalar_like(score, k_low)));
    return {matmul(weights, values), weights};
  }

 private:
  const AttentionNetwork::Memory& memory_;
  Value live_, w_dot_, w_s_, b_, v_, w_c_;
};

}  // namespace

AttentionNetwork AttentionNetwork::of(const Metadata& metadata) {
  const bool separate = metadata.contains("source.vocabulary");
  const auto flag = [&](const char* key, bool otherwise) {
    return metadata.contains(key) ? get_integer(metadata, key) != 0 : otherwise;
  };
  const auto tokens = [&](const char* side) { return get_coder(metadata, separate ? side : "").tokenizer().size(); };
  // Older models lack some keys: translate those of the pointer, summarize those of attention.
  return {get_model_options(metadata),
          metadata.contains("attention") ? get_text(metadata, "attention") : "additive",
          get_integer(metadata, "embedding"),
          tokens("source") + (separate ? 0 : 1),
          tokens("target") + 1,
          metadata.contains("chunk") ? get_integer(metadata, "chunk") : 0,
          flag("input_feeding", !separate),
          flag("pointer", false),
          flag("coverage", false),
          flag("shared_embedding", false),
          flag("tied", false)};
}

void AttentionNetwork::put(Metadata& m) const {
  const auto flag = [](bool b) { return std::string(1, b ? '1' : '0'); };
  put_model_options(m, model);
  m["attention"] = attention;
  m["embedding"] = std::to_string(embedding);
  m["chunk"] = std::to_string(chunk);
  m["input_feeding"] = flag(input_feeding);
  m["pointer"] = flag(pointer);
  m["coverage"] = flag(coverage);
  m["shared_embedding"] = flag(shared_embedding);
  m["tied"] = flag(tied);
}

void AttentionNetwork::check() const {
  const auto refuse = [](const std::string& what, const char* next = "") {
    throw Error(ErrorKind::usage, "model", what, next);
  };
  if (coverage && !has_keys())
    refuse("coverage needs additive attention in every step of the decoder",
           "Set input_feeding = true and attention = \"additive\"");
  if (recurrent_cell(model).window > 1)
    refuse("a decoder has no earlier inputs, and cell " + in_quotes(model.cell) + " reads them with window",
           "Use another cell");
}

RecurrentModelOptions AttentionNetwork::decoder() const {
  RecurrentModelOptions options = model;
  options.bidirectional = false;
  options.front.clear();
  if (!input_feeding) return options;
  options.layers = 1;
  options.skip = SkipConnection::none;
  return options;
}

Value AttentionNetwork::embed(const Scope& scope, const std::string& side, Value ids, std::int64_t tokens) const {
  const bool is_output = tied && (shared_embedding || side == "target");
  const Initializer start = is_output ? Initializer::uniform(k_tied_embedding_start) : Initializer::normal(1);
  return dropout_layer(scope, embedding_layer(scope.child(embedding_of(side)), ids, tokens, embedding, start),
                       model.dropout, model.mask());
}

// A linear layer with PyTorch's initialization or, with input feeding, TensorFlow's.
Value AttentionNetwork::dense(const Scope& scope, Value x, std::int64_t outputs) const {
  if (!input_feeding) return linear_layer(scope, x, outputs);
  return in_layer(scope, [&] {
    const Shape shape{outputs, x.shape()[x.rank() - 1]};
    const Value weight = Scope(scope).parameter("weight", shape, Initializer::xavier_uniform());
    return linear(x, weight, Scope(scope).parameter("bias", {outputs}, Initializer::zeros()));
  });
}

// Encodes x [S,B,E] to [S,B,M]. Each chunk is a separate row: [chunk, n * B, E]. `ends` receives the last states of the
// top layer, [B, D * size]: forward of the last nonempty chunk, backward of the first chunk.
Value AttentionNetwork::encoder_output(const Scope& scope, Value x, Value lengths, std::vector<Value>& ends) const {
  const std::int64_t S = x.shape()[0], B = x.shape()[1], C = chunk > 0 ? std::min(chunk, S) : S, n = (S + C - 1) / C;
  const Value padded = n * C > S ? pad(x, 0, 0, n * C - S) : x;
  const auto in_chunks = [&](Value v, std::int64_t width) {  // [n*C,B,W] <-> [C,n*B,W]
    return reshape(transpose(reshape(v, {n, C, B, width}), {1, 0, 2, 3}), {C, n * B, width});
  };
  const Value number = iota(x.graph(), {n, B}, 0);
  const Value left = reshape(lengths, {1, B}) - number * scalar_like(number, static_cast<double>(C));
  const Value of_chunk = minimum(maximum(left, scalar_like(left, 0)), scalar_like(left, static_cast<double>(C)));
  const CellLayerResult r = recurrent_model(scope.child("encoder"), n == 1 ? padded : in_chunks(padded, embedding),
                                            model, {}, n == 1 ? lengths : reshape(of_chunk, {n * B}));
  const std::int64_t D = model.bidirectional ? 2 : 1;
  const std::size_t n_states = recurrent_cell(model).state_sizes.size();  // others are those of model.front
  for (const Value& state : std::span(r.states).first(n_states)) {  // [L*D, n*B, size]
    const std::int64_t size = state.shape()[2];
    const Value top = reshape(slice(state, 0, (model.layers - 1) * D, D), {D, n, B, size});
    const Value last = (lengths - scalar_like(lengths, 1)) / scalar_like(lengths, static_cast<double>(C));  // [B]
    const Value is_last = reshape(equal(number, reshape(last, {1, B})), {n, B, 1});
    std::vector<Value> parts{reduce_sum(select(is_last, row(top, 0), scalar_like(top, 0)), {0})};
    if (D == 2) parts.push_back(row(row(top, 1), 0));
    ends.push_back(concat(parts, 1));
  }
  if (n == 1) return r.y;
  const std::int64_t M = r.y.shape()[2];
  return slice(reshape(transpose(reshape(r.y, {C, n, B, M}), {1, 0, 2, 3}), {n * C, B, M}), 0, 0, S);
}

AttentionNetwork::Encoded AttentionNetwork::encode(Scope& scope, Value ids, Value lengths) const {
  check();
  const std::int64_t S = ids.shape()[0], B = ids.shape()[1];
  std::vector<Value> ends;
  const Value y = encoder_output(scope, embed(scope, "source", ids, sources), lengths, ends);  // [S,B,M]
  Encoded e{{transpose(y, {1, 0, 2}), {}, lengths}, {}};
  if (has_keys())
    e.memory.keys =
        linear_layer(scope.child("attention").child("memory"), e.memory.values, model.hidden, /*bias=*/false);
  const Value end = input_feeding ? Value() : pooled(scope, y, "final", model.bidirectional, lengths).output;  // [B,M]
  for (const Shape& shape : recurrent_state_shapes(decoder(), B)) {  // [L,B,size]
    const std::size_t k = e.states.size();
    const Scope bridge = scope.child("bridge").child(std::to_string(k));
    // With input feeding, each state is projected from the encoder's state, as in the code of See et al.
    const Value state = input_feeding ? relu(linear_layer(bridge, ends[k], shape[0] * shape[2]))
                                      : tanh(linear_layer(bridge, end, shape[0] * shape[2]));
    e.states.push_back(transpose(reshape(state, {B, shape[0], shape[2]}), {1, 0, 2}));
  }
  if (input_feeding) e.states.push_back(filled(scope.graph(), {y.dtype(), {1, B, y.shape()[2]}}, 0));
  if (coverage) e.states.push_back(filled(scope.graph(), {y.dtype(), {1, B, S}}, 0));
  return e;
}

AttentionNetwork::Written AttentionNetwork::decode(Scope& scope, Value ids, std::span<const Value> states,
                                                   const Memory& memory, Value lengths) const {
  const Value x = embed(scope, "target", ids, targets);  // [T,N,E]
  Attended a = input_feeding ? attend_in_steps(scope, x, states, memory)
                             : attend_at_once(scope, x, states, memory, lengths);
  // P_vocab = softmax(V' (V [s, h*] + b) + b'), eq. 4; without input feeding V' tanh(V [h*, s] + b) + b'.
  const std::int64_t width = tied ? embedding : model.hidden;
  const std::vector<Value> both = input_feeding ? std::vector{a.output, a.context} : std::vector{a.context, a.output};
  Value combined = dense(scope.child("combine"), concat(both, 2), width);
  if (!input_feeding) combined = tanh(combined);
  combined = dropout_layer(scope, combined, model.dropout, input_feeding ? model.mask() : DropoutMask::step);
  Written w{tied ? tied_linear_layer(scope.child("output"), scope.child(embedding_of("target")), combined, targets)
                 : dense(scope.child("output"), combined, targets),
            {}, a.weights, a.covered, std::move(a.states)};
  // p_gen = sigmoid(w_h . h* + w_s . s + w_x . x + b), eq. 8.
  if (pointer)
    w.switched = dense(scope.child("switch"), concat(std::vector{a.context, a.output, reordered(x)}, 2), 1);
  return w;
}

AttentionNetwork::Attended AttentionNetwork::attend_at_once(Scope& scope, Value x, std::span<const Value> states,
                                                            const Memory& memory, Value lengths) const {
  const Scope layers = scope.child("decoder");
  CellLayerResult r = recurrent_model(layers, x, decoder().without_penalties(), states);
  // The states continue after the end of a row.
  activation_penalties(layers, lengths ? without_padding(r.y, lengths) : r.y, model.activation_penalty,
                       model.temporal_penalty, lengths);
  const Value query = transpose(r.y, {1, 0, 2});  // [N,T,P]
  const std::int64_t B = memory.values.shape()[0], S = memory.values.shape()[1], M = memory.values.shape()[2];
  const std::int64_t N = query.shape()[0], T = query.shape()[1], P = query.shape()[2];
  const Value of_row = reshape(query, {B, N / B * T, P});
  const Value mask = live_sources(memory);
  Scope attend = scope.child("attention");
  const auto weight = [&](const char* name, Shape shape) {
    return attend.parameter(name, shape, Initializer::xavier_uniform());
  };
  const AttentionResult attended = in_layer(attend, [&] {
    return attention == "dot"
               ? dot_attention(linear(of_row, weight("weight", {M, P})), memory.values, memory.values, mask)
               : additive_attention(of_row, memory.values, memory.values, weight("w_q", {model.hidden, P}),
                                    weight("w_k", {model.hidden, M}),
                                    attend.parameter("v_a", {model.hidden}, Initializer::normal(0.1)), mask);
  });
  return {query, reshape(attended.y, {N, T, M}), reshape(attended.weights, {N, T, S}), {}, std::move(r.states)};
}

AttentionNetwork::Attended AttentionNetwork::attend_in_steps(Scope& scope, Value x, std::span<const Value> states,
                                                             const Memory& memory) const {
  const Cell cell = recurrent_cell(decoder());
  const std::int64_t N = x.shape()[1], S = memory.values.shape()[1], M = memory.values.shape()[2];
  const StepAttention attention_of(scope.child("attention"), *this, memory, cell.state_sizes[0]);
  const auto step_function = [&](Step& step) {
    const int n = static_cast<int>(cell.state_sizes.size());
    std::vector<Value> inner;
    for (int k = 0; k < n; ++k) inner.push_back(step.state(k));
    const Value context = step.state(n);  // h* of the previous step
    const Value covered = coverage ? step.state(n + 1) : Value();
    CellStep next = step.run(cell, concat(std::vector{step.x(), context}, 1), inner);
    const AttentionResult attended = attention_of.attend(step, next.y, covered);
    const Value h = reshape(attended.y, {N, M}), a = reshape(attended.weights, {N, S});
    std::vector<Value> outputs{h, a};
    next.states.push_back(h);
    if (coverage) {
      next.states.push_back(covered + a);  // eq. 10
      outputs.push_back(covered);
    }
    return CellStep{std::move(next.states), next.y, std::move(outputs)};
  };
  const CellFactory factory = [&](std::int64_t) {
    std::vector<std::int64_t> sizes = cell.state_sizes;
    sizes.push_back(M);
    if (coverage) sizes.push_back(S);
    return Cell{sizes, step_function};
  };
  CellLayerResult r = cell_layer(scope.child("decoder"), factory, x,
                                 {.hidden = model.hidden, .weight_drop = model.weight_drop}, states);
  return {r.y, r.outputs[0], r.outputs[1], coverage ? r.outputs[2] : Value(), std::move(r.states)};
}

Value AttentionNetwork::reordered(Value x) const {
  if (input_feeding) return x;
  std::vector<std::int64_t> order{1, 0};
  while (static_cast<int>(order.size()) < x.rank()) order.push_back(std::ssize(order));
  return transpose(x, order);
}

// Reshapes x [N,S] to match the attention weights of the decoder.
Value AttentionNetwork::of_source(Value x) const {
  const std::int64_t N = x.shape()[0], S = x.shape()[1];
  return reshape(x, input_feeding ? Shape{1, N, S} : Shape{N, 1, S});
}

Value AttentionNetwork::log_probability(const Written& w, Value labels, Value copies) const {
  if (!pointer) return -softmax_cross_entropy(w.logits, labels);
  const Value in_vocabulary = less(labels, scalar_like(labels, static_cast<double>(targets)));
  const Value of_vocabulary = select(in_vocabulary, labels, scalar_like(labels, -1));  // other words are copied
  const Value from_vocabulary = -softmax_cross_entropy(w.logits, of_vocabulary);
  const Value z = reshape(w.switched, labels.shape()), low = scalar_like(z, k_low);
  const Value here = equal(of_source(copies), reshape(labels, w.switched.shape()));  // b8 [...,S]
  const Value mass = reduce_sum(select(here, w.weights, scalar_like(w.weights, 0)), {2});
  const Value places = reduce_sum(cast(here, w.weights.dtype()), {2});
  return log_add(select(in_vocabulary, log_sigmoid(z) + from_vocabulary, low),
                 select(less(scalar_like(places, 0.5), places),
                        log_sigmoid(-z) + log(maximum(mass, scalar_like(mass, k_tiny))), low));
}

Value AttentionNetwork::likeliest(const Written& w, Value words) const {
  const Value word = argmax(w.logits, -1);
  if (!pointer) return word;
  const Value at = argmax(w.weights, -1);
  const Value here = equal(iota(words.graph(), w.weights.shape(), 2), reshape(at, w.switched.shape()));
  const Value numbers = cast(of_source(words), w.logits.dtype());  // exact: a vocabulary has at most 2^20 words
  const Value copied = cast(reduce_sum(select(here, numbers, scalar_like(numbers, 0)), {2}), DType::i32);
  const Value z = reshape(w.switched, word.shape());
  const Value writes = log_sigmoid(z) + reduce_max(log_softmax(w.logits), {2}),
              copies = log_sigmoid(-z) + log(maximum(reduce_max(w.weights, {2}), scalar_like(z, k_tiny)));
  return select(less(writes, copies), copied, word);
}

Inference written_inference(const Metadata& metadata, bool logs) {
  const AttentionNetwork network = AttentionNetwork::of(metadata);
  const bool only_logs = logs && !network.pointer;
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

}  // namespace unroll
