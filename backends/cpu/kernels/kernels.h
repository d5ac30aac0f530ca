// SPDX-License-Identifier: Apache-2.0
// Every kernel of the cpu backend. A `make_` function decides all that shapes decide, once, when a plan is compiled;
// the run functions take pointers only, do the share of one part, allocate nothing and throw nothing.
//
// Rules of all run functions: every part of the pool calls them in the same order; the caller puts a barrier
// (part.sync()) between two kernels when the second reads or overwrites what the first touched; a kernel that says
// "syncs" also uses the barrier inside. Results have the same bits for any number of parts. Sizes of 0 are legal.
// Dense operands are row-major. Scratch is 64-byte aligned and shared by all parts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/common/expression.h"
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

// The first `live` of `all` indices of axis 0: packed scans work on the rows that are still there.
struct Rows {
  std::int64_t live = 1, all = 1;
  std::int64_t of(std::int64_t n) const { return live == all ? n : n / all * live; }  // n: a multiple of all
};

// Name of the instruction set the kernels run on here: "AVX3", "NEON".
const char* instruction_set();

// ---- matmul: c[..., M, N] = op(a)[..., M, K] op(b)[..., K, N] of float dtypes -----------------------------------

class Elementwise;

// Of a matrix.
struct Block {
  Range rows, columns;
  bool empty() const { return rows.empty() || columns.empty(); }
};

struct Matmul {
  DType dtype = DType::f32;   // of a and b
  DType result = DType::f32;  // of c: dtype, or f32 for operands of 16 bits; may be changed after make_
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;  // a is stored [K, M], b is stored [N, K]
  std::int64_t a_stride = 0, b_stride = 0, c_stride = 0;  // elements between stored rows; may be changed after make_
  // Leading dimensions, broadcast: batch strides in elements, 0 where repeated. Empty shape: one product.
  Shape batch;
  Strides a_batch{}, b_batch{}, c_batch{};

  bool single() const { return batch.elements() == 1; }
};
// Dense operands. A batched a with a plain [K, N] b folds into one product with more rows.
Matmul make_matmul(const Type& a, const Type& b, bool transpose_a, bool transpose_b);

// Any product. Syncs. c must not overlap a, b or scratch.
std::size_t matmul_scratch_bytes(const Matmul& matmul, int parts);
void run_matmul(const Matmul& matmul, const void* a, const void* b, void* c, void* scratch, const Worker& worker);
// The same, and an elementwise program on each block of c while it is in a cache: each element once, by the part that
// computed it. Needs single() and n > 1. Results of the program must not overlap a, b or scratch. With several gates,
// N = gates * units, it needs computes_whole_rows.
struct Epilogue {
  const Elementwise& program;  // of whole matrices, [M, units]
  std::span<const void* const> inputs;
  std::span<void* const> results;
  std::int64_t gates = 1;
  void run(const Block& block) const;
};
// Whether each part computes whole rows of c, and no block of a row much earlier than another.
bool computes_whole_rows(const Matmul& matmul, int parts);
void run_matmul(const Matmul& matmul, const void* a, const void* b, void* c, void* scratch, const Worker& worker,
                const Epilogue& epilogue);

// The same with fewer stored rows of a: with transpose_a a shorter sum, else fewer rows of c. Cut to 0 .. all.
Matmul first_rows(Matmul matmul, std::int64_t rows);

