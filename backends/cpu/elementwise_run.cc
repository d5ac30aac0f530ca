// SPDX-License-Identifier: Apache-2.0
// Runs a program tile by tile: fetch what does not lie ready, call each step on the tile, store what is left.
#include <algorithm>
#include <cstring>

#include "backends/cpu/elementwise.h"

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
  if (to_stride == 1 && from_stride == 1) std::memcpy(to, from, static_cast<std::size_t>(n * bytes));
  else if (to_stride == 1 && from_stride == 0) fill(to, from, n, bytes);
  else if (bytes == 4) copy_line<std::uint32_t>(to, to_stride, from, from_stride, n);
  else if (bytes == 8) copy_line<std::uint64_t>(to, to_stride, from, from_stride, n);
  else copy_line<std::uint8_t>(to, to_stride, from, from_stride, n);
}

void fill_constant(std::byte* to, DType dtype, double value, Index n) {
  switch (dtype) {
    case DType::f32: std::fill_n(reinterpret_cast<float*>(to), n, static_cast<float>(value)); break;
    case DType::f64: std::fill_n(reinterpret_cast<double*>(to), n, value); break;
    case DType::i32: std::fill_n(reinterpret_cast<std::int32_t*>(to), n, static_cast<std::int32_t>(value)); break;
    case DType::b8: std::fill_n(reinterpret_cast<std::uint8_t*>(to), n, static_cast<std::uint8_t>(value != 0)); break;
  }
}

constexpr std::size_t k_memory = 24 * 1024;
constexpr std::size_t k_locations = 1024;

}  // namespace

// A position in the program's shape, as index per dimension.
struct Elementwise::Run {
  const Elementwise& program;
  std::span<const void* const> inputs;
  std::span<void* const> results;
  Index most;  // elements of the largest tile
  alignas(64) std::byte memory[k_memory];
  std::byte* locations[k_locations];
  std::array<Index, Shape::k_max_rank> position{};

  Run(const Elementwise& p, std::span<const void* const> in, std::span<void* const> out, Index most_elements)
      : program(p), inputs(in), results(out), most(most_elements) {
    for (std::size_t slot = 0; slot < p.n_slots_; ++slot) locations[slot] = memory + slot * p.slot_bytes_;
    for (const Constant& c : p.constants_) fill_constant(locations[c.location], c.dtype, c.value, most);
    for (const Operand& load : p.loads_)
      if (load.access == Access::once) fill(locations[load.location], input(load), most, load.bytes);
  }

  // Steps only read the locations of inputs.
  std::byte* input(const Operand& load) const {
    return const_cast<std::byte*>(static_cast<const std::byte*>(inputs[load.index]));
  }
  std::byte* result(const Operand& store) const { return static_cast<std::byte*>(results[store.index]); }

  void seek(Index element) {
    for (int axis = program.rank_ - 1; axis >= 0; --axis) {
      const auto i = static_cast<std::size_t>(axis);
      position[i] = element % program.dims_[i];
      element /= program.dims_[i];
    }
  }
  Index offset(const Operand& o) const {
    Index sum = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(program.rank_); ++i) sum += position[i] * o.strides[i];
    return sum * o.bytes;
  }

  // Calls line(bytes into the tile, offset of the operand, elements) for each piece of a row in n elements from here.
  template <class Line>
  void for_lines(const Operand& o, Index n, Line line) {
    const auto start = position;
    const auto inner = static_cast<std::size_t>(program.rank_ - 1);
    for (Index done = 0; done < n;) {
      const Index count = std::min(n - done, program.dims_[inner] - position[inner]);
      line(done * o.bytes, offset(o), count);
      done += count;
      position[inner] += count;
      for (std::size_t i = inner; i > 0 && position[i] == program.dims_[i]; --i) {
        position[i] = 0;
        ++position[i - 1];
      }
    }
    position = start;
  }

  void fetch(const Operand& load, Index n, bool new_row) {
    std::byte* const from = input(load);
    std::byte*& at = locations[load.location];
    const Index stride = load.strides[static_cast<std::size_t>(program.rank_ - 1)];
    switch (load.access) {
      case Access::direct: at = from + offset(load); break;
      case Access::once: break;
      case Access::splatted:
        if (new_row) fill(at, from + offset(load), most, load.bytes);
        break;
      case Access::copied:
        for_lines(load, n, [&](Index to, Index source, Index count) {
          copy_line(at + to, 1, from + source, stride, count, load.bytes);
        });
        break;
    }
  }
  void keep(const Operand& store, Index n) {
    if (store.access == Access::direct) return;
    const std::byte* at = locations[store.location];
    const Index stride = store.strides[static_cast<std::size_t>(program.rank_ - 1)];
    for_lines(store, n, [&](Index from, Index target, Index count) {
      copy_line(result(store) + target, stride, at + from, 1, count, store.bytes);
    });
  }

  void tile(Index n, bool new_row) {
    for (const Operand& load : program.loads_) fetch(load, n, new_row);
    for (const Operand& store : program.stores_)
      if (store.access == Access::direct) locations[store.location] = result(store) + offset(store);
    for (const Step& step : program.steps_)
      step.function(locations[step.dst], locations[step.a], locations[step.b], locations[step.c],
                    static_cast<std::size_t>(n));
    for (const Operand& store : program.stores_) keep(store, n);
  }
};

void Elementwise::run(std::span<const void* const> inputs, std::span<void* const> results, const Part& part,
                      const Rows& rows) const {
  const auto inner = static_cast<std::size_t>(rank_ - 1);
  Index total = 1;
  for (std::size_t i = 0; i <= inner; ++i) total *= dims_[i];
  total = rows.of(total);
  if (total == 0) return;
  // By rows, each row is cut into equal tiles; otherwise the whole is one row.
  const Index row = by_rows_ && rank_ > 1 ? dims_[inner] : total;
  const Index cuts = (row + tile_ - 1) / tile_;
  const Range mine = part.share(total / row * cuts);
  if (mine.empty()) return;
  Run run(*this, inputs, results, (row + cuts - 1) / cuts);
  for (Index t = mine.begin; t < mine.end; ++t) {
    const Index cut = t % cuts, begin = row * cut / cuts, end = row * (cut + 1) / cuts;
    run.seek(t / cuts * row + begin);
    run.tile(end - begin, cut == 0 || t == mine.begin);
  }
}

}  // namespace unroll::cpu
