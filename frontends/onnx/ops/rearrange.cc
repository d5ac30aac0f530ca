// SPDX-License-Identifier: Apache-2.0
// Padding, triangles, and blocks of pixels.
#include <algorithm>
#include <numeric>

#include "frontends/onnx/importer.h"

namespace unroll::onnx {
namespace {

// Returns the element of an axis of n that position `at` shows; at < 0 and at >= n are padding.
std::int64_t padded_from(const std::string& mode, std::int64_t at, std::int64_t n) {
  const auto modulo = [](std::int64_t a, std::int64_t b) { return (a % b + b) % b; };
  if (mode == "edge") return std::clamp<std::int64_t>(at, 0, n - 1);
  if (mode == "wrap") return modulo(at, n);
  if (n == 1) return 0;  // reflect
  const std::int64_t period = 2 * (n - 1), place = modulo(at, period);
  return place < n ? place : period - place;
}

Value pad_by_copies(Call& call, Value x, const std::string& mode, int axis, std::int64_t low, std::int64_t high) {
  const std::int64_t n = x.shape()[axis];
  if (low == 0 && high == 0) return x;
  if (n == 0) call.refuse("mode " + mode + " needs an element on axis " + std::to_string(axis));
  call.importer.count_elements(low + high);
  const auto copies = [&](std::int64_t from, std::int64_t to) {
    std::vector<std::int32_t> at;
    for (std::int64_t i = from; i < to; ++i) at.push_back(call.narrow(padded_from(mode, i, n)));
    return take(x, axis, at);
  };
  std::vector<Value> parts{x};
  if (low > 0) parts.insert(parts.begin(), copies(-low, 0));
  if (high > 0) parts.push_back(copies(n, n + high));
  return concat(parts, axis);
}

// Negative pads remove elements, before others are added.
std::vector<Value> pad_with(Call& call) {
  const Value x = call.in(0);
  const std::string mode = call.text("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    call.refuse("mode '" + mode + "' is unknown");
  const Ints pads = call.opset() >= 11 ? call.ints(1) : call.list("pads").value_or(Ints{});
  Ints axes(x.rank());
  std::iota(axes.begin(), axes.end(), 0);
  if (call.has(3)) axes = call.ints(3);
  if (pads.size() != 2 * axes.size()) call.refuse("pads has another length than twice the axes");
  const Value value = call.opset() < 11 ? scalar_like(x, call.number("value", 0)) : call.in_or_none(2);
  Value padded = x, inside = filled(call.graph(), {DType::b8, x.shape()}, 1);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = call.axis(axes[i], x.rank());
    const std::int64_t low = pads[i], high = pads[i + axes.size()];
    const std::int64_t cut_low = std::max<std::int64_t>(-low, 0), cut_high = std::max<std::int64_t>(-high, 0);
    const std::int64_t add_low = std::max<std::int64_t>(low, 0), add_high = std::max<std::int64_t>(high, 0);
    const std::int64_t kept = padded.shape()[axis] - cut_low - cut_high;
    if (kept < 0) call.refuse("pads removes more than axis " + std::to_string(axis) + " has");
    const auto cut = [&](Value v) { return kept == v.shape()[axis] ? v : slice(v, axis, cut_low, kept); };
    if (mode != "constant") {
      padded = pad_by_copies(call, cut(padded), mode, axis, add_low, add_high);
      continue;
    }
    padded = pad(cut(padded), axis, add_low, add_high);
    inside = pad(cut(inside), axis, add_low, add_high);
  }
  return {value && mode == "constant" ? select(inside, padded, reshape(value, Shape{})) : padded};
}

// Column minus row of the last two axes.
Value diagonal(Graph& graph, const Shape& shape) {
  const Shape matrix(shape.dims().last(2));
  return sub(iota(graph, matrix, 1), iota(graph, matrix, 0));
}

std::vector<Value> trilu(Call& call) {
  const Value x = call.in(0);
  if (x.rank() < 2) call.refuse("needs a matrix");
  const Value k = call.has(1) ? reshape(call.in(1), Shape{}) : scalar(call.graph(), DType::i32, 0);
  const Value at = diagonal(call.graph(), x.shape());
  const Value kept = call.integer("upper", 1) != 0 ? greater_equal(at, k) : less_equal(at, k);
  return {select(kept, x, scalar_like(x, 0))};
}

std::vector<Value> eye_like(Call& call) {
  const Value x = call.in(0);
  if (x.rank() != 2) call.refuse("needs a matrix");
  const std::int64_t code = call.integer("dtype", 0);
  const ElementType* type = find_element_type(code);
  if (code != 0 && !type) call.unsupported("elements of " + element_type_text(code));
  const Value is_one = equal(diagonal(call.graph(), x.shape()),
                             scalar(call.graph(), DType::i32, call.narrow(call.integer("k", 0))));
  return {cast(is_one, type ? type->dtype : x.dtype())};
}

constexpr std::int64_t k_largest_block = 1024;

std::int64_t block_of(Call& call, Value x) {
  if (x.rank() != 4) call.refuse("x is " + x.shape().text() + ", not [N,C,H,W]");
  const std::int64_t block = call.integer("blocksize", 0);
  if (block < 1 || block > k_largest_block) call.refuse("blocksize " + std::to_string(block) + " is not in 1 to 1024");
  return block;
}

std::vector<Value> depth_to_space(Call& call) {
  const Value x = call.in(0);
  const std::int64_t b = block_of(call, x);
  const std::int64_t n = x.shape()[0], c = x.shape()[1], h = x.shape()[2], w = x.shape()[3];
  if (c % (b * b) != 0) call.refuse("blocksize does not divide the channels");
  const std::string mode = call.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") call.refuse("mode '" + mode + "' is unknown");
  const std::int64_t depth = c / (b * b);
  const Value parts = mode == "DCR" ? transpose(reshape(x, {n, b, b, depth, h, w}), {0, 3, 4, 1, 5, 2})
                                    : transpose(reshape(x, {n, depth, b, b, h, w}), {0, 1, 4, 2, 5, 3});
  return {reshape(parts, {n, depth, h * b, w * b})};
}

std::vector<Value> space_to_depth(Call& call) {
  const Value x = call.in(0);
  const std::int64_t b = block_of(call, x);
  const std::int64_t n = x.shape()[0], c = x.shape()[1], h = x.shape()[2], w = x.shape()[3];
  if (h % b != 0 || w % b != 0) call.refuse("blocksize does not divide the height and width");
  const Value parts = transpose(reshape(x, {n, c, h / b, b, w / b, b}), {0, 3, 5, 1, 2, 4});
  return {reshape(parts, {n, c * b * b, h / b, w / b})};
}

constexpr OperatorRow k_rearrange_rows[] = {
    {"DepthToSpace", 1, depth_to_space},
    {"EyeLike", 9, eye_like},
    {"Pad", 2, pad_with},
    {"SpaceToDepth", 1, space_to_depth},
    {"Trilu", 14, trilu},
};

}  // namespace

std::span<const OperatorRow> rearrange_rows() { return k_rearrange_rows; }

}  // namespace unroll::onnx
