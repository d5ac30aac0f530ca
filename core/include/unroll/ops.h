// SPDX-License-Identifier: Apache-2.0
// Functions that append nodes to a graph. All arguments of a call belong to the same graph. Each function checks dtypes
// and shapes and throws Error(type|shape). Letters: T time, B batch, I input, H hidden, P output of a recurrent layer
// (projection, or H), L layers, D directions, G gates, V classes, E embedding.
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
UNROLL_API Value filled(Graph& graph, Type type, double value);    // every element is `value`
UNROLL_API Value iota(Graph& graph, Shape shape, int axis);        // i32 index along `axis`
// Uniform in [0,1): element e of RNG stream `site` is a pure function of (key, site, step * elements + e). key i32 [3]
// is (seed low, seed high, update); step i32 [].
UNROLL_API Value random_uniform(Value key, Shape shape, std::int64_t site, Value step = {});

// Elementwise, with NumPy broadcasting: neg, abs, exp and the others of op_table.def.
#define UNROLL_OP(...)
#define UNROLL_UNARY(name, ...) UNROLL_API Value name(Value x);
#define UNROLL_BINARY(name, ...) UNROLL_API Value name(Value a, Value b);
#define UNROLL_COMPOSITE(...)
#include "unroll/detail/op_table.def"
UNROLL_API Value is_finite(Value x);
UNROLL_API Value logical_not(Value a);
UNROLL_API Value select(Value condition, Value a, Value b);
UNROLL_API Value cast(Value x, DType dtype);  // returns x itself if it already has the dtype

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
UNROLL_API Value softplus(Value x);  // log(1 + e^x), overflow-safe

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
// Product of the first `rows` (i32 []) rows only. With transposed.a the other rows contribute nothing. Otherwise the
// other rows of the result are not written, and nothing may read them. Passes create it for packed sequences; no
// gradient.
UNROLL_API Value matmul_rows(Value a, Value b, Value rows, Transposed transposed = {});
// x [..., I] times transposed weight [O, I], plus bias [O] if given -> [..., O]
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

// The packed layout of padded sequences [T,B,...]: only rows with t < lengths[b] exist. Rows are ordered by step, and
// within a step by decreasing length (as in torch.nn.utils.rnn.pack_padded_sequence). All i32; -1 marks a missing row.
struct PackedRows {
  Value batch_sizes;  // [T]: rows in each step, non-increasing
  Value order;        // [B]: batch indices by decreasing length, stable
  Value rank;         // [B]: the inverse of order
  Value pack;         // [T*B]: padded position t*B + b of each packed row
  Value unpack;       // [T*B]: packed row of each padded position
  Value rows;         // []: number of packed rows
};
UNROLL_API PackedRows pack_lengths(Value lengths, std::int64_t steps);

// A loop over time. Inputs of the node, in order: states, sequences, constants, [lengths], [reset].
//   states     any type; each step maps them to their next values
//   sequences  [T, ...]; the body sees slice t
//   constants  the same value in every step
//   lengths    i32 [B]: at t >= lengths[b], row b (axis 0) of every state keeps its value, and row b of every per-step
//              output is zero. Axis 0 of every state and output must then be B
//   reset      b8 [T, B]: where true, row b of every state is set to zero before the step
//   packed     a flag set by passes. batch_sizes i32 [T] (see pack_lengths) follows the constants. Sequences and
//              outputs are [T*B,...] and hold existing rows only. Step t uses the first batch_sizes[t] rows of the
//              states, which are sorted by rank. Output rows beyond the last are not written; nothing may read them.
//              A sequence that is the same for all rows stays [T,...]
//   reverse    t runs from T-1 to 0; the output of step t stays at position t
// Body inputs: states, sequence slices, constants. Body outputs: next states, then per-step outputs.
// Node outputs: final states, then outputs stacked to [T, ...]. With T = 0 the final states are the initial ones.
struct ScanOptions {
  bool reverse = false;
  Value lengths;
  Value reset;
  std::int64_t steps = -1;  // required when there are no sequences
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
// The same with an existing body graph.
UNROLL_API std::vector<Value> scan_body(std::span<const Value> inputs, Attributes attributes,
                                        std::shared_ptr<const Graph> body);

// The decoded attributes of a scan node.
struct ScanLayout {
  std::int64_t steps;
  int n_states, n_sequences, n_constants;
  bool reverse, has_lengths, has_reset;
  // Set by passes. Sequences and outputs are [T*B,...]; the rows of step t start at the sum of the sizes before t.
  bool packed;
  int n_inputs() const { return n_states + n_sequences + n_constants + has_lengths + has_reset + packed; }
};
UNROLL_API ScanLayout scan_layout(const Node& node);

// Composite ops. Parameters have PyTorch's layouts: weight [G*H, in], gate order i f g o (lstm) and r z n (gru).
struct RecurrentOptions {
  std::int64_t hidden = 0;
  int layers = 1;
  bool bidirectional = false;
  bool bias = true;
  double dropout = 0;         // between layers; requires key
  std::int64_t site = 0;      // RNG stream of the dropout
  bool relu = false;          // rnn: relu instead of tanh
  bool reset_after = true;    // gru: n = tanh(W x + b + r * (W h + b)); false: n = tanh(W x + b + W (r * h) + b)
  std::int64_t projection = 0;  // lstm: h = W_hr * (o * tanh(c)); 0: none
  bool peephole = false;        // lstm: i and f read the previous cell state, o the new one (Gers et al. 2002)
};
struct RecurrentInputs {
  Value x;        // [T, B, I]
  Value h0;       // [L*D, B, P]
  Value c0;       // lstm: [L*D, B, H]
  Value lengths;  // optional i32 [B]
  Value key;      // i32 [3], if dropout > 0
  // For each layer and direction: weight_ih [G*H, in], weight_hh [G*H, P], [bias_ih, bias_hh [G*H]], [weight_hr [P,
  // H]], [weight_ci, weight_cf, weight_co [H]].
  std::vector<Value> parameters;
};
struct RecurrentResult {
  Value y;   // [T, B, D*P]; zero at t >= lengths[b]
  Value hn;  // [L*D, B, P]
  Value cn;  // lstm: [L*D, B, H]
};
UNROLL_API RecurrentResult recurrent(Op cell, const RecurrentInputs& inputs, const RecurrentOptions& options);

struct AttentionResult {
  Value y;        // [B, Q, E]
  Value weights;  // [B, Q, S]
};
// The other composites: softmax, layer_norm, dropout, embedding, attention and losses, with their documentation in
// op_table.def.
#define UNROLL_OP(...)
#define UNROLL_UNARY(...)
#define UNROLL_BINARY(...)
#define UNROLL_COMPOSITE(name, min_inputs, max_inputs, gradient, cost, result, parameters) \
  UNROLL_API result name parameters;
#include "unroll/detail/op_table.def"

}  // namespace unroll