// For a b used many times (weights in a time loop); needs single(). Pack once per value of b, then multiply.
// run_packed splits so that each part reads the same slice of packed b in every call with this shape. No sync inside.
// a is read through a_stride (transpose_a must be false; throws Error(internal) from packed_bytes otherwise).
std::size_t packed_bytes(const Matmul& matmul);
void run_pack(const Matmul& matmul, const void* b, void* packed, const Worker& worker);
// Packs, in one part, columns `own` of each of the equal `groups` of columns of b, side by side: for a product with
// groups * (own.end - own.begin) columns.
void run_pack_columns(const Matmul& matmul, const void* b, std::int64_t groups, Range own, void* packed);
// Operands of 16 bits need scratch, each part its own, where the processor has no products of them.
std::size_t packed_scratch_bytes(const Matmul& matmul);
// Returns what this part computed of c.
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
  // two dimensions, which stay apart.
  explicit Elementwise(const Expression& source, bool matrix = false);
  // inputs and results in the source's order. A result that is not `apart` may be the same memory as an input of the
  // same strides and element size; otherwise results overlap nothing.
  void run(std::span<const void* const> inputs, std::span<void* const> results, const Worker& worker,
           const Rows& rows = {}) const;
  // A block of a matrix, by one thread.
  void run_block(std::span<const void* const> inputs, std::span<void* const> results, const Block& block) const;

 private:
  friend class ElementwiseCompiler;
  using Location = std::uint16_t;  // where a tile of a register is: a slot, or memory of an input or a result
  enum class Access : std::uint8_t {
    direct,    // the memory itself
    once,      // one element for the whole program
    repeated,  // the memory itself, one element for each row
    splatted,  // one element for each row, spread over a tile
    copied,    // tile by tile, any strides
  };
  struct Operand {  // an input or a result
    Location location;
    std::uint16_t index;
    Access access;
    std::uint8_t bytes;     // of an element
    std::int64_t tile_row;  // bytes from row to row of its tile
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
  std::size_t n_slots_ = 0;  // locations [0, n_slots) are slots, memory is numbered from the highest location down
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
// Offsets of slice, pad and concat are added to the pointers by the caller. pad = run_fill of all, sync, run_copy.
void run_fill(DType dtype, double value, std::int64_t elements, void* dst, const Worker& worker);

// ---- reductions --------------------------------------------------------------------------------------------------

// reduce_sum and reduce_max of a dense x over any axes. Sums are added in a fixed tree; max of nothing is the lowest
// value (-inf), a NaN gives NaN. Sums of 16-bit numbers are those of the same numbers in f32.
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

// i32 index of the first largest element along the axis of x [outer, axis, inner]; a NaN counts as largest.
struct Argmax {
  DType dtype = DType::f32;
  std::int64_t outer = 1, axis = 1, inner = 1;
};
Argmax make_argmax(const Type& x, int axis);
void run_argmax(const Argmax& argmax, const void* x, std::int32_t* out, const Worker& worker);

// ---- indexing and sources ----------------------------------------------------------------------------------------

// out[i, :] = table[indices[i], :], zeros when the index is out of range.
void run_gather(const std::int32_t* indices, std::int64_t n_indices, std::int64_t table_rows, std::int64_t row_bytes,
                const void* table, void* out, const Worker& worker);
// out [rows, row] = 0, then out[indices[i], :] += updates[i, :] in the order of i; out of range adds nothing.
void run_scatter_add(DType dtype, const std::int32_t* indices, std::int64_t n_indices, std::int64_t rows,
                     std::int64_t row, const void* updates, void* out, const Worker& worker);
// Where rows of padded sequences lie when packed, see unroll/ir/ops.h; lengths are cut to 0 .. steps.
struct PackedPlaces {
  std::int32_t *batch_sizes, *order, *rank, *pack, *unpack, *rows;
};
void run_pack_lengths(const std::int32_t* lengths, std::int64_t batch, std::int64_t steps, const PackedPlaces& to,
                      const Worker& worker);
// Index along `axis` of a dense i32 shape.
void run_iota(const Shape& shape, int axis, std::int32_t* out, const Worker& worker);
// key i32[3] = seed low, seed high, update; step null or i32 scalar: element e draws number step * elements + e.
void run_random_uniform(const std::int32_t* key, const std::int32_t* step, std::int64_t rng_stream,
                        std::int64_t elements,
                        float* out, const Worker& worker);

}  // namespace unroll::cpu
