// SPDX-License-Identifier: Apache-2.0
// A row expression compiled for blocks of rows: the values of a block stay in L1, operands and results are read and
// written where they lie, slices and concatenations are parts of other values, and one value per row stays one value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/kernels/kernels.h"

namespace unroll::cpu {

class RowProgram {
 public:
  // Strides of operands go with the expression's rows and their own columns. Throws Error(internal) where registers do
  // not fit together. `written`: [input] the result that lies in its memory, row on row, or -1; empty: none does.
  explicit RowProgram(const Expression& source, std::span<const int> written = {});

  // inputs and results in the source's order; results overlap nothing else. Scratch of one part is its own.
  void run(std::span<const void* const> inputs, std::span<void* const> results, const Worker& worker, const Rows& live,
           std::byte* scratch) const;
  std::size_t scratch_bytes() const { return scratch_bytes_; }  // of one part
  std::int64_t block_rows() const { return block_rows_; }
  std::size_t n_operations() const { return steps_.size(); }

 private:
  friend class RowCompiler;
  using Index = std::int64_t;

  // Where rows of a value are: in scratch, or in memory of an operand, then its place moves from block to block.
  struct Location {
    int input = -1, result = -1;  // in memory of
    Index offset = 0;             // in scratch: bytes for each row of a block, or from its start when `fixed`
    bool fixed = false;
    Strides strides{};            // of memory: bytes, over the rows' dimensions
    Index sum_bytes = 0;          // of a row of sums: of how many rows is the program's
  };
  struct Operand {
    int location = 0;
    Index offset = 0;  // bytes within the row
    Index stride = 0;  // bytes from row to row
    Index column_bytes = 0;  // from column to column, where blocks of columns move on
  };
  struct Step {
    Elementwise::TileFunction function;
    Index columns;  // 0: one value per row, all rows at once
    Operand dst, a, b, c;
  };
  // Elements that do not lie as a kernel wants them: [rows of the block][columns].
  struct Copy {
    Operand memory, tile;  // strides from row to row
    Index columns, column_stride, bytes;  // of memory: bytes from column to column; of an element
  };
  struct Fill {
    int location;
    DType dtype;
    double value;  // of a constant
    int input;     // or the number of an input of one element
    Index n;
  };
  struct Run;

  int rank_ = 0;  // of the rows
  std::array<Index, Shape::k_max_rank> dims_{};
  Index rows_ = 0, block_rows_ = 1;
  Index columns_ = 0, block_columns_ = 0;  // 0: whole rows at once
  Index sum_rows_ = 1;  // rows that one part computes together, because their sum is a result
  std::size_t scratch_bytes_ = 0, places_offset_ = 0;  // places: pointers, one for each location
  std::vector<Location> locations_;
  std::vector<Fill> fills_;   // once in a run
  std::vector<Copy> loads_;   // of each block
  std::vector<Step> steps_;
  std::vector<Copy> stores_;
};

}  // namespace unroll::cpu
