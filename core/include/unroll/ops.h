// SPDX-License-Identifier: Apache-2.0
// Functions that append nodes. All arguments of a call belong to one graph. Letters: T time, B batch, I input,
// H hidden, P output of a recurrent layer (projection, or H), L layers, D directions, V classes, E embedding.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "unroll/graph.h"

namespace unroll {

// sources
UNROLL_API Value constant(Graph& graph, Tensor value);
UNROLL_API Value scalar(Graph& graph, DType dtype, double value);  // rank 0
UNROLL_API Value scalar_like(Value like, double value);            // rank 0, like's graph and dtype
UNROLL_API Value filled(Graph& graph, Type type, double value);    // broadcast scalar
UNROLL_API Value iota(Graph& graph, Shape shape, int axis);        // i32
// Uniform in [0,1): element e of draw `site` is a pure function of (key, site, step * elements + e).
UNROLL_API Value random_uniform(Value key, Shape shape, std::int64_t site, Value step = {});

// elementwise
UNROLL_API Value neg(Value x);
UNROLL_API Value abs(Value x);
UNROLL_API Value sign(Value x);
UNROLL_API Value exp(Value x);
UNROLL_API Value expm1(Value x);
UNROLL_API Value log(Value x);
UNROLL_API Value log1p(Value x);
UNROLL_API Value sqrt(Value x);
UNROLL_API Value tanh(Value x);
UNROLL_API Value sigmoid(Value x);
// What x becomes in another format, to nearest, ties to even, as a value of x's dtype. Made by the precision pass after
// differentiation; has no gradient.
UNROLL_API Value round_bf16(Value x);
UNROLL_API Value round_f16(Value x);
UNROLL_API Value round_tf32(Value x);
UNROLL_API Value stop_gradient(Value x);
UNROLL_API Value is_finite(Value x);
UNROLL_API Value add(Value a, Value b);
UNROLL_API Value sub(Value a, Value b);
UNROLL_API Value mul(Value a, Value b);
UNROLL_API Value div(Value a, Value b);
UNROLL_API Value maximum(Value a, Value b);
UNROLL_API Value minimum(Value a, Value b);
UNROLL_API Value less(Value a, Value b);
UNROLL_API Value less_equal(Value a, Value b);
UNROLL_API Value equal(Value a, Value b);
UNROLL_API Value logical_and(Value a, Value b);
UNROLL_API Value logical_or(Value a, Value b);
UNROLL_API Value logical_not(Value a);
UNROLL_API Value select(Value condition, Value a, Value b);
UNROLL_API Value cast(Value x, DType dtype);  // x itself when it has the dtype already

inline Value operator+(Value a, Value b) { return add(a, b); }
inline Value operator-(Value a, Value b) { return sub(a, b); }
inline Value operator*(Value a, Value b) { return mul(a, b); }
inline Value operator/(Value a, Value b) { return div(a, b); }
inline Value operator-(Value a) { return neg(a); }
inline Value operator+(Value a, double b) { return add(a, scalar_like(a, b)); }
inline Value operator-(Value a, double b) { return sub(a, scalar_like(a, b)); }
inline Value operator*(Value a, double b) { return mul(a, scalar_like(a, b)); }
inline Value operator/(Value a, double b) { return div(a, scalar_like(a, b)); }
inline Value operator+(double a, Value b) { return add(scalar_like(b, a), b); }
inline Value operator-(double a, Value b) { return sub(scalar_like(b, a), b); }
inline Value operator*(double a, Value b) { return mul(scalar_like(b, a), b); }
inline Value operator/(double a, Value b) { return div(scalar_like(b, a), b); }

UNROLL_API Value square(Value x);
UNROLL_API Value relu(Value x);      // maximum(x, 0)
UNROLL_API Value silu(Value x);      // x * sigmoid(x)
UNROLL_API Value softplus(Value x);  // log(1 + e^x), without overflow

// movement; a negative axis counts from the end
UNROLL_API Value reshape(Value x, Shape shape);
UNROLL_API Value transpose(Value x, Ints permutation);
UNROLL_API Value slice(Value x, int axis, std::int64_t start, std::int64_t size);
UNROLL_API Value pad(Value x, int axis, std::int64_t low, std::int64_t high);
UNROLL_API Value concat(std::span<const Value> parts, int axis);
UNROLL_API Value broadcast(Value x, Shape shape);
UNROLL_API Value stack(std::span<const Value> parts);            // new axis 0
UNROLL_API std::vector<Value> split(Value x, int axis, int n);   // n equal parts
UNROLL_API Value row(Value x, std::int64_t index);               // x[index], axis 0 removed

// contractions and reductions
struct Transposed {
  bool a = false;
  bool b = false;
};
UNROLL_API Value matmul(Value a, Value b, Transposed transposed = {});
// Only the first `rows` (i32 []) stored rows of a count: with transposed.a the others add nothing, else their rows of
// the result are not written, and nothing may read them. For packed sequences; made by passes, without gradient.
UNROLL_API Value matmul_rows(Value a, Value b, Value rows, Transposed transposed = {});
// x [..., I] times weight [O, I] transposed, plus bias [O] when given -> [..., O]
UNROLL_API Value linear(Value x, Value weight, Value bias = {});
UNROLL_API Value reduce_sum(Value x, Ints axes, bool keep = false);
UNROLL_API Value reduce_max(Value x, Ints axes, bool keep = false);
UNROLL_API Value argmax(Value x, int axis);
UNROLL_API Value sum(Value x);   // over all axes -> scalar
UNROLL_API Value mean(Value x);  // over all axes -> scalar
// sum(x * mask) / max(sum(mask), 1); mask f32 or b8, broadcastable to x
UNROLL_API Value masked_mean(Value x, Value mask);

UNROLL_API Value gather(Value table, Value indices);
UNROLL_API Value scatter_add(Value indices, Value updates, std::int64_t rows);

// Where the rows of padded sequences [T,B,...] lie when only those with t < lengths[b] are kept, step after step,
// within a step longest first (as torch.nn.utils.rnn.pack_padded_sequence). All i32; -1 where there is no row.
struct PackedRows {
  Value batch_sizes;  // [T]: rows of each step, never more than in the step before
  Value order;        // [B]: rows of the batch by length, longest first, equal ones in their order
  Value rank;         // [B]: the inverse of order
  Value pack;         // [T*B]: padded place t*B + b of each packed row
  Value unpack;       // [T*B]: packed row of each padded place
  Value rows;         // []: how many packed rows there are
};
UNROLL_API PackedRows pack_lengths(Value lengths, std::int64_t steps);

// A loop over time. Input order of the node: states, sequences, constants, [lengths], [reset].
//   states     any type; each body run maps them to their next value
//   sequences  [T, ...]; the body sees slice t
//   constants  the same value in every step
//   lengths    i32 [B]: at t >= lengths[b] row b (axis 0) of every state keeps its value and the row of every
//              per-step output is zero; every state and output then has axis 0 = B
//   reset      b8 [T, B]: where set, row b of every state is zero before the step
//   packed     flag, made by passes: after the constants comes batch_sizes i32 [T] as pack_lengths gives it; sequences
//              and outputs are [T*B,...], rows of live sequences only, and step t touches the first batch_sizes[t] rows
//              of the states (ordered by rank); rows of outputs beyond the last are not written, nothing may read them.
//              A sequence that is the same for all rows stays [T,...]
//   reverse    t runs from T-1 to 0; outputs stay at their own t
// Body inputs: states, sequence slices, constants; body outputs: next states, then per-step outputs.
// Node outputs: final states, then outputs stacked to [T, ...]. T = 0 gives the initial states.
struct ScanOptions {
  bool reverse = false;
  Value lengths;
  Value reset;
  std::int64_t steps = -1;  // needed only when there are no sequences
};
struct ScanResult {
  std::vector<Value> states;
  std::vector<Value> outputs;
};
struct StepValues {  // values of the body graph
  std::vector<Value> states;
  std::vector<Value> sequences;
  std::vector<Value> constants;
};
struct StepResult {
  std::vector<Value> states;
  std::vector<Value> outputs;
};
using StepFunction = std::function<StepResult(const StepValues&)>;
UNROLL_API ScanResult scan(std::span<const Value> states, std::span<const Value> sequences,
                           std::span<const Value> constants, const StepFunction& step,
                           const ScanOptions& options = {});
// The same with a ready body graph.
UNROLL_API std::vector<Value> scan_body(std::span<const Value> inputs, Attributes attributes,
                                        std::shared_ptr<const Graph> body);

// Decoded attributes of a scan node.
struct ScanLayout {
  std::int64_t steps;
  int n_states, n_sequences, n_constants;
  bool reverse, has_lengths, has_reset;
  // Sequences and outputs are [T*B,...]: step t has rows [sum of sizes before t, + size t); made by passes.
  bool packed;
  int n_inputs() const { return n_states + n_sequences + n_constants + has_lengths + has_reset + packed; }
};
UNROLL_API ScanLayout scan_layout(const Node& node);

// Composites. Parameters have PyTorch's layouts: weight [G*H, in], gates i f g o and r z n.
struct RecurrentOptions {
  std::int64_t hidden = 0;
  int layers = 1;
  bool bidirectional = false;
  bool bias = true;
  double dropout = 0;         // between layers; needs key
  std::int64_t site = 0;      // random draw site of the dropout
  bool relu = false;          // rnn: relu instead of tanh
  bool reset_after = true;    // gru: n = tanh(W x + b + r * (W h + b)); false: n = tanh(W x + b + W (r * h) + b)
  std::int64_t projection = 0;  // lstm: h = W_hr * (o * tanh(c)), 0 for none
  bool peephole = false;        // lstm: i and f see the old cell, o the new one (Gers et al. 2002)
};
struct RecurrentInputs {
  Value x;        // [T, B, I]
  Value h0;       // [L*D, B, P]
  Value c0;       // lstm: [L*D, B, H]
  Value lengths;  // optional i32 [B]
  Value key;      // i32[3], when dropout > 0
  // for each layer, each direction: weight_ih [G*H, in], weight_hh [G*H, P], [bias_ih, bias_hh [G*H]],
  // [weight_hr [P, H]], [weight_ci, weight_cf, weight_co [H]]
  std::vector<Value> parameters;
};
struct RecurrentResult {
  Value y;   // [T, B, D*P]; zero at t >= lengths[b]
  Value hn;  // [L*D, B, P]
  Value cn;  // lstm: [L*D, B, H]
};
UNROLL_API RecurrentResult recurrent(Op cell, const RecurrentInputs& inputs, const RecurrentOptions& options);

UNROLL_API Value softmax(Value x);
UNROLL_API Value log_softmax(Value x);
UNROLL_API Value layer_norm(Value x, Value weight, Value bias, double epsilon = 1e-5);  // over the last axis
// Zeroes each element with probability rate and scales the rest by 1 / (1 - rate).
UNROLL_API Value dropout(Value x, Value key, double rate, std::int64_t site, Value step = {});
UNROLL_API Value embedding(Value table, Value ids);  // [V,E], i32 [...] -> [...,E]

struct AttentionResult {
  Value y;        // [B, Q, E]
  Value weights;  // [B, Q, S]
};
// softmax(scale * q k^T) v; mask b8, broadcastable to [B, Q, S], false = not attended; a row with nothing to attend
// gives zeros. scale 0 stands for 1/sqrt(width of q).
UNROLL_API AttentionResult dot_attention(Value q, Value k, Value v, Value mask = {}, double scale = 0);
// Bahdanau et al. 2015: v_a . tanh(W_q q + W_k k); w_q [A, Dq], w_k [A, Dk], v_a [A]
UNROLL_API AttentionResult additive_attention(Value q, Value k, Value v, Value w_q, Value w_k, Value v_a,
                                              Value mask = {});
// Vaswani et al. 2017 with PyTorch's packed parameters: in_weight [3E, E], in_bias [3E], out_weight [E, E], out_bias
// [E]; q [B, Q, E], k and v [B, S, E]. weights are the mean over heads.
UNROLL_API AttentionResult multi_head_attention(Value q, Value k, Value v, Value in_weight, Value in_bias,
                                                Value out_weight, Value out_bias, int heads, Value mask = {});

// Losses: one value per row (cross-entropy) or element; reduce with mean or masked_mean.
UNROLL_API Value softmax_cross_entropy(Value logits, Value labels);
UNROLL_API Value mse(Value prediction, Value target);
UNROLL_API Value mae(Value prediction, Value target);
UNROLL_API Value huber(Value prediction, Value target, double delta = 1);
UNROLL_API Value bce(Value logits, Value target);  // binary cross-entropy with logits

}  // namespace unroll
