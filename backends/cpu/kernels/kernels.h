// SPDX-License-Identifier: Apache-2.0
// Every kernel of the cpu backend. A `make_` function makes all shape-dependent decisions once, when a plan is
// compiled. The run functions take only pointers, compute the share of one worker, allocate nothing and throw nothing.
//
// Rules of all run functions: every worker of the pool calls them in the same order. The caller puts a barrier
// (worker.sync()) between two kernels if the second reads or overwrites memory that the first touched. A kernel that
// says "syncs" also uses the barrier inside. Results have the same bits for any number of workers. Sizes of 0 are
// legal. Dense operands are row-major. Scratch is 64-byte aligned and shared by all workers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/common/expression.h"
#include "backends/cpu/kernels/window_rows.h"
#include "backends/cpu/threads/thread_pool.h"
#include "unroll/ir/graph.h"
#include "unroll/support/types.h"

namespace unroll::cpu {

using common::broadcast_strides;
using common::dense_strides;
using common::Expression;
using common::Instruction;
using common::Strides;

inline std::int64_t element_bytes(DType dtype) { return static_cast<std::int64_t>(dtype_bytes(dtype)); }

// The first `live` of `all` indices of axis 0: packed scans process only the live rows.
struct Rows {
  std::int64_t live = 1, all = 1;
  std::int64_t of(std::int64_t n) const { return live == all ? n : n / all * live; }  // n: a multiple of all
};

// Returns the name of the kernels' instruction set on this machine: "AVX3", "NEON".
const char* instruction_set();

// ---- matmul: c[..., M, N] = op(a)[..., M, K] op(b)[..., K, N] of float dtypes -----------------------------------

class Elementwise;

// A block of a matrix.
struct Block {
  Range rows, columns;
  bool empty() const { return rows.empty() || columns.empty(); }
};

struct Matmul {
  DType dtype = DType::f32;   // of a and b
  DType result = DType::f32;  // of c: dtype, or f32 for 16-bit operands; may be changed after make_
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;  // a is stored [K, M], b is stored [N, K]
  std::int64_t a_stride = 0, b_stride = 0, c_stride = 0;  // elements between stored rows; may be changed after make_
  // Set if the stored rows of the operand are windows.
  std::shared_ptr<const WindowRows> a_windows = nullptr, b_windows = nullptr;
  // Leading dimensions, broadcast: batch strides in elements, 0 for broadcast axes. Empty shape: one matmul.
  Shape batch;
  Strides a_batch{}, b_batch{}, c_batch{};

