// SPDX-License-Identifier: Apache-2.0
// Kernels in CUDA C++. Each text is a kernel named KERNEL whose parameters are pointers and, last, a struct
// KERNEL_sizes of run-time sizes, so equal texts are one kernel. A module has the kernels of one executable.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "backends/device/lowering.h"
#include "unroll/support/types.h"

namespace unroll::cuda {

// The text before the parameters of a kernel, and the last parameter.
inline constexpr std::string_view k_kernel_head = "extern \"C\" __global__ void KERNEL(",
                                  k_kernel_last = "KERNEL_sizes n)";
// Every `from` in the text becomes `to`.
std::string replaced(std::string text, std::string_view from, std::string_view to);

// Requirements of a kernel on its block, if it is a part of another kernel (WholeLoop).
struct BlockNeeds {
  std::size_t shared_bytes = 0;
  unsigned threads = 0;      // exactly so many; 0: any number
  bool shares_rows = false;  // the threads of a block share a row
};

class Kernels {
 public:
  // The number of the kernel with this text.
  int add(const std::string& text, const BlockNeeds& needs = {});
  int add_rows(const std::string& text, const BlockNeeds& needs);  // it needs the functions of row kernels
  // The kernel of a loop: whether parts of it are row kernels, and whether weights are resident.
  int add_loop(const std::string& text, bool has_rows, bool is_resident);
  bool has_rows() const { return has_rows_; }
  int count() const { return static_cast<int>(all_.size()); }
  const std::string& text(int kernel) const { return all_[kernel].text; }
  const BlockNeeds& needs(int kernel) const { return all_[kernel].needs; }
  std::string source() const;
  static std::string name(int kernel) { return "k" + std::to_string(kernel); }

 private:
  struct Kernel {
    std::string text;
    BlockNeeds needs;
  };
  std::map<std::string, int> numbers_;
  std::vector<Kernel> all_;
  bool has_rows_ = false, has_loops_ = false, has_resident_ = false, has_wgmma_ = false;
};

// A kernel, its sizes and how it is launched.
struct Printed {
  std::string text;
  std::vector<std::int64_t> sizes;
  std::uint64_t blocks;
  unsigned threads;
  BlockNeeds needs = {};
};
inline constexpr unsigned k_threads = 256;  // of a block, where nothing else is said

inline std::uint64_t blocks_for(std::int64_t elements) {
  constexpr std::int64_t k_most = std::int64_t{1} << 20;  // further elements go round the grid
  return static_cast<std::uint64_t>(std::min((elements + k_threads - 1) / k_threads, k_most));
}

// Products: a block computes a tile of c, or of a part of the sum over k. Operands a, b, [rows], c.
struct ProductForm {
  DType operands = DType::f32, result = DType::f32;
  bool has_rows = false;
  bool is_live = false;  // the rows are those of the step (for_live_rows), not an operand
};
struct ProductSizes {
  device::ProductShape shape;
  bool rows_limit_k = false;
  std::int64_t part = 0;    // terms of a part
  std::int64_t c_part = 0;  // from part to part of c
};
// Parts of the sum so that a device with that many multiprocessors is busy.
std::int64_t product_parts(const device::ProductShape& shape, int multiprocessors);
Printed print_product(const ProductForm& form, const ProductSizes& sizes);

// Sums and maxima over at most `length` elements of each of `chunks` chunks: element [chunk, output] of the result.
enum class Reduction : std::uint8_t { sum, max, argmax };  // argmax: i32, the first; one chunk
struct ReductionSizes {
  device::ReductionShape shape;
  std::int64_t chunks = 1, length = 0;
  std::int64_t live_items = 0;  // outputs of a row of the step (for_live_rows); 0: all are computed
};
Printed print_reduction(Reduction reduction, DType dtype, const ReductionSizes& sizes);
DType sum_dtype(DType dtype);  // f32 for 16 bits

// The text of a kernel of a step that runs on its first rows: its last pointer, `live`, leads to their number and to
// that of the rows of all earlier steps. `moves`: [operand] elements of a row, if the operand begins behind those rows.
// `items`: of a row, of all n.sizes[0]; 0: the kernel finds its end itself.
std::string for_live_rows(std::string text, const std::vector<std::int64_t>& moves, std::int64_t items);
// Operands batch_sizes, live [steps, 2].
Printed print_live_rows(std::int64_t steps, std::int64_t batch);
// Operands and sizes: device::Lowering::FinalState.
Printed print_final_states(DType dtype, const std::vector<std::int64_t>& sizes);

// Operands rows, matrix: its rows from rows[0] on become zero.
struct MatrixRows {
  std::int64_t rows, columns, row_stride, column_stride;
};
Printed print_zero_tail(DType dtype, const MatrixRows& matrix);

// Operands left, right, sum, which may be one of them.
Printed print_addition(DType dtype, std::int64_t n);

// Operands table, indices, result. An index out of range reads zeros.
Printed print_gather(DType dtype, std::int64_t rows, std::int64_t row_size, std::int64_t n);
// The updates with equal indices as lists, in order: operands indices, links i32[2, n]. links[0, i] is the next update
// of the same row or -1, links[1, i] is 1 for the first one.
Printed print_links(std::int64_t n);
// Operands indices, updates, links, result, which is zero before.
Printed print_scatter(DType dtype, std::int64_t rows, std::int64_t row_size, std::int64_t n);
// Operands lengths, batch_sizes, order, rank, pack, unpack, rows.
Printed print_pack_lengths(std::int64_t batch, std::int64_t steps);

}  // namespace unroll::cuda
