// SPDX-License-Identifier: Apache-2.0
// A row expression compiled for blocks of rows: the values of a block stay in L1, operands and results are read and
// written in place. Slices and concatenations are parts of other values, and a value per row is stored once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/kernels/kernels.h"

namespace unroll::cpu {

class RowProgram {
 public:
  // Strides of operands are over the expression's rows and the operand's columns. Throws Error(internal) if registers
  // do not match. `written`: [input] the result that shares its memory, row for row, or -1; empty: none.
  explicit RowProgram(const Expression& source, std::span<const int> written = {});

  // inputs and results are in the source's order; results overlap nothing else. Each worker has separate scratch.
  void run(std::span<const void* const> inputs, std::span<void* const> results, const Worker& worker, const Rows& live,
           std::byte* scratch) const;
  std::size_t scratch_bytes() const { return scratch_bytes_; }  // per worker
  std::int64_t block_rows() const { return block_rows_; }
  std::size_t n_operations() const { return steps_.size(); }

 private:
  friend class RowCompiler;
  using Index = std::int64_t;

  // Storage of a value's rows: in scratch, or in an operand's memory, where its address advances from block to block.
  struct Location {
    int input = -1, result = -1;  // in the memory of this operand
    Index offset = 0;             // in scratch: bytes per row of a block, or from its start if `fixed`
    bool fixed = false;
    Strides strides{};            // of memory: bytes, over the rows' dimensions
    Index sum_bytes = 0;          // of a row of sums; the program knows the rows per sum
  };
  struct Operand {
    int location = 0;
    Index offset = 0;  // bytes within the row
    Index stride = 0;  // bytes between rows
    Index column_bytes = 0;  // bytes between columns, if blocks of columns advance
  };
  struct Step {
    Elementwise::TileFunction function;
    Index columns;  // 0: one value per row, all rows at once
    Operand dst, a, b, c;
  };
  // Elements without the layout that kernels read: [rows of the block][columns].
  struct Copy {
    Operand memory, tile;  // strides between rows
    Index columns, column_stride, bytes;  // of memory: bytes between columns; bytes per element
  };
  struct Fill {
    int location;
    DType dtype;
    double value;  // of a constant
    int input;     // or the index of an input of one element
    Index n;
  };
  struct Run;

  int rank_ = 0;  // of the rows
  std::array<Index, Shape::k_max_rank> dims_{};
  Index rows_ = 0, block_rows_ = 1;
  Index columns_ = 0, block_columns_ = 0;  // 0: whole rows at once
  Index sum_rows_ = 1;  // rows that one worker computes together, because their sum is a result
  std::size_t scratch_bytes_ = 0, places_offset_ = 0;  // places: pointers, one per location
  std::vector<Location> locations_;
  std::vector<Fill> fills_;   // once per run
  std::vector<Copy> loads_;   // for each block
  std::vector<Step> steps_;
  std::vector<Copy> stores_;
};

}  // namespace unroll::cpu
