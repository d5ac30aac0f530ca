// SPDX-License-Identifier: Apache-2.0
// Ops that move elements without computing, and sources that fill an array from attributes.
#include <cstring>

#include "backends/reference/kernels.h"

namespace unroll::reference {

namespace {

// out[i] = in[from[i]]
void copy_from(const View& in, const View& out, std::span<const std::int64_t> from) {
  for_dtype(out.type.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (std::size_t i = 0; i < from.size(); ++i) out.as<T>()[i] = in.as<const T>()[from[i]];
  });
}

// out[to[i]] = in[i]
void copy_to(const View& in, const View& out, std::span<const std::int64_t> to) {
  for_dtype(out.type.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (std::size_t i = 0; i < to.size(); ++i) out.as<T>()[to[i]] = in.as<const T>()[i];
  });
}

void clear(const View& out) {
  if (out.elements() > 0) std::memset(out.data, 0, out.type.bytes());
}

int axis_of(const Call& call) { return static_cast<int>(call.node.attributes.get<std::int64_t>("axis")); }

void reshape(const Call& call) {
  if (call.outputs[0].elements() > 0)
    std::memcpy(call.outputs[0].data, call.inputs[0].data, call.outputs[0].type.bytes());
}

void transpose(const Call& call) {
  // axis j of the result is axis permutation[j] of x
  const View &x = call.inputs[0], &out = call.outputs[0];
  const auto dense = dense_strides(x.type.shape);
  std::vector<std::int64_t> strides;
  for (const std::int64_t axis : call.node.attributes.get<Ints>("permutation"))
    strides.push_back(dense[axis]);
  copy_from(x, out, offsets_of(out.type.shape, strides));
}

void slice(const Call& call) {
  const View &x = call.inputs[0], &out = call.outputs[0];
  const auto strides = dense_strides(x.type.shape);
  const std::int64_t start = call.node.attributes.get<std::int64_t>("start");
  copy_from(x, out, offsets_of(out.type.shape, strides, start * strides[axis_of(call)]));
}

void pad(const Call& call) {
  const View &x = call.inputs[0], &out = call.outputs[0];
  const auto strides = dense_strides(out.type.shape);
  const std::int64_t low = call.node.attributes.get<std::int64_t>("low");
  clear(out);
  copy_to(x, out, offsets_of(x.type.shape, strides, low * strides[axis_of(call)]));
}

void concat(const Call& call) {
  const View& out = call.outputs[0];
  const auto strides = dense_strides(out.type.shape);
  const int axis = axis_of(call);
  std::int64_t at = 0;
  for (const View& part : call.inputs) {
    copy_to(part, out, offsets_of(part.type.shape, strides, at * strides[axis]));
    at += part.type.shape[axis];
  }
}

void broadcast(const Call& call) {
  const View &x = call.inputs[0], &out = call.outputs[0];
  copy_from(x, out, offsets_of(out.type.shape, broadcast_strides(x.type.shape, out.type.shape)));
}

void windows(const Call& call) {
  // position (n, i) of the result is position n * stride + i * dilation of x
  const View &x = call.inputs[0], &out = call.outputs[0];
  auto strides = dense_strides(x.type.shape);
  const std::int64_t step = strides[axis_of(call)];
  strides[axis_of(call)] = step * call.node.attributes.get<std::int64_t>("stride");
  strides.insert(strides.end() - 1, step * call.node.attributes.get<std::int64_t>("dilation"));
  copy_from(x, out, offsets_of(out.type.shape, strides));
}

void iota(const Call& call) {
  const View& out = call.outputs[0];
  std::vector<std::int64_t> strides(out.type.shape.rank(), 0);
  strides[axis_of(call)] = 1;
  const auto index = offsets_of(out.type.shape, strides);
  for (std::size_t i = 0; i < index.size(); ++i) out.as<std::int32_t>()[i] = static_cast<std::int32_t>(index[i]);
}

constexpr KernelRow k_move_rows[] = {
    {Op::iota, iota}, {Op::reshape, reshape}, {Op::transpose, transpose}, {Op::slice, slice},
    {Op::pad, pad},   {Op::concat, concat},   {Op::broadcast, broadcast},
    {Op::windows, windows},
};

}  // namespace

std::span<const KernelRow> move_kernels() { return k_move_rows; }

}  // namespace unroll::reference
