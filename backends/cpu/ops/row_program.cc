// SPDX-License-Identifier: Apache-2.0
// Compiles registers to tiles of rows: shared memory, parts of other registers, operands read and written in place, and
// the number of rows per block.
#include "backends/cpu/ops/row_program.h"

#include <algorithm>
#include <string>

#include "backends/cpu/ops/row_memory.h"
#include "backends/cpu/ops/row_operations.h"
#include "unroll/support/error.h"

namespace unroll::cpu {

namespace {

using Index = std::int64_t;

constexpr Index k_row_line = 64;                // bytes; rows of tiles begin on cache lines
constexpr Index k_tile_memory = 24 * 1024;  // of a block's tiles, which stay in L1
constexpr Index k_most_rows = 128;          // of a block
constexpr Index k_block_columns = 1024;     // of wide rows

Index rounded(Index bytes) { return (bytes + k_row_line - 1) / k_row_line * k_row_line; }
[[noreturn]] void refuse_program(const std::string& what) {
  throw Error(ErrorKind::internal, "cpu fused reduction", what);
}

}  // namespace

class RowCompiler {
 public:
  RowCompiler(const Expression& source, std::span<const int> written, RowProgram& target)
      : s_(source), written_(written), t_(target), ops_(source) {}

  void compile() {
    collapse_rows();
    choose_results();
    place_inputs();
    place_constants();
    choose_columns();
    place_operations();
    place_results();
    choose_rows();
  }

 private:
  using Operand = RowProgram::Operand;
  using Home = RowRegister::Home;
  static constexpr int k_never = RowRegister::k_never;

  // Drops dimensions of one row and joins adjacent dimensions that every operand traverses as one.
  void collapse_rows() {
    std::vector<Strides> strides;
    for (const auto& input : s_.inputs) strides.push_back(input.strides);
    for (const auto& result : s_.results) strides.push_back(result.sums ? Strides{} : result.strides);
    const int last = s_.shape.rank() - 1;
    std::size_t rank = 0;
    std::vector<Strides> joined(strides.size(), Strides{});
    t_.rows_ = 1;
    t_.sum_rows_ = std::max<Index>(s_.sum_rows, 1);
    for (int axis = 0; axis < last; ++axis) {
      const Index size = s_.shape[axis];
      t_.rows_ *= size;
      if (size == 1) continue;
      bool join = rank > 0;
      for (std::size_t k = 0; join && k < strides.size(); ++k) join = joined[k][rank - 1] == strides[k][axis] * size;
      if (!join) t_.dims_[rank++] = 1;
      t_.dims_[rank - 1] *= size;
      for (std::size_t k = 0; k < strides.size(); ++k) joined[k][rank - 1] = strides[k][axis];
    }
    if (rank == 0) t_.dims_[rank++] = 1;
    t_.rank_ = static_cast<int>(rank);
    for (std::size_t k = 0; k < strides.size(); ++k) {
      column_strides_.push_back(strides[k][last]);
      row_strides_.push_back(joined[k]);
    }
  }

  // ---- storage

