// SPDX-License-Identifier: Apache-2.0
// Convolutions and pooling over windows of positions; channels last. C channels in, O channels out, K size of a window.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <string>

#include "core/ir/append.h"
#include "core/ir/ops/composite.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

Ints integers(const ShapeQuery& q, std::string_view name) { return q.attributes.get<Ints>(name); }

std::string text_of(const Ints& list) { return Shape(list).text(); }

void require_conv(const ShapeQuery& q) {
  const Shape &x = q.shape(0), &weight = q.shape(1);
  q.require_same_dtype();
  q.require_float(0);
  const Ints axes = integers(q, "axes");
  const auto n = static_cast<std::int64_t>(axes.size());
  q.require(n >= 1 && x.rank() + n <= Shape::k_max_rank, "convolves 1 or more axes, and rank + axes is at most " +
                                                             std::to_string(Shape::k_max_rank) + "; got " + x.text());
  for (std::int64_t i = 0; i < n; ++i)
    q.require(axes[i] >= 0 && axes[i] < x.rank() - 1 && (i == 0 || axes[i] > axes[i - 1]),
              "axes must ascend and come before the last one; got " + text_of(axes) + " for " + x.text());
  for (const char* name : {"stride", "dilation", "low", "high"})
    q.require(static_cast<std::int64_t>(integers(q, name).size()) == n,
              std::string(name) + " needs an element for each of the axes " + text_of(axes));
  q.require(weight.rank() == n + 2, "weight must be [O, K..., C / groups] for the axes " + text_of(axes) + "; got " +
                                        weight.text());
  const std::int64_t groups = q.integer("groups"), C = x[x.rank() - 1], O = weight[0];
  q.require(groups > 0 && C == groups * weight[weight.rank() - 1] && O % groups == 0,
            "C and O must be multiples of groups = " + std::to_string(groups) + ", and weight [O, K..., C / groups]; " +
                "got " + x.text() + " and " + weight.text());
  if (q.inputs.size() > 2) q.require_shape(2, Shape{O}, "bias");
}

// Positions added, or with a negative number removed, before and after those of an axis.
Value extended(Value x, int axis, std::int64_t low, std::int64_t high, double value = 0) {
  const std::int64_t begin = std::max<std::int64_t>(-low, 0), cut = std::max<std::int64_t>(-high, 0);
  if (begin + cut > 0) x = slice(x, axis, begin, std::max<std::int64_t>(x.shape()[axis] - begin - cut, 0));
  low = std::max<std::int64_t>(low, 0), high = std::max<std::int64_t>(high, 0);
  if (value == 0) return low + high > 0 ? pad(x, axis, low, high) : x;
  const auto part = [&](std::int64_t n) { return filled(x.graph(), {x.dtype(), x.shape().with(axis, n)}, value); };
  std::vector<Value> parts{x};
  if (low > 0) parts.insert(parts.begin(), part(low));
  if (high > 0) parts.push_back(part(high));
  return concat(parts, axis);
}

// [..., L..., C] -> [..., N..., K..., C]
Value windows_of(Value x, const ConvOptions& o, const Ints& size, double padding = 0) {
  for (std::size_t i = 0; i < o.axes.size(); ++i) {
    const int axis = static_cast<int>(o.axes[i]);
    x = windows(extended(x, axis, o.low[i], o.high[i], padding), axis, size[i], o.stride[i], o.dilation[i]);
  }
  return x;
}

// Element `tap` of the axes [first, end) of windows, numbered in row-major order, without these axes.
Value tap_of(Value windows, int first, int n_axes, std::int64_t tap) {
  Value x = windows;
  for (int axis = first + n_axes - 1; axis >= first; --axis) {
    const std::int64_t size = x.shape()[axis];
    x = squeeze(slice(x, axis, tap % size, 1), axis);
    tap /= size;
  }
  return x;
}

