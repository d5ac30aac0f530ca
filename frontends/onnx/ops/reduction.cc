// SPDX-License-Identifier: Apache-2.0
// Matmuls, reductions, softmax and layer normalization.
#include <algorithm>
#include <limits>
#include <numeric>

#include "frontends/onnx/importer.h"

namespace unroll::onnx {
namespace {

std::vector<Value> matrix_product(Call& call) {
  const Value a = call.in(0), b = call.in(1);
  if (a.rank() == 0 || b.rank() == 0) call.refuse("needs at least vectors");
  if (!is_float(a.dtype())) call.unsupported("products of integers are not supported");
  return {numpy_matmul(a, b)};
}

std::vector<Value> gemm(Call& call) {
  const double alpha = call.number("alpha", 1), beta = call.number("beta", 1);
  const Transposed transposed{call.integer("transA", 0) != 0, call.integer("transB", 0) != 0};
  Value y = matmul(call.in(0), call.in(1), transposed);
  if (alpha != 1) y = y * alpha;
  if (!call.has(2)) return {y};
  const Value c = call.in(2);
  return {add(y, beta == 1 ? c : c * beta)};
}

struct Reduction {
  Ints axes;
  bool keep;
  bool is_nothing;  // no axes and noop_with_empty_axes
};
Reduction reduction_of(Call& call, int rank) {
  Reduction r{.axes = {}, .keep = call.integer("keepdims", 1) != 0, .is_nothing = false};
  const Ints axes = call.axes(1).value_or(Ints{});
  const bool empty_is_nothing = call.integer("noop_with_empty_axes", 0) != 0;
  for (const std::int64_t axis : axes) r.axes.push_back(call.axis(axis, rank));
  std::sort(r.axes.begin(), r.axes.end());
  if (std::adjacent_find(r.axes.begin(), r.axes.end()) != r.axes.end()) call.refuse("an axis is given twice");
  r.is_nothing = axes.empty() && empty_is_nothing;
  if (axes.empty() && !r.is_nothing) {
    r.axes.resize(rank);
    std::iota(r.axes.begin(), r.axes.end(), 0);
  }
  return r;
}

Value sum_of(Value x, const Reduction& r) { return r.is_nothing ? x : reduce_sum(x, r.axes, r.keep); }
Value max_of(Value x, const Reduction& r) {
  if (r.is_nothing) return x;
  if (x.shape().elements() == 0) {  // the sum has the output's shape
    const double least = x.dtype() == DType::i32 ? std::numeric_limits<std::int32_t>::min()
                                                 : -std::numeric_limits<double>::infinity();
    return filled(x.graph(), sum_of(x, r).type(), least);
  }
  if (x.dtype() == DType::b8) return cast(reduce_max(cast(x, DType::i32), r.axes, r.keep), DType::b8);
  return reduce_max(x, r.axes, r.keep);
}
Value min_of(Value x, const Reduction& r) {
  if (x.dtype() == DType::b8) return logical_not(max_of(logical_not(x), r));
  return neg(max_of(neg(x), r));
}
Value mean_over(Value x, const Reduction& r) {
  std::int64_t n = 1;
  for (const std::int64_t axis : r.axes) n *= x.shape()[static_cast<int>(axis)];
  return r.is_nothing ? x : div(sum_of(x, r), scalar_like(x, static_cast<double>(n)));
}
Value sum_of_squares(Value x, const Reduction& r) { return sum_of(mul(x, x), r); }
Value l1_norm(Value x, const Reduction& r) { return sum_of(abs(x), r); }
Value l2_norm(Value x, const Reduction& r) {
  const Value root = sqrt(sum_of_squares(is_float(x.dtype()) ? x : cast(x, DType::f32), r));
  return cast(root, x.dtype());
}
Value log_sum(Value x, const Reduction& r) { return log(sum_of(x, r)); }

Value log_sum_of_exponentials(Value x, const Reduction& r) {
  if (r.is_nothing) return x;
  if (x.shape().elements() == 0) return max_of(x, r);
  const Value most = reduce_max(x, r.axes, true);
  const Value shift = select(is_finite(most), most, scalar_like(x, 0));
  const Value total = log(reduce_sum(exp(sub(x, shift)), r.axes, true));
  const Value y = add(total, shift);
  return r.keep ? y : reshape(y, reduce_sum(x, r.axes).shape());
}
// Multiplies halves of the reduced axes until one element is left.
Value product_of(Value x, const Reduction& r) {
  if (r.is_nothing) return x;
  const Shape shape = reduce_sum(x, r.axes, r.keep).shape();
  Ints order;
  for (int i = 0; i < x.rank(); ++i)
    if (std::ranges::count(r.axes, i) == 0) order.push_back(i);
  order.insert(order.end(), r.axes.begin(), r.axes.end());
  std::int64_t n = 1;
  for (const std::int64_t axis : r.axes) n *= x.shape()[static_cast<int>(axis)];
  if (n == 0) return filled(x.graph(), {x.dtype(), shape}, 1);
  Value y = reshape(transpose(x, order), {shape.elements(), n});
  while (n > 1) {
    const std::int64_t half = n / 2, rest = n - 2 * half;
    const Value product = mul(slice(y, 1, 0, half), slice(y, 1, half, half));
    y = rest ? concat(std::vector<Value>{product, slice(y, 1, n - 1, 1)}, 1) : product;
    n = half + rest;
  }
  return reshape(y, shape);
}

template <auto f>
std::vector<Value> reduced(Call& call) {
  const Value x = call.in(0);
  return {f(x, reduction_of(call, x.rank()))};
}

std::vector<Value> arg_max(Call& call, bool of_negative) {
  const Value given = call.in(0), x = of_negative ? neg(given) : given;
  if (x.rank() == 0) call.refuse("needs at least a vector");
  const int axis = call.axis(call.integer("axis", 0), x.rank());
  const bool keep = call.integer("keepdims", 1) != 0, last = call.integer("select_last_index", 0) != 0;
  Value index = argmax(last ? flipped(x, axis) : x, axis);
  if (last) index = sub(scalar_like(index, static_cast<double>(x.shape()[axis] - 1)), index);
  return {keep ? reshape(index, x.shape().with(axis, 1)) : index};
}

Value hardmax(Value x) { return one_hot(argmax(x, -1), x.shape()[x.rank() - 1], x.dtype()); }

// Over one axis since opset 13; earlier, over all axes from `axis` on together.
template <auto f>
std::vector<Value> normalized(Call& call) {
  const Value x = call.in(0);
  const bool is_new = call.opset() >= 13;
  if (x.rank() == 0) call.refuse("needs at least a vector");
  const int axis = call.axis(call.integer("axis", is_new ? -1 : 1), x.rank());
  if (!is_new) {
    std::int64_t rows = 1;
    for (int i = 0; i < axis; ++i) rows *= x.shape()[i];
    const std::int64_t columns = rows == 0 ? 0 : x.shape().elements() / rows;
    return {reshape(f(reshape(x, {rows, columns})), x.shape())};
  }
  if (axis == x.rank() - 1) return {f(x)};
  Ints order(x.rank());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[axis], order.back());
  return {transpose(f(transpose(x, order)), order)};
}

// The axes from `axis` on form one row; scale and bias have its shape.
std::vector<Value> layer_normalization(Call& call) {
  const Value x = call.in(0);
  const int axis = call.axis(call.integer("axis", -1), x.rank());
  const double epsilon = call.number("epsilon", 1e-5);
  call.integer("stash_type", 1);
  std::int64_t width = 1;
  for (int i = axis; i < x.rank(); ++i) width *= x.shape()[i];
  const auto rows = Shape(x.shape().dims().first(axis));
  const Shape inner(x.shape().dims().subspan(axis));
  const auto flat = [&](Value v) { return reshape(broadcast(v, inner), {width}); };
  const Value weight = flat(call.in(1));
  const Value bias = call.has(2) ? flat(call.in(2)) : filled(call.graph(), {x.dtype(), {width}}, 0);
  const Value flat_x = reshape(x, rows.inserted(rows.rank(), width));
  std::vector<Value> outputs{reshape(layer_norm(flat_x, weight, bias, epsilon), x.shape())};
  if (!call.wants(1) && !call.wants(2)) return outputs;
  Shape kept = x.shape();
  for (int i = axis; i < x.rank(); ++i) kept = kept.with(i, 1);
  const double scale = 1.0 / static_cast<double>(width);
  const Value mean = reduce_sum(flat_x, {rows.rank()}, true) * scale;
  const Value centered = sub(flat_x, mean);
  const Value variance = reduce_sum(mul(centered, centered), {rows.rank()}, true) * scale;
  outputs.push_back(reshape(mean, kept));
  outputs.push_back(reshape(1.0 / sqrt(variance + epsilon), kept));
  return outputs;
}

constexpr OperatorRow k_reduction_rows[] = {
    {"ArgMax", 1, [](Call& call) { return arg_max(call, false); }},
    {"ArgMin", 1, [](Call& call) { return arg_max(call, true); }},
    {"Gemm", 7, gemm},
    {"Hardmax", 1, normalized<hardmax>},
    {"LayerNormalization", 17, layer_normalization},
    {"LogSoftmax", 1, normalized<log_softmax>},
    {"MatMul", 1, matrix_product},
    {"ReduceL1", 1, reduced<l1_norm>},
    {"ReduceL2", 1, reduced<l2_norm>},
    {"ReduceLogSum", 1, reduced<log_sum>},
    {"ReduceLogSumExp", 1, reduced<log_sum_of_exponentials>},
    {"ReduceMax", 1, reduced<max_of>},
    {"ReduceMean", 1, reduced<mean_over>},
    {"ReduceMin", 1, reduced<min_of>},
    {"ReduceProd", 1, reduced<product_of>},
    {"ReduceSum", 1, reduced<sum_of>},
    {"ReduceSumSquare", 1, reduced<sum_of_squares>},
    {"Softmax", 1, normalized<softmax>},
};

}  // namespace