  bool is_row_value(const RowRegister& r) const { return r.columns == 1; }
  int add_location(const RowProgram::Location& location) {
    t_.locations_.push_back(location);
    return static_cast<int>(t_.locations_.size()) - 1;
  }
  Index inner_stride(std::size_t operand) const {
    return row_strides_[operand][t_.rank_ - 1];
  }
  // True if memory has the layout that kernels read: adjacent columns, or one adjacent value per row.
  bool is_direct(std::size_t operand, const RowRegister& r) const {
    if (is_row_value(r)) return inner_stride(operand) == 1 || t_.rows_ == 1;
    return column_strides_[operand] == 1;
  }
  int memory_location(std::size_t operand, DType dtype, int input, int result) {
    RowProgram::Location location{input, result};
    if (result != k_never && s_.results[result].sums) {
      location.sum_bytes = sum_columns(result) * element_bytes(dtype);
      return add_location(location);
    }
    for (std::size_t d = 0; d < location.strides.size(); ++d)
      location.strides[d] = row_strides_[operand][d] * element_bytes(dtype);
    return add_location(location);
  }
  Index sum_columns(int result) const {
    const Strides& strides = s_.results[result].strides;
    return strides[s_.shape.rank() - 2];
  }
  void place_in_memory(RowRegister& r, std::size_t operand, int input, int result) {
    r.home = Home::memory;
    r.location = memory_location(operand, r.dtype, input, result);
    r.row_offset = inner_stride(operand) * element_bytes(r.dtype);  // between rows
  }
  void place_in_tile(RowRegister& r) {
    r.location = add_location({});
    if (is_row_value(r)) {
      r.home = Home::row_values;
      if (free_values_.empty()) free_values_.push_back(n_values_++);
      r.row_offset = free_values_.back();
      free_values_.pop_back();
    } else {
      r.home = Home::tile;
      r.row_offset = tiles_.take(tile_bytes(r));
    }
  }
  Index tile_bytes(const RowRegister& r) const {
    const Index columns = t_.block_columns_ > 0 ? std::min(r.columns, t_.block_columns_) : r.columns;
    return rounded(columns * element_bytes(r.dtype));
  }
  void release(RowRegister& r) {
    if (r.keeps) return;
    // Blocks of columns after the first one reuse its row values.
    if (r.home == Home::row_values && t_.block_columns_ == 0) free_values_.push_back(r.row_offset);
    if (r.home == Home::tile) tiles_.give_back(r.row_offset, tile_bytes(r));
  }

  void place_inputs() {
    for (std::size_t i = 0; i < s_.inputs.size(); ++i) {
      RowRegister& r = ops_.registers[i];
      if (r.last_use == k_never) continue;
      const int input = static_cast<int>(i);
      if (r.for_all_rows) {
        place_fill(r, 0, input);
      } else if (is_direct(i, r) && !is_overwritten_early(input)) {
        place_in_memory(r, i, input, k_never);
      } else {
        place_in_tile(r);
        r.keeps = true;
        loads_.push_back({static_cast<int>(i), i, memory_location(i, r.dtype, input, k_never)});
      }
    }
  }
  void place_constants() {
    for (std::size_t i = 0; i < s_.constants.size(); ++i) {
      RowRegister& r = ops_.registers[s_.inputs.size() + i];
      if (r.last_use != k_never) place_fill(r, s_.constants[i].second, k_never);
    }
  }
  // Adds a constant value that is stored before the first block. Every row of columns reads the same stored row; row
  // values are stored as many times as needed.
  void place_fill(RowRegister& r, double value, int input) {
    r.home = Home::fill;
    r.location = add_location({});
    t_.fills_.push_back({r.location, r.dtype, value, input, 0});
  }

  // True if a result overwrites the input before the last read of a block's rows. The rows are then copied first.
  bool is_overwritten_early(int input) {
    const int result = written_.empty() ? -1 : written_[input];
    if (result < 0) return false;
    const int last = ops_.reg(input).last_use, n = static_cast<int>(ops_.operations.size());
    const int root = ops_.root_of(ops_.origin(s_.results[result].from));
    if (ops_.reg(root).result != result) return last == n;  // stored after all operations
    int first = 0;
    while (first < n && ops_.root_of(ops_.operations[first].dst) != root) ++first;
    if (last != first) return last > first;
    const RowOperation& writer = ops_.operations[first];
    return !writer.in_place || writer.dst != root;
  }

