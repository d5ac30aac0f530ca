// SPDX-License-Identifier: Apache-2.0
// Operators that move elements: shapes, slices, concatenation. Shapes and axes are known at build time.
#include <algorithm>
#include <numeric>

#include "core/support/checked_size.h"
#include "frontends/onnx/importer.h"

namespace unroll::onnx {
namespace {

std::vector<Value> shape_of(Call& call) {
  const Value x = call.in(0);
  const auto bound = [&](const char* name, std::int64_t fallback) {
    const std::int64_t at = call.integer(name, fallback);
    return std::clamp<std::int64_t>(at < 0 ? at + x.rank() : at, 0, x.rank());
  };
  const std::int64_t start = bound("start", 0), end = std::max(start, bound("end", x.rank()));
  const auto dims = x.shape().dims().subspan(start, end - start);
  std::vector<std::int32_t> list;
  for (const std::int64_t d : dims) list.push_back(call.narrow(d));
  return {constant(call.graph(), Tensor::from<std::int32_t>({static_cast<std::int64_t>(list.size())}, list))};
}

std::vector<Value> size_of(Call& call) {
  return {scalar(call.graph(), DType::i32, static_cast<double>(call.narrow(call.in(0).shape().elements())))};
}

std::vector<Value> reshape_to(Call& call) {
  const Value x = call.in(0);
  Ints dims = call.ints(1);
  const bool zero_is_zero = call.integer("allowzero", 0) != 0;
  std::int64_t known = 1, open = -1;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && !zero_is_zero) {
      if (static_cast<int>(i) >= x.rank()) call.refuse("dimension 0 of the target shape has no counterpart");
      dims[i] = x.shape()[static_cast<int>(i)];
    }
    if (dims[i] == -1) {
      if (open >= 0) call.refuse("the target shape has -1 twice");
      open = static_cast<std::int64_t>(i);
    } else if (dims[i] < 0 || __builtin_mul_overflow(known, dims[i], &known)) {
      call.refuse("dimension " + std::to_string(dims[i]) + " of the target shape is invalid");
    }
  }
  if (open >= 0) {
    if (known == 0 || x.shape().elements() % known != 0)
      call.refuse("the elements of " + x.shape().text() + " do not fill the target shape");
    dims[open] = x.shape().elements() / known;
  }
  return {reshape(x, Shape(dims))};
}

std::vector<Value> flatten(Call& call) {
  const Value x = call.in(0);
  const std::int64_t axis = call.integer("axis", 1);
  if (axis < -x.rank() || axis > x.rank()) call.refuse("axis " + std::to_string(axis) + " is outside of the rank");
  std::int64_t rows = 1;
  for (int i = 0; i < (axis < 0 ? axis + x.rank() : axis); ++i) rows *= x.shape()[i];
  std::int64_t columns = 1;
  for (int i = static_cast<int>(axis < 0 ? axis + x.rank() : axis); i < x.rank(); ++i) columns *= x.shape()[i];
  return {reshape(x, {rows, columns})};
}

std::vector<Value> squeeze(Call& call) {
  const Value x = call.in(0);
  std::vector<bool> dropped(x.rank());
  const std::optional<Ints> axes = call.axes(1);
  for (int i = 0; !axes && i < x.rank(); ++i) dropped[i] = x.shape()[i] == 1;
  for (const std::int64_t axis : axes.value_or(Ints{}))
    dropped[call.axis(axis, x.rank())] = true;
  Ints dims;
  for (int i = 0; i < x.rank(); ++i) {
    if (!dropped[i]) {
      dims.push_back(x.shape()[i]);
    } else if (x.shape()[i] != 1) {
      call.refuse("axis " + std::to_string(i) + " of " + x.shape().text() + " is not 1");
    }
  }
  return {reshape(x, Shape(dims))};
}

std::vector<Value> unsqueeze(Call& call) {
  const Value x = call.in(0);
  const Ints axes = call.axes(1).value_or(Ints{});
  const int rank = x.rank() + static_cast<int>(axes.size());
  if (rank > Shape::k_max_rank) call.unsupported("more than 6 dimensions");
  std::vector<bool> added(rank);
  for (const std::int64_t axis : axes) {
    auto at = added.begin() + call.axis(axis, rank);
    if (*at) call.refuse("axis " + std::to_string(axis) + " is given twice");
    *at = true;
  }
  Ints dims;
  int from = 0;
  for (const bool is_added : added) dims.push_back(is_added ? 1 : x.shape()[from++]);
  return {reshape(x, Shape(dims))};
}

std::vector<Value> transpose_to(Call& call) {
  const Value x = call.in(0);
  Ints permutation(x.rank());
  std::iota(permutation.rbegin(), permutation.rend(), 0);
  return {transpose(x, call.list("perm").value_or(permutation))};
}

std::vector<Value> expand(Call& call) {
  const Value x = call.in(0);
  const Ints dims = call.ints(1);
  return {broadcast(x, broadcast_shapes(x.shape(), Shape(dims), "Expand"))};
}

std::vector<Value> concatenate(Call& call) {
  const std::vector<Value> parts = call.all_inputs();
  if (parts.empty()) call.refuse("has no inputs");
  return {concat(parts, call.axis(call.integer("axis", 0), parts[0].rank()))};
}

