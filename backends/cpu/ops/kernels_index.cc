// SPDX-License-Identifier: Apache-2.0
// Gathers and scatters rows, and creates values from indices.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/philox.h"

namespace unroll::cpu {

namespace {

using Index = std::int64_t;

struct IndexBlock {
  Range rows, columns;
};
// Wide rows are divided by columns, so that every worker does the same additions; narrow ones by destination.
IndexBlock scatter_share(Index rows, Index row, const Worker& worker) {
  constexpr Index k_grain = 16;
  if (row >= k_grain * worker.count) return {{0, rows}, worker.share(row, k_grain)};
  return {worker.share(rows), {0, row}};
}

template <class T>
void scatter_add(const std::int32_t* indices, Index n_indices, Index rows, Index row, const T* updates, T* out,
                 const Worker& worker) {
  const IndexBlock mine = scatter_share(rows, row, worker);
  const Index n = mine.columns.end - mine.columns.begin;
  if (n == 0) return;
  for (Index r = mine.rows.begin; r < mine.rows.end; ++r) std::fill_n(out + r * row + mine.columns.begin, n, T{0});
  for (Index i = 0; i < n_indices; ++i) {
    if (indices[i] < mine.rows.begin || indices[i] >= mine.rows.end) continue;
    T* to = out + indices[i] * row + mine.columns.begin;
    const T* from = updates + i * row + mine.columns.begin;
    for (Index j = 0; j < n; ++j) to[j] += from[j];
  }
}

}  // namespace

void run_gather(const std::int32_t* indices, Index n_indices, Index table_rows, Index row_bytes, const void* table,
                void* out, const Worker& worker) {
  const Range mine = worker.share(n_indices);
  const std::size_t size = row_bytes;
  if (size == 0) return;
  for (Index i = mine.begin; i < mine.end; ++i) {
    std::byte* to = static_cast<std::byte*>(out) + i * row_bytes;
    if (indices[i] < 0 || indices[i] >= table_rows) std::memset(to, 0, size);
    else std::memcpy(to, static_cast<const std::byte*>(table) + indices[i] * row_bytes, size);
  }
}

void run_scatter_add(DType dtype, const std::int32_t* indices, Index n_indices, Index rows, Index row,
                     const void* updates, void* out, const Worker& worker) {
  if (dtype == DType::f64)
    scatter_add(indices, n_indices, rows, row, static_cast<const double*>(updates), static_cast<double*>(out), worker);
  else
    scatter_add(indices, n_indices, rows, row, static_cast<const float*>(updates), static_cast<float*>(out), worker);
}

// Counting sort. One worker does it, because it is small compared with a single step of any loop.
void run_pack_lengths(const std::int32_t* lengths, Index batch, Index steps, const PackedPlaces& to,
                      const Worker& worker) {
  if (worker.index != 0) return;
  *to.rows = 0;
  std::fill_n(to.batch_sizes, steps, 0);
  if (batch == 0) return;
  const auto length = [&](Index b) { return std::clamp<Index>(lengths[b], 0, steps); };
  for (Index b = 0; b < batch; ++b)
    if (length(b) > 0) ++to.batch_sizes[length(b) - 1];
  for (Index t = steps - 1; t-- > 0;) to.batch_sizes[t] += to.batch_sizes[t + 1];
  // Rank of the next row of each length: the number of longer ones. Kept in memory that packed places overwrite later.
  std::int32_t* next = to.pack;
  for (Index t = 0; t < steps; ++t) next[t] = t + 1 < steps ? to.batch_sizes[t + 1] : 0;
  std::int32_t n_empty = steps > 0 ? to.batch_sizes[0] : 0;
  for (Index b = 0; b < batch; ++b) {
    to.rank[b] = length(b) > 0 ? next[length(b) - 1]++ : n_empty++;
    to.order[to.rank[b]] = static_cast<std::int32_t>(b);
  }
  std::int32_t row = 0;
  std::fill_n(to.unpack, steps * batch, -1);
  for (Index t = 0; t < steps; ++t)
    for (std::int32_t r = 0; r < to.batch_sizes[t]; ++r, ++row) {
      const Index place = t * batch + to.order[r];
      to.pack[row] = static_cast<std::int32_t>(place);
      to.unpack[place] = row;
    }
  std::fill(to.pack + row, to.pack + steps * batch, -1);
  *to.rows = row;
}

void run_iota(const Shape& shape, int axis, std::int32_t* out, const Worker& worker) {
  Index inner = 1;
  for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  const Index size = shape[axis];
  const Range mine = worker.share(shape.elements(), 16);
  if (mine.empty()) return;
  Index value = mine.begin / inner % size, left = inner - mine.begin % inner;  // elements left with the same value
  for (Index e = mine.begin; e < mine.end;) {
    const Index n = std::min(inner == 1 ? size - value : left, mine.end - e);
    if (inner == 1) std::iota(out + e, out + e + n, static_cast<std::int32_t>(value));
    else std::fill_n(out + e, n, static_cast<std::int32_t>(value));
    e += n;
    left = inner;
    value = inner == 1 || value + 1 == size ? 0 : value + 1;
  }
}

void run_random_uniform(const std::int32_t* key, const std::int32_t* step, Index rng_stream, Index elements, float* out,
                        const Worker& worker) {
  const std::uint32_t words[] = {static_cast<std::uint32_t>(key[0]), static_cast<std::uint32_t>(key[1]),
                                 static_cast<std::uint32_t>(key[2])};
  const Range mine = worker.share(elements, 64);
  if (mine.empty()) return;
  auto first = static_cast<std::uint64_t>(step ? *step * elements : 0) + static_cast<std::uint64_t>(mine.begin);
  Index left = mine.end - mine.begin;
  float* to = out + mine.begin;
  // A draw may begin within a block.
  if (const auto skip = static_cast<Index>(first % 4); skip > 0) {
    float block[4];
    philox_uniforms(words, static_cast<std::uint32_t>(rng_stream), first / 4, 4, block);
    const Index n = std::min(left, 4 - skip);
    to = std::copy_n(block + skip, n, to);
    left -= n;
    first += static_cast<std::uint64_t>(n);
  }
  philox_uniforms(words, static_cast<std::uint32_t>(rng_stream), first / 4, left, to);
}

}  // namespace unroll::cpu
