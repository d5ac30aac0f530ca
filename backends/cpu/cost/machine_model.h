// SPDX-License-Identifier: Apache-2.0
// The machine model: kernel speeds on this machine, from which costs.h predicts times. Nanoseconds on one thread, in
// f32 except for matmuls.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <vector>

#include "backends/cpu/threads/thread_pool.h"
#include "unroll/ir/graph.h"

namespace unroll::cpu {

inline constexpr std::size_t k_n_levels = 4;  // L1, L2, L3, memory
inline constexpr std::size_t k_tile_rows = 32;  // maximum rows of a matmul tile on any processor

struct MachineModel {
  // Speeds of one matmul kernel. The *_rows_ns are times of one k of [rows - 1] rows times a panel of columns. The
  // first rows that read a panel fetch it from L2; later ones find it in L1.
  struct Products {
    std::array<double, k_tile_rows> first_rows_ns, next_rows_ns;
    double tile_ns;         // start and end of a tile
    double panel_columns;   // columns of a panel
    double element_bytes;   // bytes of a panel element
    double panels_at_once;  // panels per repeated transposition of a transposed a
    double tile_rows;       // rows of the tallest tile
    double pack_ns, pack_transposed_ns;  // packing one element of b into panels, from L2
    double turn_ns;         // transposing one element of a, from L2
  };
  Products f32, bf16;  // by operand dtype
  const Products& products(DType operand) const { return operand == DType::bf16 ? bf16 : f32; }
  double dot_ns;  // one element of an f32 transposed b that is read in place for a few rows of a

  // Elementwise programs over tiles.
  std::vector<double> element_ns;  // by op; operands in L1
  double operation_ns;  // one operation on one tile
  double row_ns;        // each row of the tile
  double operand_ns;    // one operand of one tile
  double program_ns;    // one call
  double splat_ns;      // one element of an operand that is copied into a tile

  // Time per element of other kernels: copied in order, copied across, summed along a line, summed over lines, drawn.
  double copy_ns, cross_ns, line_ns, rows_ns, random_ns;
  double copy_line_ns, line_call_ns;  // per copied line, per summed line

  double call_ns;                          // any call in a loop
  double barrier_ns, pool_ns;              // all threads meet; all threads start and finish
  std::array<std::size_t, k_n_levels> cache_bytes;  // the last is unlimited
  // Time of a byte read from or written to a level beyond L1, on one thread and on all threads at once.
  struct Bytes {
    double read_ns, write_ns;
  };
  std::array<Bytes, k_n_levels> one, all;
};

// A core with AVX2 or AVX-512, to the order of magnitude.
const MachineModel& usual_machine();
// Measured on this machine in about a second. The pool must be idle.
using Work = std::function<void(const Worker&)>;
struct AnyPool {
  int parts;
  std::function<void(const Work&)> run;  // runs the work on all workers at once
};
MachineModel measure_machine(const AnyPool& pool);

// Steps of measure_machine().
void measure_kernels(MachineModel& machine);
void measure_memory(MachineModel& machine, const AnyPool& pool);  // needs the kernel speeds

}  // namespace unroll::cpu
