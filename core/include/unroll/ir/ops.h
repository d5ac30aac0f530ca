// SPDX-License-Identifier: Apache-2.0
// Functions that append nodes to a graph. All arguments of a call belong to the same graph. Each function checks dtypes
// and shapes, and throws Error(type|shape). Letters: T time, B batch, I input, H hidden, P output of a recurrent layer
// (projection, or H), L layers, D directions, G gates, V classes, E embedding.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "unroll/ir/graph.h"
#include "unroll/ir/recurrent.h"
#include "unroll/ir/scan.h"

namespace unroll {

// sources
UNROLL_API Value constant(Graph& graph, Tensor value);
UNROLL_API Value scalar(Graph& graph, DType dtype, double value);  // rank 0
UNROLL_API Value scalar_like(Value like, double value);            // rank 0, like's graph and dtype
UNROLL_API Value filled(Graph& graph, Type type, double value);    // every element is `value`
UNROLL_API Value iota(Graph& graph, Shape shape, int axis);        // i32 index along `axis`
// Uniform in [0,1): element e of RNG stream `rng_stream` is a pure function of (key, rng_stream, step * elements + e).
// key i32 [3] is (seed low, seed high, update); step i32 [].
UNROLL_API Value random_uniform(Value key, Shape shape, std::int64_t rng_stream, Value step = {});

// Elementwise, with NumPy broadcasting: neg, abs, exp and the others of op_table.def.
#define UNROLL_OP(...)
#define UNROLL_UNARY(name, ...) UNROLL_API Value name(Value x);
#define UNROLL_BINARY(name, ...) UNROLL_API Value name(Value a, Value b);
#define UNROLL_COMPOSITE(...)
#include "unroll/ir/op_table.def"
UNROLL_API Value is_finite(Value x);
UNROLL_API Value logical_not(Value a);
UNROLL_API Value select(Value condition, Value a, Value b);
UNROLL_API Value cast(Value x, DType dtype);  // returns x itself if it already has the dtype

// a > b, a >= b, !(a == b); b8. The last is true if an operand is NaN.
UNROLL_API Value greater(Value a, Value b);
UNROLL_API Value greater_equal(Value a, Value b);
UNROLL_API Value not_equal(Value a, Value b);

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
// Comparisons element by element. == and != of Values compare handles, not elements: use equal and not_equal.
inline Value operator<(Value a, Value b) { return less(a, b); }
inline Value operator<=(Value a, Value b) { return less_equal(a, b); }
inline Value operator>(Value a, Value b) { return greater(a, b); }
inline Value operator>=(Value a, Value b) { return greater_equal(a, b); }
inline Value operator<(Value a, double b) { return less(a, scalar_like(a, b)); }
inline Value operator<=(Value a, double b) { return less_equal(a, scalar_like(a, b)); }
inline Value operator>(Value a, double b) { return greater(a, scalar_like(a, b)); }
inline Value operator>=(Value a, double b) { return greater_equal(a, scalar_like(a, b)); }
inline Value operator<(double a, Value b) { return less(scalar_like(b, a), b); }
inline Value operator<=(double a, Value b) { return less_equal(scalar_like(b, a), b); }
inline Value operator>(double a, Value b) { return greater(scalar_like(b, a), b); }
inline Value operator>=(double a, Value b) { return greater_equal(scalar_like(b, a), b); }

UNROLL_API Value square(Value x);
UNROLL_API Value relu(Value x);      // maximum(x, 0)
UNROLL_API Value silu(Value x);      // x * sigmoid(x)
UNROLL_API Value gelu(Value x);      // x (1 + erf(x / sqrt 2)) / 2 (Hendrycks & Gimpel 2016)
UNROLL_API Value glu(Value x);       // a * sigmoid(b) for the halves a, b of the last axis (Dauphin et al. 2017)
UNROLL_API Value softplus(Value x);  // log(1 + e^x), overflow-safe
// min(max(x, low), high). The gradient is 1 where low <= x <= high, else 0.
UNROLL_API Value clip(Value x, double low, double high);
// a^b with broadcasting: NaN where a < 0. At a = 0 the gradients are 0.
UNROLL_API Value pow(Value a, Value b);
// x^exponent. An integer exponent from -16 to 16 multiplies, for x of any sign. Other exponents: as above.
UNROLL_API Value pow(Value x, double exponent);

// movement; a negative axis counts from the end
UNROLL_API Value reshape(Value x, Shape shape);
UNROLL_API Value transpose(Value x, Ints permutation);
UNROLL_API Value moved_axis(Value x, int from, int to);          // both from 0 on; the others keep their order
UNROLL_API Value slice(Value x, int axis, std::int64_t start, std::int64_t size);
UNROLL_API Value pad(Value x, int axis, std::int64_t low, std::int64_t high);
UNROLL_API Value concat(ValueList parts, int axis);
UNROLL_API Value broadcast(Value x, Shape shape);
// Overlapping windows of `size` positions of an axis, before the last axis: [..., L, ..., C] -> [..., N, ..., size, C].
// Window n has the positions n * stride + i * dilation; N is 0 if L has no room for one.
UNROLL_API Value windows(Value x, int axis, std::int64_t size, std::int64_t stride = 1, std::int64_t dilation = 1);
// The transpose of windows, [..., N, ..., size, C] -> [..., length, ..., C]: adds up what is at the same position.
UNROLL_API Value overlap_add(Value x, int axis, std::int64_t length, std::int64_t stride = 1,
                             std::int64_t dilation = 1);
UNROLL_API Value squeeze(Value x, int axis);                     // removes an axis of size 1
UNROLL_API Value stack(ValueList parts);                         // new axis 0
UNROLL_API std::vector<Value> split(Value x, int axis, int n);   // n equal parts
UNROLL_API Value row(Value x, std::int64_t index);               // x[index], axis 0 removed

// contractions and reductions
struct Transposed {
  bool a = false;
  bool b = false;
};
UNROLL_API Value matmul(Value a, Value b, Transposed transposed = {});
// x [..., I] times transposed weight [O, I], plus bias [O] if given -> [..., O]
UNROLL_API Value linear(Value x, Value weight, Value bias = {});
// Axes of a reduction: -1, or {0, 1}. A negative axis counts from the end. By default, and from {}, all axes.
class UNROLL_API Axes {
 public:
  Axes() = default;
  Axes(int axis) : axes_(Ints{axis}) {}
  Axes(std::initializer_list<std::int64_t> axes) : axes_(axes) {}
  Axes(Ints axes) : axes_(std::move(axes)) {}
  // Ascending, from 0. Throws Error(shape) from `who` on an axis outside of the rank, or given twice.
  Ints of(int rank, std::string_view who) const;