std::int64_t product_of(const Ints& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

// Each channel by itself: a sum of K products, which fuse.
Value depthwise(Value windows, Value weight, int rank, int n_axes, std::int64_t taps) {
  Value sum;
  for (std::int64_t k = 0; k < taps; ++k) {
    const Value term = tap_of(windows, rank - 1, n_axes, k) * squeeze(tap_of(weight, 1, n_axes, k), 1);
    sum = sum ? sum + term : term;
  }
  return sum;
}

// Groups of channels: a product for each, as a batch [G, rows, K C/G] x [G, O/G, K C/G].
Value grouped(Value windows, Value weight, std::int64_t groups, std::int64_t taps, const Shape& result) {
  const std::int64_t C = weight.shape()[weight.rank() - 1], O = weight.shape()[0] / groups;
  const std::int64_t rows = result.elements() / std::max<std::int64_t>(result[result.rank() - 1], 1);
  const Value x = reshape(transpose(reshape(windows, {rows, taps, groups, C}), {2, 0, 1, 3}), {groups, rows, taps * C});
  const Value y = matmul(x, reshape(weight, {groups, O, taps * C}), {.b = true});
  return reshape(transpose(y, {1, 0, 2}), result);
}

ConvOptions options_of(const Attributes& attributes) {
  const auto list = [&](std::string_view name) { return attributes.get<Ints>(name); };
  return {list("axes"), list("stride"), list("dilation"), list("low"), list("high"),
          attributes.get<std::int64_t>("groups")};
}

// y[n, o] = sum over k, c of x[n stride + k dilation - low, c] weight[o, k, c], plus bias[o]
std::vector<Value> conv_body(std::span<const Value> in, const Attributes& attributes) {
  const Value x = in[0], weight = in[1], bias = in.size() > 2 ? in[2] : Value();
  const ConvOptions o = options_of(attributes);
  const Shape& w = weight.shape();
  const Ints size(w.begin() + 1, w.end() - 1);
  const std::int64_t O = w[0], taps = product_of(size), C = w[w.rank() - 1];
  const Value patches = windows_of(x, o, size);
  Ints dims(patches.shape().begin(), patches.shape().begin() + x.rank() - 1);
  dims.push_back(O);
  const Shape result(dims);
  if (o.groups == 1) {
    dims.back() = taps * C;
    return {linear(reshape(patches, Shape(dims)), reshape(weight, {O, taps * C}), bias)};
  }
  const bool is_depthwise = C == 1 && O == o.groups && taps > 0;
  const Value y = is_depthwise ? depthwise(patches, weight, x.rank(), static_cast<int>(size.size()), taps)
                               : grouped(patches, weight, o.groups, taps, result);
  return {bias ? y + bias : y};
}

// With a list for every option, and axes from 0.
ConvOptions completed(ConvOptions o, int rank, const char* who) {
  for (std::int64_t& axis : o.axes) axis = axis < 0 ? axis + rank : axis;
  const struct {
    Ints& list;
    std::int64_t fallback;
  } lists[] = {{o.stride, 1}, {o.dilation, 1}, {o.low, 0}, {o.high, 0}};
  for (const auto& [list, fallback] : lists) {
    if (list.empty()) list.assign(o.axes.size(), fallback);
    if (list.size() != o.axes.size())
      throw Error(ErrorKind::shape, who, "stride, dilation, low and high need an element for each of the axes " +
                                             text_of(o.axes) + "; got " + text_of(list));
  }
  return o;
}

// Combines the taps of each window with `combine`, the last one first: of equal ones the first is the second operand.
Value pooled(Value windows, int rank, std::int64_t taps, Value (*combine)(Value, Value)) {
  const int n_axes = windows.rank() - rank;
  Value y = tap_of(windows, rank - 1, n_axes, taps - 1);
  for (std::int64_t k = taps - 1; k-- > 0;) y = combine(y, tap_of(windows, rank - 1, n_axes, k));
  return y;
}

void require_pool(Value x, const Ints& size, const ConvOptions& o, const char* who) {
  const bool fits = size.size() == o.axes.size() && !size.empty() && product_of(size) > 0;
  if (!fits || x.rank() < 2 || x.rank() + std::ssize(size) > Shape::k_max_rank)
    throw Error(ErrorKind::shape, who, "needs a positive size for each of the axes " + text_of(o.axes) + " of " +
                                           x.shape().text() + "; got " + text_of(size));
}

}  // namespace

std::span<const Composite> convolution_composites() {
  using K = AttributeKind;
  static const Composite rows[] = {
      {Op::conv,
       {{"axes", K::integers}, {"stride", K::integers}, {"dilation", K::integers}, {"low", K::integers},
        {"high", K::integers}, {"groups", K::integer}},
       require_conv, conv_body},
  };
  return rows;
}

Value conv(Value x, Value weight, Value bias, const ConvOptions& options) {
  require_first(Op::conv, x);
  const ConvOptions o = completed(options, x.rank(), "conv");
  const Attributes attributes{{"axes", o.axes}, {"stride", o.stride}, {"dilation", o.dilation},
                              {"low", o.low},   {"high", o.high},     {"groups", o.groups}};
  return bias ? append(Op::conv, {x, weight, bias}, attributes) : append(Op::conv, {x, weight}, attributes);
}

