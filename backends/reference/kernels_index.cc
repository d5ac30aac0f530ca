// SPDX-License-Identifier: Apache-2.0
// Ops that gather or scatter rows by index, and ops that draw random numbers by index.
#include <algorithm>
#include <numeric>

#include "backends/reference/kernels.h"
#include "core/support/philox.h"
#include "unroll/support/error.h"

namespace unroll::reference {

namespace {

std::int64_t row_size(const Shape& shape) {
  std::int64_t size = 1;
  for (int axis = 1; axis < shape.rank(); ++axis) size *= shape[axis];
  return size;
}

// table [N, ...], indices [...]: an index out of range reads zeros.
void gather(const Call& call) {
  const View &table = call.inputs[0], &indices = call.inputs[1], &out = call.outputs[0];
  const std::int64_t rows = table.type.shape[0], size = row_size(table.type.shape);
  for_dtype(out.type.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t i = 0; i < indices.elements(); ++i) {
      const std::int32_t index = indices.as<const std::int32_t>()[i];
      T* to = out.as<T>() + i * size;
      if (index < 0 || index >= rows) std::fill_n(to, size, T{});
      else std::copy_n(table.as<const T>() + index * size, size, to);
    }
  });
}

// indices [...], updates [..., ...]: an index out of range adds nothing.
template <class T, class Sum>
void add_rows(const Call& call) {
  const View &indices = call.inputs[0], &updates = call.inputs[1], &out = call.outputs[0];
  const std::int64_t rows = out.type.shape[0], size = row_size(out.type.shape);
  std::vector<Sum> sums(out.elements());
  for (std::int64_t i = 0; i < indices.elements(); ++i) {
    const std::int32_t index = indices.as<const std::int32_t>()[i];
    if (index < 0 || index >= rows) continue;
    for (std::int64_t j = 0; j < size; ++j)
      sums[index * size + j] += updates.as<const T>()[i * size + j];
  }
  std::transform(sums.begin(), sums.end(), out.as<T>(), [](Sum sum) { return static_cast<T>(sum); });
}

void scatter_add(const Call& call) {
  switch (call.outputs[0].type.dtype) {
    case DType::f32: return add_rows<float, double>(call);
    case DType::f64: return add_rows<double, double>(call);
    case DType::i32: return add_rows<std::int32_t, std::int64_t>(call);
    default: throw Error(ErrorKind::internal, "scatter_add", "no kernel for " + call.outputs[0].type.text());
  }
}

// Lengths i32 [B], clamped to 0 .. steps: the batch order by length, and the places of the live rows.
void pack_lengths(const Call& call) {
  const std::int64_t batch = call.inputs[0].elements(), steps = call.node.attributes.get<std::int64_t>("steps");
  const auto out = [&](std::size_t k) { return call.outputs[k].as<std::int32_t>(); };
  const auto length = [&](std::int32_t b) {
    return std::clamp<std::int64_t>(call.inputs[0].as<const std::int32_t>()[b], 0, steps);
  };
  std::int32_t *batch_sizes = out(0), *order = out(1), *rank = out(2), *pack = out(3), *unpack = out(4);
  std::iota(order, order + batch, 0);
  std::stable_sort(order, order + batch, [&](std::int32_t a, std::int32_t b) { return length(a) > length(b); });
  for (std::int32_t r = 0; r < batch; ++r) rank[order[r]] = r;
  std::fill_n(pack, steps * batch, -1);
  std::fill_n(unpack, steps * batch, -1);
  std::int32_t row = 0;
  for (std::int64_t t = 0; t < steps; ++t) {
    const std::int32_t before = row;
    for (std::int32_t r = 0; r < batch && length(order[r]) > t; ++r, ++row) {
      const std::int64_t place = t * batch + order[r];
      pack[row] = static_cast<std::int32_t>(place);
      unpack[place] = row;
    }
    batch_sizes[t] = row - before;
  }
  *out(5) = row;
}

// Number step * elements + e of RNG stream `rng_stream` with this key, see core/support/philox.h.
void random_uniform(const Call& call) {
  const View& out = call.outputs[0];
  const auto* key = call.inputs[0].as<const std::int32_t>();
  const auto word = [&](int i) { return static_cast<std::uint32_t>(key[i]); };
  const auto rng_stream = static_cast<std::uint32_t>(call.node.attributes.get<std::int64_t>("rng_stream"));
  const std::int64_t step = call.inputs.size() > 1 ? call.inputs[1].as<const std::int32_t>()[0] : 0;
  for (std::int64_t e = 0; e < out.elements(); ++e) {
    const auto index = static_cast<std::uint64_t>(step * out.elements() + e);
    const std::uint64_t block = index / 4;
    const PhiloxBlock words =
        philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), rng_stream, word(2)},
               {word(0), word(1)});
    out.as<float>()[e] = philox_uniform(words[index % 4]);
  }
}

constexpr KernelRow k_index_rows[] = {
    {Op::gather, gather},
    {Op::scatter_add, scatter_add},
    {Op::pack_lengths, pack_lengths},
    {Op::random_uniform, random_uniform},
};

}  // namespace

std::span<const KernelRow> index_kernels() { return k_index_rows; }

}  // namespace unroll::reference