 private:
  std::optional<Ints> axes_;
};
UNROLL_API Value reduce_sum(Value x, const Axes& axes, bool keep = false);  // the op; `sum` is the same function
UNROLL_API Value reduce_max(Value x, const Axes& axes, bool keep = false);
// With keepdims the reduced axes remain with size 1. NaN propagates. mean is of floats; a maximum or minimum over zero
// elements throws Error(shape).
UNROLL_API Value sum(Value x, const Axes& axes = {}, bool keepdims = false);
UNROLL_API Value mean(Value x, const Axes& axes = {}, bool keepdims = false);
UNROLL_API Value max(Value x, const Axes& axes = {}, bool keepdims = false);
UNROLL_API Value min(Value x, const Axes& axes = {}, bool keepdims = false);
UNROLL_API Value argmax(Value x, int axis);
// Element i of the axis is the sum of elements 0 .. i, added in this order by a scan.
UNROLL_API Value cumsum(Value x, int axis);
// sum(x * mask) / max(sum(mask), 1) where mask is not 0; the others may be NaN. mask f32 or b8, broadcastable to x
UNROLL_API Value masked_mean(Value x, Value mask);

UNROLL_API Value gather(Value table, Value indices);
// i32 [...] -> [..., classes]: 1 at the index, else 0; an index out of range gives zeros
UNROLL_API Value one_hot(Value indices, std::int64_t classes, DType dtype = DType::f32);
UNROLL_API Value scatter_add(Value indices, Value updates, std::int64_t rows);

struct AttentionResult {
  Value y;        // [B, Q, E]
  Value weights;  // [B, Q, S]
};
// Options of convolutions and pooling. A list has an element for each axis; an empty list has ones, or zeros for low
// and high.
struct ConvOptions {
  Ints axes;          // of x, ascending; the last axis has the channels
  Ints stride = {};
  Ints dilation = {};
  Ints low = {};      // zeros added before the first position, and after the last one
  Ints high = {};
  std::int64_t groups = 1;  // of channels that are convolved separately
};
// The transpose of conv: x [..., N..., C], weight [C, K..., O / groups], bias [O] or none -> [..., L..., O], with
// L = (N - 1) * stride + (K - 1) * dilation + 1 - low - high. A negative high appends zeros.
UNROLL_API Value conv_transpose(Value x, Value weight, Value bias, const ConvOptions& options);
// These pool windows of `size` positions. A maximum ignores padding; the first of equal values receives the gradient.
// An average counts padding only with `counts_padding`.
UNROLL_API Value max_pool(Value x, const Ints& size, const ConvOptions& options);
UNROLL_API Value average_pool(Value x, const Ints& size, const ConvOptions& options, bool counts_padding = false);
// The other composites: softmax, layer_norm, dropout, embedding, attention and losses, with their documentation in
// op_table.def.
#define UNROLL_OP(...)
#define UNROLL_UNARY(...)
#define UNROLL_BINARY(...)
#define UNROLL_COMPOSITE(name, min_inputs, max_inputs, gradient, cost, result, parameters) \
  UNROLL_API result name parameters;
#include "unroll/ir/op_table.def"

}  // namespace unroll
