// SPDX-License-Identifier: Apache-2.0
#include "frontends/tasks/summarize/summarize_network.h"

#include <limits>

#include "frontends/tasks/common/pooling.h"
#include "frontends/tasks/common/task_parts.h"
#include "frontends/tasks/decode/lanes.h"
#include "frontends/tasks/decode/line_coder.h"
#include "unroll/error.h"
#include "unroll/ops.h"

namespace unroll {

namespace {

constexpr double k_low = -1e30;   // a logarithm that no sum notices, and whose differences stay finite
constexpr double k_tiny = 1e-30;  // of attention: below it a float may have underflowed to zero

Value log_sigmoid(Value x) { return -softplus(-x); }

// a + b of two logarithms, without overflow; the gradient is that of the exact sum.
Value log_add(Value a, Value b) {
  const Value top = stop_gradient(maximum(a, b));
  return top + log(exp(a - top) + exp(b - top));
}

}  // namespace

SummarizeNetwork SummarizeNetwork::of(const Metadata& metadata) {
  const auto flag = [&](const char* key) { return get_integer(metadata, key) != 0; };
  return {get_model_options(metadata),
          get_integer(metadata, "embedding"),
          get_coder(metadata, "").tokenizer().size() + 1,
          get_integer(metadata, "chunk"),
          flag("pointer"),
          flag("coverage"),
          flag("shared_embedding"),
          flag("tied")};
}

void SummarizeNetwork::check() const {
  if (embedding < 1)
    throw Error(ErrorKind::usage, "summarize", "embedding must be at least 1; got " + std::to_string(embedding));
  if (chunk < 0)
    throw Error(ErrorKind::usage, "summarize", "chunk must be at least 0; got " + std::to_string(chunk));
  recurrent_state_shapes(model, 1);
}

RecurrentModelOptions SummarizeNetwork::decoder() const {
  RecurrentModelOptions one = model;
  one.layers = 1;
  one.bidirectional = false;
  one.stack = "plain";
  return one;
}

std::int64_t SummarizeNetwork::memory_width() const {
  return recurrent_state_shapes(model, 1)[0][2] * (model.bidirectional ? 2 : 1);
}

Value SummarizeNetwork::embed(const Scope& scope, const char* side, Value ids) const {
  const Initializer start = tied ? Initializer::uniform(k_tied_embedding_start) : Initializer::normal(1);
  const Value x = embedding_layer(scope.child(shared_embedding ? "embedding" : side), ids, tokens, embedding, start);
  return dropout_layer(scope, x, model.dropout, model.mask());
}

// x [S,B,E] -> [S,B,M]. With chunks each one is a row of its own: [chunk, n * B, E]. `ends` are the last states of the
// top layer, [B, D * size]: forward those of the last chunk with words, backward those of the first chunk.
Value SummarizeNetwork::encoder_output(const Scope& scope, Value x, Value lengths, std::vector<Value>& ends) const {
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
  for (const Value& state : r.states) {  // [L*D, n*B, size]
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

SummarizeNetwork::Encoded SummarizeNetwork::encode(Scope& scope, Value ids, Value lengths) const {
  check();
  const std::int64_t S = ids.shape()[0], B = ids.shape()[1];
  std::vector<Value> ends;
  const Value y = encoder_output(scope, embed(scope, "source", ids), lengths, ends);
  Encoded e;
  e.memory.values = transpose(y, {1, 0, 2});
  e.memory.keys = linear_layer(scope.child("attention").child("memory"), e.memory.values, model.hidden, /*bias=*/false);
  e.memory.lengths = lengths;
  for (const Value& end : ends) {  // one linear layer and relu for each state, as in the authors' program
    const std::int64_t size = end.shape()[1] / (model.bidirectional ? 2 : 1);
    const Scope bridge = scope.child("bridge").child(std::to_string(e.states.size()));
    e.states.push_back(reshape(relu(linear_layer(bridge, end, size)), {1, B, size}));
  }
  e.states.push_back(filled(scope.graph(), {y.dtype(), {1, B, y.shape()[2]}}, 0));
  if (coverage) e.states.push_back(filled(scope.graph(), {y.dtype(), {1, B, S}}, 0));
  return e;
}

CellLayerResult SummarizeNetwork::decode(Scope& scope, Value ids, std::span<const Value> states, const Memory& memory,
                                         const Outputs& outputs) const {
  const Cell cell = recurrent_cell(decoder());
  const std::int64_t B = memory.keys.shape()[0], S = memory.keys.shape()[1], A = memory.keys.shape()[2];
  const std::int64_t T = ids.shape()[0], N = ids.shape()[1], K = N / B, M = memory_width();
  const std::int64_t P = cell.state_sizes[0], width = tied ? embedding : model.hidden;
  const Value x = embed(scope, "target", ids);  // [T,N,E]
  const Value live = reshape(transpose(live_steps(memory.lengths, S), {1, 0}), {B, 1, S});
  Scope attention = scope.child("attention");
  const auto uniform = Initializer::xavier_uniform();
  const Value w_s = attention.child("query").parameter("weight", {A, P}, uniform),
              b = attention.child("query").parameter("bias", {A}, Initializer::zeros()),
              v = attention.parameter("v", {A}, Initializer::normal(0.1)),
              w_c = coverage ? attention.parameter("coverage", {A}, Initializer::normal(0.1)) : Value(),
              w_combine = scope.child("combine").parameter("weight", {width, P + M}, uniform),
              b_combine = scope.child("combine").parameter("bias", {width}, Initializer::zeros()),
              w_switch = pointer ? scope.child("switch").parameter("weight", {1, M + P + embedding}, uniform) : Value(),
              b_switch = pointer ? scope.child("switch").parameter("bias", {1}, Initializer::zeros()) : Value(),
              w_out = tied ? scope.child(shared_embedding ? "embedding" : "target")
                                 .parameter("weight", {tokens, embedding}, Initializer::uniform(k_tied_embedding_start))
                           : scope.child("output").parameter("weight", {tokens, width}, uniform),
              b_out = scope.child("output").parameter("bias", {tokens}, Initializer::zeros());
  const bool drops = scope.training() && model.dropout > 0;
  const Value kept = drops ? dropout_layer(scope, filled(scope.graph(), {x.dtype(), {T, N, width}}, 1), model.dropout,
                                           model.mask())
                           : Value();

  const auto step_function = [&](Step& step) {
    const std::size_t n = cell.state_sizes.size();
    std::vector<Value> inner;
    for (std::size_t k = 0; k < n; ++k) inner.push_back(step.state(static_cast<int>(k)));
    const Value context = step.state(static_cast<int>(n));  // h* of the last step
    const Value covered = coverage ? step.state(static_cast<int>(n) + 1) : Value();
    CellStep next = step.run(cell, concat(std::vector{step.x(), context}, 1), inner);
    const Value s = next.y;  // [N,P]
    // e = v . tanh(W_h h + W_s s + w_c c + b), eq. 1 and 11; a = softmax(e) over the words of the source, eq. 2.
    const Value query = reshape(linear(s, step.outer(w_s), step.outer(b)), {B, K, 1, A});
    Value sum = query + reshape(step.outer(memory.keys), {B, 1, S, A});
    if (coverage) sum = sum + reshape(covered, {B, K, S, 1}) * step.outer(w_c);
    const Value score = reduce_sum(tanh(sum) * step.outer(v), {3});  // [B,K,S]
    const Value weights = softmax(select(step.outer(live), score, scalar_like(score, k_low)));
    // h* = sum_i a_i h_i, eq. 3; h is zero behind the end of a source.
    const Value attended = reshape(matmul(weights, step.outer(memory.values)), {N, M});
    const Value a = reshape(weights, {N, S});
    // P_vocab = softmax(V' (V [s, h*] + b) + b'), eq. 4.
    Value combined = linear(concat(std::vector{s, attended}, 1), step.outer(w_combine), step.outer(b_combine));
    if (drops) combined = combined * step.slice_of(kept);
    Written w{linear(combined, step.outer(w_out), step.outer(b_out)), {}, a, covered};
    // p_gen = sigmoid(w_h . h* + w_s . s + w_x . x + b), eq. 8.
    if (pointer)
      w.switched = linear(concat(std::vector{attended, s, step.x()}, 1), step.outer(w_switch), step.outer(b_switch));
    next.states.push_back(attended);
    if (coverage) next.states.push_back(covered + a);  // eq. 10
    return CellStep{std::move(next.states), s, outputs(step, w)};
  };
  const CellFactory factory = [&](std::int64_t) {
    std::vector<std::int64_t> sizes = cell.state_sizes;
    sizes.push_back(M);
    if (coverage) sizes.push_back(S);
    return Cell{sizes, step_function};
  };
  return cell_layer(scope.child("decoder"), factory, x, {.hidden = model.hidden, .weight_drop = model.weight_drop},
                    states);
}

Value SummarizeNetwork::log_probability(const Written& w, Value labels, Value copies) const {
  const Value from_vocabulary = -softmax_cross_entropy(w.logits, labels);  // 0 for a label outside of it
  if (!pointer) return from_vocabulary;
  const std::int64_t N = labels.shape()[0];
  const Value z = reshape(w.switched, {N}), low = scalar_like(z, k_low);
  const Value here = equal(copies, reshape(labels, {N, 1}));  // b8 [N,S]
  const Value mass = reduce_sum(select(here, w.weights, scalar_like(w.weights, 0)), {1});
  const Value places = reduce_sum(cast(here, w.weights.dtype()), {1});
  const Value in_vocabulary = less(labels, scalar_like(labels, static_cast<double>(tokens)));
  return log_add(select(in_vocabulary, log_sigmoid(z) + from_vocabulary, low),
                 select(less(scalar_like(places, 0.5), places),
                        log_sigmoid(-z) + log(maximum(mass, scalar_like(mass, k_tiny))), low));
}

Value SummarizeNetwork::likeliest(const Written& w, Value words) const {
  const Value word = argmax(w.logits, -1);
  if (!pointer) return word;
  const Value at = argmax(w.weights, -1);  // [N]
  const Value here = equal(iota(words.graph(), words.shape(), 1), reshape(at, {at.shape()[0], 1}));
  const Value numbers = cast(words, w.logits.dtype());  // exact: a vocabulary has at most 2^20 words
  const Value copied = cast(reduce_sum(select(here, numbers, scalar_like(numbers, 0)), {1}), DType::i32);
  const Value z = reshape(w.switched, word.shape());
  const Value writes = log_sigmoid(z) + reduce_max(log_softmax(w.logits), {1}),
              copies = log_sigmoid(-z) + log(maximum(reduce_max(w.weights, {1}), scalar_like(z, k_tiny)));
  return select(less(writes, copies), copied, word);
}

}  // namespace unroll
