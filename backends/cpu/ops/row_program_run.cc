// SPDX-License-Identifier: Apache-2.0
// Runs a row program block by block.
#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/row_kernels.h"
#include "backends/cpu/ops/row_program.h"
#include "core/support/formats.h"

namespace unroll::cpu {

namespace {

using Index = std::int64_t;

template <class T>
void fill(std::byte* to, T value, Index n) {
  std::fill_n(reinterpret_cast<T*>(to), n, value);
}
template <class T>
void fill_from(std::byte* to, const std::byte* from, Index n) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  fill(to, value, n);
}
void fill_row_constant(std::byte* to, DType dtype, double value, Index n) {
  switch (dtype) {
    case DType::f32: return fill(to, static_cast<float>(value), n);
    case DType::f64: return fill(to, value, n);
    case DType::i32: return fill(to, static_cast<std::int32_t>(value), n);
    case DType::b8: return fill(to, static_cast<std::uint8_t>(value != 0), n);
    case DType::bf16: return fill(to, to_bf16(value).bits, n);
    case DType::f16: return fill(to, to_f16(value).bits, n);
  }
}

template <class T>
void copy(std::byte* to, Index to_row, Index to_column, const std::byte* from, Index from_row, Index from_column,
          Index rows, Index columns) {
  for (Index r = 0; r < rows; ++r)
    for (Index c = 0; c < columns; ++c)
      std::memcpy(to + r * to_row + c * to_column, from + r * from_row + c * from_column, sizeof(T));
}

template <class T>
void spread(const Elementwise::Tile& t) {
  for (std::size_t r = 0; r < t.rows; ++r) {
    const auto row = static_cast<Index>(r);
    T value;
    std::memcpy(&value, static_cast<const std::byte*>(t.a) + row * t.a_stride, sizeof(T));
    std::fill_n(reinterpret_cast<T*>(static_cast<std::byte*>(t.dst) + row * t.dst_stride), t.n, value);
  }
}
template <class T>
void move(const Elementwise::Tile& t) {
  for (std::size_t r = 0; r < t.rows; ++r) {
    const auto row = static_cast<Index>(r);
    std::memcpy(static_cast<std::byte*>(t.dst) + row * t.dst_stride,
                static_cast<const std::byte*>(t.a) + row * t.a_stride, t.n * sizeof(T));
  }
}
}  // namespace

Elementwise::TileFunction spread_function(Index bytes) {
  return bytes == 1   ? spread<std::uint8_t>
         : bytes == 2 ? spread<std::uint16_t>
         : bytes == 4 ? spread<std::uint32_t>
                      : spread<std::uint64_t>;
}
Elementwise::TileFunction move_function(Index bytes) {
  return bytes == 1   ? move<std::uint8_t>
         : bytes == 2 ? move<std::uint16_t>
         : bytes == 4 ? move<std::uint32_t>
                      : move<std::uint64_t>;
}

struct RowProgram::Run {
  const RowProgram& program;
  std::span<const void* const> inputs;
  std::span<void* const> results;
  std::byte* scratch;
  std::span<std::byte*> at;  // [location], in scratch: a run allocates nothing

  Run(const RowProgram& p, std::span<const void* const> in, std::span<void* const> out, std::byte* s)
      : program(p),
        inputs(in),
        results(out),
        scratch(s),
        at(reinterpret_cast<std::byte**>(s + p.places_offset_), p.locations_.size()) {
    for (std::size_t i = 0; i < at.size(); ++i)
      if (p.locations_[i].input < 0 && p.locations_[i].result < 0) at[i] = scratch + p.locations_[i].offset;
    for (const Fill& f : p.fills_) {
      std::byte* const to = at[f.location];
      if (f.input < 0) {
        fill_row_constant(to, f.dtype, f.value, f.n);
        continue;
      }
      const auto* from = static_cast<const std::byte*>(inputs[f.input]);
      switch (dtype_bytes(f.dtype)) {
        case 1: fill_from<std::uint8_t>(to, from, f.n); break;
        case 2: fill_from<std::uint16_t>(to, from, f.n); break;
        case 4: fill_from<std::uint32_t>(to, from, f.n); break;
        default: fill_from<std::uint64_t>(to, from, f.n);
      }
    }
  }