Value numpy_matmul(Value a, Value b) {
  const bool is_row = a.rank() == 1, is_column = b.rank() == 1;
  if (is_row) a = reshape(a, a.shape().inserted(0, 1));
  if (is_column) b = reshape(b, b.shape().inserted(1, 1));
  const std::int64_t inner = a.shape()[a.rank() - 1];
  const std::int64_t columns = b.shape()[b.rank() - 1];
  Value result;
  if (b.rank() == 2) {  // one matmul for all leading axes of a
    std::int64_t leading = 1;
    for (int i = 0; i < a.rank() - 1; ++i) leading *= a.shape()[i];
    result = reshape(matmul(reshape(a, {leading, inner}), b), a.shape().with(a.rank() - 1, columns));
  } else {
    const auto leading = [](Value v) { return Shape(v.shape().dims().first(v.rank() - 2)); };
    const Shape both = broadcast_shapes(leading(a), leading(b), "MatMul");
    const auto spread = [&](Value v) {
      Ints dims(both.begin(), both.end());
      dims.push_back(v.shape()[v.rank() - 2]), dims.push_back(v.shape()[v.rank() - 1]);
      return broadcast(v, Shape(dims));
    };
    result = matmul(spread(a), spread(b));
  }
  Ints dims(result.shape().begin(), result.shape().end());
  if (is_column) dims.pop_back();
  if (is_row) dims.erase(dims.end() - (is_column ? 1 : 2));
  return reshape(result, Shape(dims));
}

std::span<const OperatorRow> reduction_rows() { return k_reduction_rows; }

}  // namespace unroll::onnx