  bool single() const { return batch.elements() == 1; }
  bool has_windows() const { return a_windows || b_windows; }
};
// Dense operands. A batched a with a plain [K, N] b folds into one matmul with more rows.
Matmul make_matmul(const Type& a, const Type& b, bool transpose_a, bool transpose_b);

// The kernel of a matmul and the share of each worker. The cost model reads it too.
struct MatmulCut {
  enum class Kernel : std::uint8_t {
    dots,    // few rows of a by the rows of a transposed b
    rows,    // few rows of a by b as it is stored
    blocks,  // blocks of b are packed
  };
  Matmul matmul;  // a single column as a single row, and stored columns as rows if they are contiguous
  bool swapped = false;  // a and b have changed places
  std::int64_t panels = 0;
  Kernel kernel = Kernel::blocks;
  bool by_batch = false;  // a worker computes some matmuls of the batch, otherwise its share of each
  bool by_rows = false;   // of blocks: a worker needs all of b for its rows of c, otherwise it takes its panels
};
MatmulCut cut_matmul(const Matmul& matmul, std::int64_t panel_columns, std::int64_t tile_rows, int parts);

// Computes any matmul. Syncs. c must not overlap a, b or scratch.
std::size_t matmul_scratch_bytes(const Matmul& matmul, int parts);
void run_matmul(const Matmul& matmul, const void* a, const void* b, void* c, void* scratch, const Worker& worker);
// Matmul with an elementwise epilogue on each block of c while it is cached: each element once, by the worker that
// computed it. Needs single() and n > 1. Results of the program must not overlap a, b or scratch. With several gates, N
// = gates * units, it needs computes_whole_rows.
struct Epilogue {
  const Elementwise& program;  // of whole matrices, [M, units]
  std::span<const void* const> inputs;
  std::span<void* const> results;
  std::int64_t gates = 1;
  void run(const Block& block) const;
};
// True if each worker computes whole rows of c, with the blocks of a row close together in time.
bool computes_whole_rows(const Matmul& matmul, int parts);
void run_matmul(const Matmul& matmul, const void* a, const void* b, void* c, void* scratch, const Worker& worker,
                const Epilogue& epilogue);

// Returns the matmul with fewer stored rows of a: with transpose_a shorter sums, else fewer rows of c. Clamped to 0 ..
// all.
Matmul first_rows(Matmul matmul, std::int64_t rows);

// For a b that is used many times (weights in a time loop); needs single(). Pack once per value of b, then multiply.
// With run_packed each worker reads the same slice of packed b in every call with this shape. No sync inside. a is read
// through a_stride. transpose_a must be false; otherwise packed_bytes throws Error(internal).
std::size_t packed_bytes(const Matmul& matmul);
void run_pack(const Matmul& matmul, const void* b, void* packed, const Worker& worker);
// Packs, on one worker, columns `own` of each of the equal `groups` of columns of b side by side. The result is for a
// matmul with groups * (own.end - own.begin) columns.
void run_pack_columns(const Matmul& matmul, const void* b, std::int64_t groups, Range own, void* packed);
// 16-bit operands need scratch per worker if the processor has no matmul instructions for them.
std::size_t packed_scratch_bytes(const Matmul& matmul);
// Returns the block of c that this worker computed.
Block run_packed(const Matmul& matmul, const void* a, const void* packed, void* c, const Worker& worker,
                 void* scratch = nullptr);
bool computes_whole_rows_packed(const Matmul& matmul, int parts);

// ---- elementwise programs ----------------------------------------------------------------------------------------

class Elementwise {
 public:
  // Rows of n elements; strides are bytes from one row to the next.
  struct Tile {
    void* dst;
    const void *a, *b, *c;
    std::int64_t dst_stride, a_stride, b_stride, c_stride;
    std::size_t rows, n;
  };
  using TileFunction = void (*)(const Tile&);

  // Checks registers and dtypes (Error(internal)), collapses dimensions, assigns tile slots. `matrix`: the shape has
  // two dimensions, which are not joined.
  explicit Elementwise(const Expression& source, bool matrix = false);
  // inputs and results are in the source's order. A result that is not `apart` may share memory with an input of the
  // same strides and element size; otherwise results overlap nothing.
  void run(std::span<const void* const> inputs, std::span<void* const> results, const Worker& worker,
           const Rows& rows = {}) const;
  // Runs on a block of a matrix, on one thread.
  void run_block(std::span<const void* const> inputs, std::span<void* const> results, const Block& block) const;

 private:
  friend class ElementwiseCompiler;
  using Location = std::uint16_t;  // place of a register's tile: a slot, or memory of an input or a result
  enum class Access : std::uint8_t {
    direct,    // reads memory in place
    once,      // one element for the whole program
    repeated,  // in place, one element for each row
    splatted,  // one element for each row, broadcast over a tile
    copied,    // tile by tile, any strides
  };
  struct Operand {  // an input or a result
    Location location;
    std::uint16_t index;
    Access access;
    std::uint8_t bytes;     // of an element
    std::int64_t tile_row;  // bytes between rows of its tile
    Strides strides;        // collapsed
  };
  struct Constant {
    Location location;
    DType dtype;
    double value;
  };
  struct Step {
    TileFunction function;
    Location dst, a, b, c;
    std::int64_t dst_stride, a_stride, b_stride, c_stride;
  };
  struct Run;