std::vector<Value> split_up(Call& call) {
  const Value x = call.in(0);
  const int axis = call.axis(call.integer("axis", 0), x.rank());
  const std::int64_t size = x.shape()[axis];
  const auto n = static_cast<std::int64_t>(call.n_outputs());
  std::optional<Ints> sizes = call.list("split");
  if (call.has(1)) sizes = call.ints(1);
  if (call.opset() >= 18 && !sizes && call.integer("num_outputs", n) != n) call.refuse("num_outputs differs");
  if (!sizes) {
    const std::int64_t each = (size + n - 1) / n;  // the last part may be smaller
    sizes.emplace();
    for (std::int64_t i = 0; i < n; ++i) sizes->push_back(std::clamp<std::int64_t>(size - i * each, 0, each));
  }
  if (static_cast<std::int64_t>(sizes->size()) != n) call.refuse("the number of parts differs from the outputs");
  std::vector<Value> parts;
  std::int64_t start = 0;
  for (const std::int64_t part : *sizes) {
    if (part < 0 || part > size - start) call.refuse("the parts do not fill axis " + std::to_string(axis));
    parts.push_back(slice(x, axis, start, part));
    start += part;
  }
  if (start != size) call.refuse("the parts do not fill axis " + std::to_string(axis));
  return parts;
}

Value slice_axis(Value x, int axis, std::int64_t start, std::int64_t end, std::int64_t step) {
  const std::int64_t size = x.shape()[axis];
  const bool is_back = step < 0;
  const auto bound = [&](std::int64_t at) {
    if (at < 0) at += size;
    return std::clamp<std::int64_t>(at, is_back ? -1 : 0, is_back ? size - 1 : size);
  };
  start = start < -size ? (is_back ? -1 : 0) : bound(start);
  end = end < -size ? (is_back ? -1 : 0) : bound(end);
  const std::int64_t distance = is_back ? start - end : end - start;
  const std::int64_t stride = is_back ? -step : step;
  const std::int64_t n = distance <= 0 ? 0 : (distance + stride - 1) / stride;
  if (step == 1 || n == 0) return slice(x, axis, n == 0 ? 0 : start, n);
  return strided(x, axis, start, step, n);
}

std::vector<Value> slice_to(Call& call) {
  Value x = call.in(0);
  const bool by_input = call.opset() >= 10;
  const Ints starts = by_input ? call.ints(1) : call.list("starts").value_or(Ints{});
  const Ints ends = by_input ? call.ints(2) : call.list("ends").value_or(Ints{});
  Ints axes(starts.size()), steps(starts.size(), 1);
  std::iota(axes.begin(), axes.end(), 0);
  if (by_input ? call.has(3) : call.attribute("axes") != nullptr) axes = by_input ? call.ints(3) : *call.list("axes");
  if (by_input && call.has(4)) steps = call.ints(4);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    call.refuse("starts, ends, axes and steps differ in length");
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (steps[i] == 0) call.refuse("a step of 0");
    x = slice_axis(x, call.axis(axes[i], x.rank()), starts[i], ends[i], steps[i]);
  }
  return {x};
}

std::vector<Value> tile(Call& call) {
  Value x = call.in(0);
  const Ints repeats = call.ints(1);
  if (static_cast<int>(repeats.size()) != x.rank()) call.refuse("repeats has another length than the rank");
  for (int i = 0; i < x.rank(); ++i) {
    const std::int64_t n = repeats[i];
    if (n < 0) call.refuse("a negative repeat");
    if (n == 1) continue;
    if (n == 0) {
      x = slice(x, i, 0, 0);
      continue;
    }
    call.importer.count_nodes(n);
    x = concat(std::vector<Value>(n, x), i);
  }
  return {x};
}

constexpr OperatorRow k_movement_rows[] = {
    {"Concat", 4, concatenate},
    {"Expand", 8, expand},
    {"Flatten", 1, flatten},
    {"Reshape", 5, reshape_to},
    {"Shape", 1, shape_of},
    {"Size", 1, size_of},
    {"Slice", 1, slice_to},
    {"Split", 2, split_up},
    {"Squeeze", 1, squeeze},
    {"Tile", 6, tile},
    {"Transpose", 1, transpose_to},
    {"Unsqueeze", 1, unsqueeze},
};

}  // namespace

Value take(Value x, int axis, Value at) {
  Ints order(x.rank());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[0], order[axis]);
  return transpose(gather(transpose(x, order), at), order);
}

Value take(Value x, int axis, const std::vector<std::int32_t>& at) {
  const Shape shape{static_cast<std::int64_t>(at.size())};
  return take(x, axis, constant(x.graph(), Tensor::from<std::int32_t>(shape, at)));
}

// Neither form has a constant with an element for each position, so the graph is the same for every n.
Value strided(Value x, int axis, std::int64_t from, std::int64_t step, std::int64_t n) {
  const bool is_last = axis == x.rank() - 1;
  if (step < 0 || n == 0 || x.rank() + 1 + is_last > Shape::k_max_rank) {
    const Value index = iota(x.graph(), {n}, 0);
    return take(x, axis, index * static_cast<double>(step) + static_cast<double>(from));
  }
  const Shape shape = x.shape().with(axis, n);
  const Value used = slice(x, axis, from, (n - 1) * step + 1);
  return reshape(windows(is_last ? reshape(used, used.shape().inserted(axis + 1, 1)) : used, axis, 1, step), shape);
}

std::span<const OperatorRow> movement_rows() { return k_movement_rows; }

}  // namespace unroll::onnx
