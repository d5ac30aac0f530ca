// SPDX-License-Identifier: Apache-2.0
// Runs a program tile by tile: loads operands that are not read in place, calls each step on the tile, stores the
// remaining results.
#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/elementwise.h"
#include "core/support/formats.h"

namespace unroll::cpu {

namespace {

using Index = std::int64_t;

template <class T>
void fill(std::byte* to, const std::byte* value, Index n) {
  T v;
  std::memcpy(&v, value, sizeof(T));
  std::fill_n(reinterpret_cast<T*>(to), n, v);
}
void fill(std::byte* to, const std::byte* value, Index n, int bytes) {
  if (bytes == 4) fill<std::uint32_t>(to, value, n);
  else if (bytes == 2) fill<std::uint16_t>(to, value, n);
  else if (bytes == 8) fill<std::uint64_t>(to, value, n);
  else fill<std::uint8_t>(to, value, n);
}

template <class T>
void copy_line(std::byte* to, Index to_stride, const std::byte* from, Index from_stride, Index n) {
  T* t = reinterpret_cast<T*>(to);
  const T* f = reinterpret_cast<const T*>(from);
  for (Index i = 0; i < n; ++i) t[i * to_stride] = f[i * from_stride];
}
void copy_line(std::byte* to, Index to_stride, const std::byte* from, Index from_stride, Index n, int bytes) {
  if (to_stride == 1 && from_stride == 1) std::memcpy(to, from, n * bytes);
  else if (to_stride == 1 && from_stride == 0) fill(to, from, n, bytes);
  else if (bytes == 4) copy_line<std::uint32_t>(to, to_stride, from, from_stride, n);
  else if (bytes == 2) copy_line<std::uint16_t>(to, to_stride, from, from_stride, n);
  else if (bytes == 8) copy_line<std::uint64_t>(to, to_stride, from, from_stride, n);
  else copy_line<std::uint8_t>(to, to_stride, from, from_stride, n);
}

void fill_constant(std::byte* to, DType dtype, double value, Index n) {
  switch (dtype) {
    case DType::f32: std::fill_n(reinterpret_cast<float*>(to), n, static_cast<float>(value)); break;
    case DType::f64: std::fill_n(reinterpret_cast<double*>(to), n, value); break;
    case DType::i32: std::fill_n(reinterpret_cast<std::int32_t*>(to), n, static_cast<std::int32_t>(value)); break;
    case DType::b8: std::fill_n(reinterpret_cast<std::uint8_t*>(to), n, static_cast<std::uint8_t>(value != 0)); break;
    case DType::bf16: std::fill_n(reinterpret_cast<Bf16*>(to), n, to_bf16(value)); break;
    case DType::f16: std::fill_n(reinterpret_cast<F16*>(to), n, to_f16(value)); break;
  }
}

constexpr std::size_t k_memory = 24 * 1024;
constexpr std::size_t k_locations = 1024;

}  // namespace

struct Elementwise::Run {
  const Elementwise& program;
  std::span<const void* const> inputs;
  std::span<void* const> results;
  Index most_columns;  // of the remaining tiles
  alignas(64) std::byte memory[k_memory];
  std::byte* locations[k_locations];

  // Inlined in every unity build: a call costs 1 % of a streamed step.
  [[gnu::always_inline]] Run(const Elementwise& p, std::span<const void* const> in, std::span<void* const> out,
                             Index columns)
      : program(p), inputs(in), results(out), most_columns(columns) {
    for (std::size_t slot = 0; slot < p.n_slots_; ++slot) locations[slot] = memory + slot * p.slot_bytes_;
    for (const Constant& c : p.constants_) fill_constant(locations[c.location], c.dtype, c.value, most_columns);
    for (const Operand& load : p.loads_)
      if (load.access == Access::once) fill(locations[load.location], input(load), most_columns, load.bytes);
  }

  // Steps only read the locations of inputs.
  std::byte* input(const Operand& load) const {
    return const_cast<std::byte*>(static_cast<const std::byte*>(inputs[load.index]));
  }
  std::byte* result(const Operand& store) const { return static_cast<std::byte*>(results[store.index]); }

  // `columns` of each of `rows` consecutive rows of the last but one dimension. Rows are numbered in order over all
  // dimensions but the last.
  struct Block {
    Index row, rows, column, columns;
  };
  Index row_stride(const Operand& o) const {
    return program.rank_ < 2 ? 0 : o.strides[program.rank_ - 2] * o.bytes;
  }
  Index column_stride(const Operand& o) const { return o.strides[program.rank_ - 1]; }
  Index offset(const Operand& o, const Block& block) const {
    Index sum = block.column * column_stride(o), row = block.row;
    for (std::size_t i = program.rank_ - 1; i-- > 0;) {
      sum += (i == 0 ? row : row % program.dims_[i]) * o.strides[i];
      row = i == 0 ? 0 : row / program.dims_[i];
    }
    return sum * o.bytes;
  }