  void choose_results() {
    for (std::size_t k = 0; k < s_.results.size(); ++k) {
      if (s_.results[k].sums) continue;
      const int from = ops_.origin(s_.results[k].from), root = ops_.root_of(from);
      RowRegister& r = ops_.reg(root);
      const bool whole = root >= ops_.first && ops_.column_of(from) == 0 && ops_.reg(from).columns == r.columns;
      if (whole && r.result == k_never && is_direct(s_.inputs.size() + k, r)) r.result = static_cast<int>(k);
    }
  }
  // Tiles of rows as wide as a vocabulary would not stay in L1. A block therefore has some of the columns if every
  // operation works column by column and reads and writes in place.
  void choose_columns() {
    t_.columns_ = s_.shape[s_.shape.rank() - 1];
    bool by_columns = t_.columns_ >= 2 * k_block_columns && loads_.empty();
    const auto whole = [&](int r) {
      const RowRegister& reg = ops_.reg(r);
      return ops_.root_of(r) == r && (reg.columns == 1 || reg.columns == t_.columns_);
    };
    const auto adds_up_rows = [&](const RowOperation& o) {
      const int result = ops_.reg(o.dst).result;
      return o.op == Op::reduce_sum && result != k_never && s_.results[result].sums &&
             ops_.reg(o.dst).columns == t_.columns_;
    };
    for (const RowOperation& o : ops_.operations) {
      by_columns = by_columns && (is_elementwise(o.op) || o.op == Op::broadcast || adds_up_rows(o)) && whole(o.dst);
      for (int k = 0; k < o.n; ++k) by_columns = by_columns && whole(o.operands[k]);
    }
    for (std::size_t k = 0; k < s_.results.size(); ++k)
      by_columns = by_columns && (s_.results[k].sums ||
                   ops_.reg(ops_.root_of(ops_.origin(s_.results[k].from))).result == static_cast<int>(k));
    if (by_columns) t_.block_columns_ = k_block_columns;
  }
  void place_operations() {
    for (std::size_t o = 0; o < ops_.operations.size(); ++o) {
      const RowOperation& operation = ops_.operations[o];
      RowRegister& dst = ops_.reg(ops_.root_of(operation.dst));
      if (dst.home == Home::none) place_destination(dst, operation, static_cast<int>(o));
      for (int k = 0; k < operation.n; ++k) {
        RowRegister& r = ops_.reg(ops_.root_of(operation.operands[k]));
        if (r.last_use == static_cast<int>(o) && r.home != Home::none && &r != &dst) {
          release(r);
          r.keeps = true;  // released once
        }
      }
    }
  }
  void place_destination(RowRegister& dst, const RowOperation& operation, int o) {
    if (dst.result != k_never) return place_in_memory(dst, s_.inputs.size() + dst.result, k_never, dst.result);
    for (int k = 0; k < operation.n && operation.in_place; ++k) {
      RowRegister& r = ops_.reg(ops_.root_of(operation.operands[k]));
      const bool same = r.columns == dst.columns && element_bytes(r.dtype) == element_bytes(dst.dtype);
      const bool for_rows = r.home == Home::row_values && t_.block_columns_ == 0;
      const bool dies = r.last_use == o && !r.keeps && (r.home == Home::tile || for_rows);
      if (!same || !dies || ops_.root_of(operation.dst) != operation.dst) continue;
      dst.home = r.home;
      dst.location = r.location;
      dst.row_offset = r.row_offset;
      r.keeps = true;
      return;
    }
    place_in_tile(dst);
  }
  void place_results() {
    for (std::size_t k = 0; k < s_.results.size(); ++k) {
      const int from = ops_.origin(s_.results[k].from);
      if (s_.results[k].sums || ops_.reg(ops_.root_of(from)).result == static_cast<int>(k)) continue;
      stores_.push_back({from, s_.inputs.size() + k,
                         memory_location(s_.inputs.size() + k, ops_.reg(from).dtype, k_never, static_cast<int>(k))});
    }
  }

  // ---- rows of a block, and all offsets