Value overlap_add(Value x, int axis, std::int64_t length, std::int64_t stride, std::int64_t dilation) {
  const int taps = x.rank() - 2;
  if (taps < 1 || axis < 0 || axis >= taps || stride < 1 || dilation < 1 || length < 0)
    throw Error(ErrorKind::shape, "overlap_add", "takes windows [..., N, ..., size, C]; got " + x.shape().text());
  // Positions in blocks of `stride`: a run of neighboring taps in the same block is added at once. All terms are views
  // of the padded windows, if each run fills its block.
  const std::int64_t N = x.shape()[axis], size = x.shape()[taps], reach = (size - 1) * dilation / stride;
  const std::int64_t run = dilation == 1 ? stride : 1, blocks = N + reach;
  const Value padded = extended(x, axis, reach, reach);
  Ints order(x.rank());  // the taps come behind the windows
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin() + axis + 1, order.begin() + taps, order.begin() + taps + 1);
  Value sum;
  for (std::int64_t tap = 0; tap < size; tap += run) {
    const std::int64_t n = std::min(run, size - tap), block = tap * dilation / stride, at = tap * dilation % stride;
    const Value part = slice(slice(padded, axis, reach - block, blocks), taps, tap, n);
    const Value placed = extended(transpose(part, order), axis + 1, at, stride - at - n);
    sum = sum ? sum + placed : placed;
  }
  Shape shape = x.shape().removed(taps);
  sum = reshape(sum, shape.with(axis, blocks * stride));
  return extended(sum, axis, 0, length - blocks * stride);
}

Value conv_transpose(Value x, Value weight, Value bias, const ConvOptions& options) {
  require_first(Op::conv, x);
  const ConvOptions o = completed(options, x.rank(), "conv_transpose");
  const int n_axes = static_cast<int>(o.axes.size()), rank = x.rank();
  const Shape& w = weight.shape();
  const std::int64_t C = rank > 0 ? x.shape()[rank - 1] : 0, G = o.groups;
  if (n_axes < 1 || rank + n_axes > Shape::k_max_rank || w.rank() != n_axes + 2 || w[0] != C || G < 1 || C % G != 0)
    throw Error(ErrorKind::shape, "conv_transpose",
                "takes x [..., N..., C] and weight [C, K..., O / groups] with C a multiple of groups; got " +
                    x.shape().text() + " and " + w.text());
  const std::int64_t O = w[w.rank() - 1], taps = w.elements() / std::max<std::int64_t>(C * O, 1);
  const std::int64_t rows = x.shape().elements() / std::max<std::int64_t>(C, 1);
  // [G, rows, C / G] x [G, C / G, K O] -> [rows, K, G O]
  const Value by_group = transpose(reshape(x, {rows, G, C / G}), {1, 0, 2});
  const Value columns = matmul(by_group, reshape(weight, {G, C / G, taps * O}));
  Ints dims(x.shape().begin(), x.shape().end() - 1);
  dims.insert(dims.end(), w.begin() + 1, w.end() - 1);
  dims.push_back(G * O);
  Value y = reshape(transpose(reshape(columns, {G, rows, taps, O}), {1, 2, 0, 3}), Shape(dims));
  for (std::size_t i = o.axes.size(); i-- > 0;) {
    const int axis = static_cast<int>(o.axes[i]);
    const std::int64_t length = (y.shape()[axis] - 1) * o.stride[i] + (y.shape()[y.rank() - 2] - 1) * o.dilation[i] + 1;
    y = extended(overlap_add(y, axis, std::max<std::int64_t>(length, 0), o.stride[i], o.dilation[i]), axis, -o.low[i],
                 -o.high[i]);
  }
  return bias ? y + bias : y;
}

Value max_pool(Value x, const Ints& size, const ConvOptions& options) {
  const ConvOptions o = completed(options, x.rank(), "max_pool");
  require_pool(x, size, o, "max_pool");
  const double lowest = is_float(x.dtype()) ? -std::numeric_limits<double>::infinity() : INT32_MIN;
  return pooled(windows_of(x, o, size, lowest), x.rank(), product_of(size), maximum);
}

Value average_pool(Value x, const Ints& size, const ConvOptions& options, bool counts_padding) {
  ConvOptions o = completed(options, x.rank(), "average_pool");
  require_pool(x, size, o, "average_pool");
  const Value sum = pooled(windows_of(x, o, size), x.rank(), product_of(size), add);
  const bool is_padded = std::ranges::any_of(o.low, std::identity()) || std::ranges::any_of(o.high, std::identity());
  if (counts_padding || !is_padded) return sum / static_cast<double>(product_of(size));
  const Value ones = filled(x.graph(), {x.dtype(), x.shape().with(x.rank() - 1, 1)}, 1);
  return sum / pooled(windows_of(ones, o, size), x.rank(), product_of(size), add);
}

}  // namespace unroll