  int rank_ = 1;  // after collapsing, at least 1; the last two dimensions are rows and columns of tiles
  std::array<std::int64_t, Shape::k_max_rank> dims_{};
  std::int64_t tile_rows_ = 1, tile_columns_ = 0;  // of the largest tile
  std::size_t slot_bytes_ = 0;
  std::size_t n_slots_ = 0;  // locations [0, n_slots) are slots; memory is numbered downwards from the highest location
  std::vector<Constant> constants_;
  std::vector<Operand> loads_;
  std::vector<Step> steps_;
  std::vector<Operand> stores_;
};

inline void Epilogue::run(const Block& block) const {
  program.run_block(inputs, results, {block.rows, {block.columns.begin / gates, block.columns.end / gates}});
}

// ---- moving data -------------------------------------------------------------------------------------------------

// dst[i] = src[i] over a shape, any strides: transpose, slice, broadcast, each piece of a concat, the middle of a pad.
struct Copy {
  int rank = 1;
  int bytes = 4;  // of an element: 1, 2, 4 or 8
  std::array<std::int64_t, Shape::k_max_rank> dims{};
  Strides src{}, dst{};
};
Copy make_copy(DType dtype, const Shape& shape, const Strides& src, const Strides& dst);
void run_copy(const Copy& copy, const void* src, void* dst, const Worker& worker);
// The caller adds the offsets of slice, pad and concat to the pointers. pad = run_fill of all, sync, run_copy.
void run_fill(DType dtype, double value, std::int64_t elements, void* dst, const Worker& worker);

// ---- reductions --------------------------------------------------------------------------------------------------

// reduce_sum and reduce_max of a dense x over any axes. Sums use a fixed tree; the max of no elements is the lowest
// value (-inf), NaN propagates. Sums of 16-bit numbers are those of the same numbers in f32.
struct Reduce {
  Op op = Op::reduce_sum;
  DType dtype = DType::f32;
  int rank = 0;  // after collapsing: kept and reduced dimensions alternate
  bool first_reduced = false;
  std::array<std::int64_t, Shape::k_max_rank> dims{};
};
Reduce make_reduce(Op op, const Type& x, std::span<const std::int64_t> axes);
std::size_t reduce_scratch_bytes(const Reduce& reduce, int parts);
void run_reduce(const Reduce& reduce, const void* x, void* out, void* scratch, const Worker& worker);  // syncs

// i32 index of the first largest element along the axis of x [outer, axis, inner]; NaN counts as the largest.
struct Argmax {
  DType dtype = DType::f32;
  std::int64_t outer = 1, axis = 1, inner = 1;
};
Argmax make_argmax(const Type& x, int axis);
void run_argmax(const Argmax& argmax, const void* x, std::int32_t* out, const Worker& worker);

// ---- indexing and sources ----------------------------------------------------------------------------------------

// out[i, :] = table[indices[i], :], zeros if the index is out of range.
void run_gather(const std::int32_t* indices, std::int64_t n_indices, std::int64_t table_rows, std::int64_t row_bytes,
                const void* table, void* out, const Worker& worker);
// out [rows, row] = 0, then out[indices[i], :] += updates[i, :] in the order of i; out of range adds nothing.
void run_scatter_add(DType dtype, const std::int32_t* indices, std::int64_t n_indices, std::int64_t rows,
                     std::int64_t row, const void* updates, void* out, const Worker& worker);
// Positions of packed rows of padded sequences, see unroll/ops/scan.h; lengths are clamped to 0 .. steps.
struct PackedPlaces {
  std::int32_t *batch_sizes, *order, *rank, *pack, *unpack, *rows;
};
void run_pack_lengths(const std::int32_t* lengths, std::int64_t batch, std::int64_t steps, const PackedPlaces& to,
                      const Worker& worker);
// Index along `axis` of a dense i32 shape.
void run_iota(const Shape& shape, int axis, std::int32_t* out, const Worker& worker);
// key i32[3] = seed low, seed high, update; step is null or an i32 scalar: element e draws number step * elements + e.
void run_random_uniform(const std::int32_t* key, const std::int32_t* step, std::int64_t rng_stream,
                        std::int64_t elements,
                        float* out, const Worker& worker);

}  // namespace unroll::cpu