  void choose_rows() {
    Index rows = std::min(k_most_rows, k_tile_memory / std::max<Index>(tiles_.end(), 1));
    rows = std::clamp<Index>(rows, 1, std::max<Index>(t_.rows_, 1));
    t_.block_rows_ = rows;
    const Index values = rounded(rows * 8), first_value = tiles_.end() * rows;
    Index end = first_value + n_values_ * values;
    for (RowRegister& r : ops_.registers) {
      if (r.home == Home::tile) t_.locations_[r.location].offset = r.row_offset * rows;
      if (r.home == Home::row_values) t_.locations_[r.location].offset = first_value + r.row_offset * values;
    }
    const Index widest = std::max(rows, t_.block_columns_ > 0 ? t_.block_columns_ : t_.columns_);
    for (RowProgram::Fill& fill : t_.fills_) {
      fill.n = widest;
      t_.locations_[fill.location].offset = end;
      end += rounded(widest * element_bytes(fill.dtype));
    }
    t_.places_offset_ = end;
    t_.scratch_bytes_ = t_.places_offset_ + t_.locations_.size() * sizeof(std::byte*);
    for (const RowOperation& o : ops_.operations) t_.steps_.push_back(step_of(o));
    for (const Moved& m : loads_) t_.loads_.push_back(copy_of(m));
    for (const Moved& m : stores_) t_.stores_.push_back(copy_of(m));
  }
  RowProgram::Step step_of(const RowOperation& o) {
    const RowRegister& dst = ops_.reg(o.dst);
    // One value per row and operation: all rows at once.
    const bool by_rows = is_elementwise(o.op) && dst.columns == 1;
    Index columns = by_rows ? 0 : dst.columns;
    if (o.op == Op::reduce_sum || o.op == Op::reduce_max)  // an operand with one value for all columns may come first
      for (int k = 0; k < o.n; ++k) columns = std::max(columns, ops_.reg(o.operands[k]).columns);
    RowProgram::Step step{o.function, columns, operand_of(o.dst), {}, {}, {}};
    // Functions may read operands that the op lacks: those repeat the first.
    Operand* const to[] = {&step.a, &step.b, &step.c};
    for (int k = 0; k < 3; ++k) *to[k] = operand_of(o.operands[k < o.n ? k : 0]);
    return step;
  }
  Operand operand_of(int r) {
    const RowRegister& root = ops_.reg(ops_.root_of(r));
    Operand operand{root.location, ops_.column_of(r) * element_bytes(root.dtype)};
    switch (root.home) {
      case Home::memory:
        operand.stride = is_row_value(root) ? element_bytes(root.dtype) : root.row_offset;
        operand.column_bytes = is_row_value(root) ? 0 : element_bytes(root.dtype);
        break;
      case Home::tile: operand.stride = tile_bytes(root); break;
      case Home::row_values: operand.stride = element_bytes(root.dtype); break;
      case Home::fill: operand.stride = 0; break;
      case Home::none: refuse_program("a register without a place");
    }
    return operand;
  }
  struct Moved {
    int from;             // register
    std::size_t operand;  // inputs, then results
    int memory;           // location
  };
  RowProgram::Copy copy_of(const Moved& m) {
    const RowRegister& r = ops_.reg(m.from);
    const Index size = element_bytes(r.dtype);
    return {{m.memory, 0, inner_stride(m.operand) * size}, operand_of(m.from), r.columns,
            column_strides_[m.operand] * size, size};
  }

  const Expression& s_;
  std::span<const int> written_;
  RowProgram& t_;
  RowOperations ops_;
  std::vector<Strides> row_strides_;     // [input, then result], collapsed
  std::vector<Index> column_strides_;
  std::vector<Moved> loads_, stores_;
  RowMemory tiles_;
  std::vector<Index> free_values_;
  Index n_values_ = 0;
};

RowProgram::RowProgram(const Expression& source, std::span<const int> written) {
  RowCompiler(source, written, *this).compile();
}

}  // namespace unroll::cpu