  // Operations only read the memory of inputs.
  void move_to(Index row) {
    const Index sum = row / program.sum_rows_;
    const bool begins = row % program.sum_rows_ == 0;
    std::array<Index, Shape::k_max_rank> index{};
    for (std::size_t d = program.rank_; d-- > 0;) {
      index[d] = d == 0 ? row : row % program.dims_[d];
      row /= program.dims_[d];
    }
    for (std::size_t i = 0; i < at.size(); ++i) {
      const Location& location = program.locations_[i];
      if (location.input < 0 && location.result < 0) continue;
      if (location.sum_bytes > 0) {
        at[i] = static_cast<std::byte*>(results[location.result]) + sum * location.sum_bytes;
        if (begins) std::fill_n(at[i], location.sum_bytes, std::byte{0});
        continue;
      }
      Index offset = 0;
      const std::size_t rank = program.rank_;
      for (std::size_t d = 0; d < rank; ++d) offset += index[d] * location.strides[d];
      auto* base = location.input >= 0
                       ? const_cast<std::byte*>(static_cast<const std::byte*>(inputs[location.input]))
                       : static_cast<std::byte*>(results[location.result]);
      at[i] = base + offset;
    }
  }
  std::byte* place(const Operand& operand, Index column = 0) const {
    return at[operand.location] + operand.offset + column * operand.column_bytes;
  }
  void copy_block(const Copy& c, bool load, Index rows) const {
    const auto all = [&](const Operand& to, Index to_column, const Operand& from, Index from_column) {
      switch (c.bytes) {
        case 1:
          return copy<std::uint8_t>(place(to), to.stride, to_column, place(from), from.stride, from_column, rows,
                                    c.columns);
        case 2:
          return copy<std::uint16_t>(place(to), to.stride, to_column, place(from), from.stride, from_column, rows,
                                     c.columns);
        case 4:
          return copy<std::uint32_t>(place(to), to.stride, to_column, place(from), from.stride, from_column, rows,
                                     c.columns);
        default:
          return copy<std::uint64_t>(place(to), to.stride, to_column, place(from), from.stride, from_column, rows,
                                     c.columns);
      }
    };
    if (load) all(c.tile, c.bytes, c.memory, c.column_stride);
    else all(c.memory, c.column_stride, c.tile, c.bytes);
  }
  // Runs all steps on `columns` columns from `column` on; 0: each on all its columns.
  void compute(Index rows, Index column, Index columns) const {
    for (const Step& s : program.steps_) {
      const bool values = s.columns == 0;
      if (values && column > 0) continue;  // computed with the first columns
      const Index n = values ? rows : columns > 0 ? columns : s.columns;
      s.function({place(s.dst, column), place(s.a, column), place(s.b, column), place(s.c, column), s.dst.stride,
                  s.a.stride, s.b.stride, s.c.stride, static_cast<std::size_t>(values ? 1 : rows),
                  static_cast<std::size_t>(n)});
    }
  }
  void block(Index row, Index rows) {
    move_to(row);
    for (const Copy& load : program.loads_) copy_block(load, true, rows);
    const Index width = program.block_columns_;
    for (Index column = 0; width > 0 && column < program.columns_; column += width)
      compute(rows, column, std::min(width, program.columns_ - column));
    if (width == 0) compute(rows, 0, 0);
    for (const Copy& store : program.stores_) copy_block(store, false, rows);
  }
};

void RowProgram::run(std::span<const void* const> inputs, std::span<void* const> results, const Worker& worker,
                     const Rows& live, std::byte* scratch) const {
  const Range sums = worker.share(live.of(rows_) / sum_rows_);
  const Range mine{sums.begin * sum_rows_, sums.end * sum_rows_};
  if (mine.empty()) return;
  Run run(*this, inputs, results, scratch);
  const Index inner = dims_[rank_ - 1];
  for (Index row = mine.begin; row < mine.end;) {
    Index end = std::min(mine.end, (row / inner + 1) * inner);
    if (sum_rows_ > 1) end = std::min(end, (row / sum_rows_ + 1) * sum_rows_);
    const Index blocks = (end - row + block_rows_ - 1) / block_rows_, begin = row;
    for (Index b = 0; b < blocks; ++b) {
      const Index from = begin + (end - begin) * b / blocks, to = begin + (end - begin) * (b + 1) / blocks;
      run.block(from, to - from);
    }
    row = end;
  }
}

}  // namespace unroll::cpu