  void fetch(const Operand& load, const Block& block) {
    const std::byte* from = input(load);
    std::byte*& at = locations[load.location];
    if (load.access == Access::once) return;
    from += offset(load, block);
    if (load.access == Access::direct || load.access == Access::repeated) {
      at = const_cast<std::byte*>(from);
      return;
    }
    const Index step = row_stride(load), stride = load.access == Access::splatted ? 0 : column_stride(load);
    for (Index r = 0; r < block.rows; ++r)
      copy_line(at + r * load.tile_row, 1, from + r * step, stride, block.columns, load.bytes);
  }
  void keep(const Operand& store, const Block& block) const {
    if (store.access == Access::direct) return;
    const std::byte* at = locations[store.location];
    std::byte* to = result(store) + offset(store, block);
    const Index step = row_stride(store), stride = column_stride(store);
    for (Index r = 0; r < block.rows; ++r)
      copy_line(to + r * step, stride, at + r * store.tile_row, 1, block.columns, store.bytes);
  }

  void tile(const Block& block) {
    for (const Operand& load : program.loads_) fetch(load, block);
    for (const Operand& store : program.stores_)
      if (store.access == Access::direct) locations[store.location] = result(store) + offset(store, block);
    for (const Step& step : program.steps_)
      step.function({locations[step.dst], locations[step.a], locations[step.b], locations[step.c], step.dst_stride,
                     step.a_stride, step.b_stride, step.c_stride, static_cast<std::size_t>(block.rows),
                     static_cast<std::size_t>(block.columns)});
    for (const Operand& store : program.stores_) keep(store, block);
  }

  // Runs rows [begin, end), in tiles that do not cross the end of the last but one dimension.
  void run_rows(Range rows, Index columns, Index cuts) {
    const Index group = program.rank_ < 3 ? rows.end : program.dims_[program.rank_ - 2];
    for (Index row = rows.begin; row < rows.end;) {
      const Index end = std::min({rows.end, (row / group + 1) * group, row + program.tile_rows_});
      for (Index cut = 0; cut < cuts; ++cut) {
        const Index column = columns * cut / cuts;
        tile({row, end - row, column, columns * (cut + 1) / cuts - column});
      }
      row = end;
    }
  }
};

void Elementwise::run(std::span<const void* const> inputs, std::span<void* const> results, const Worker& worker,
                      const Rows& live) const {
  const std::size_t inner = rank_ - 1;
  Index total = 1;
  for (std::size_t i = 0; i <= inner; ++i) total *= dims_[i];
  total = live.of(total);
  if (total == 0) return;
  const Index columns = rank_ > 1 ? dims_[inner] : total, rows = total / columns;
  const auto ceil_div = [](Index a, Index b) { return (a + b - 1) / b; };
  constexpr Index k_rows_enough = 4;   // per worker, for a balanced division
  constexpr Index k_least_piece = 64;  // columns
  if (worker.count == 1 || rows >= k_rows_enough * worker.count || columns < 2 * k_least_piece) {
    const Range mine = worker.share(rows);
    if (mine.empty()) return;
    Run run(*this, inputs, results, tile_columns_);
    return run.run_rows(mine, columns, ceil_div(columns, tile_columns_));
  }
  // Few rows: workers divide the rows into pieces.
  const Index piece = std::clamp(ceil_div(total, worker.count), std::min(k_least_piece, tile_columns_), tile_columns_);
  const Index cuts = ceil_div(columns, piece);
  const Range mine = worker.share(rows * cuts);
  if (mine.empty()) return;
  Run run(*this, inputs, results, ceil_div(columns, cuts));
  for (Index p = mine.begin; p < mine.end; ++p) {
    const Index column = columns * (p % cuts) / cuts;
    run.tile({p / cuts, 1, column, columns * (p % cuts + 1) / cuts - column});
  }
}

void Elementwise::run_block(std::span<const void* const> inputs, std::span<void* const> results,
                            const cpu::Block& block) const {
  const auto& [rows, columns] = block;
  if (block.empty()) return;
  const Index wide = columns.end - columns.begin;
  const Index cuts = (wide + tile_columns_ - 1) / tile_columns_;
  Run run(*this, inputs, results, std::min(wide, tile_columns_));
  for (Index row = rows.begin; row < rows.end; row += tile_rows_)
    for (Index cut = 0; cut < cuts; ++cut) {
      const Index begin = columns.begin + wide * cut / cuts, end = columns.begin + wide * (cut + 1) / cuts;
      run.tile({row, std::min(tile_rows_, rows.end - row), begin, end - begin});
    }
}

}  // namespace unroll::cpu
