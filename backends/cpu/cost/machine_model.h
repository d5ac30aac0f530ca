// SPDX-License-Identifier: Apache-2.0
// The machine model: the speed of the kernels on this machine, which costs.h converts to times. Nanoseconds on one
// thread, f32 except for products.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <vector>

#include "backends/cpu/threads/thread_pool.h"
#include "unroll/ir/graph.h"

namespace unroll::cpu {

inline constexpr std::size_t k_n_levels = 4;  // L1, L2, L3, memory
inline constexpr std::size_t k_tile_rows = 32;  // most rows that a tile of a product has on any processor

struct MachineModel {
  // Products of one kernel. One k of [rows - 1] rows times a panel of columns: the first rows that read a panel fetch
  // it from L2, the next ones find it in L1.
  struct Products {
    std::array<double, k_tile_rows> first_rows_ns, next_rows_ns;
    double tile_ns;         // beginning and end of a tile
    double panel_columns;   // of a panel
    double element_bytes;   // of a panel
    double panels_at_once;  // for which a transposed a is transposed anew
    double tile_rows;       // of the tallest tile
    double pack_ns, pack_transposed_ns;  // an element of b into panels, from L2
    double turn_ns;         // an element of a transposed a, from L2
  };
  Products f32, bf16;  // by operands
  const Products& products(DType operand) const { return operand == DType::bf16 ? bf16 : f32; }
  double dot_ns;  // an element of a transposed b of f32 that few rows of a are multiplied with where it lies

  // Elementwise programs over tiles.
  std::vector<double> element_ns;  // by op; operands in L1
  double operation_ns;  // one operation on one tile
  double row_ns;        // and on each of its rows
  double operand_ns;    // one operand of one tile
  double program_ns;    // a call
  double splat_ns;      // an element of an operand that is copied into a tile

  // Of all else: an element that is copied in order, copied across, summed along a line, summed over lines, drawn.
  double copy_ns, cross_ns, line_ns, rows_ns, random_ns;
  double copy_line_ns, line_call_ns;  // each line that is copied, that is summed

  double call_ns;                          // any call in a loop
  double barrier_ns, pool_ns;              // all threads meet; all threads begin and end
  std::array<std::size_t, k_n_levels> cache_bytes;  // the last is without end
  // A byte that comes from, or goes to, a level beyond L1: on one thread, and on each of all threads at once.
  struct Bytes {
    double read_ns, write_ns;
  };
  std::array<Bytes, k_n_levels> one, all;
};

// Of a core with AVX2 or AVX-512, to the order of magnitude.
const MachineModel& usual_machine();
// Measured on this machine, in about a second. The pool must be at rest.
using Work = std::function<void(const Worker&)>;
struct AnyPool {
  int parts;
  std::function<void(const Work&)> run;  // in all parts at once
};
MachineModel measure_machine(const AnyPool& pool);

// Parts of measure_machine().
void measure_kernels(MachineModel& machine);
void measure_memory(MachineModel& machine, const AnyPool& pool);  // needs the speeds of kernels

}  // namespace unroll::cpu
