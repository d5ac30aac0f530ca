// SPDX-License-Identifier: Apache-2.0
// Kernel speeds of MachineModel, with operands in L1 or, if they are large, in L2.
#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "backends/cpu/cost/kernel_clock.h"
#include "backends/cpu/cost/machine_model.h"
#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/kernels/elementwise.h"
#include "backends/cpu/kernels/kernels.h"

namespace unroll::cpu {

namespace {

using Index = std::int64_t;

// ---- matmul

constexpr Index k_depth = 384, k_panels = 6;  // of a packed b in L2

// Operands of matmuls with up to k_tall row tiles; a is in L2 as well. bf16 uses half of the memory.
struct Operands {
  static constexpr Index k_tall = 20;
  const GemmKernels& kernels;
  Index columns = kernels.columns * k_panels, tile_rows = kernels.tile_rows;
  Floats a{k_tall * tile_rows * k_depth}, b{columns * k_depth}, packed{columns * k_depth},
      c{k_tall * tile_rows * columns};

  void pack(bool transposed) {
    const Index stride = transposed ? k_depth : columns;
    kernels.pack(b.data(), stride, transposed, k_depth, columns, 0, k_panels, k_depth * kernels.columns, packed.data());
  }
  double multiply_ns(Index rows, Index depth) {
    return least_ns([&] {
      kernels.multiply(rows, columns, depth, a.data(), k_depth, packed.data(), k_depth * kernels.columns, 0, k_panels,
                       false, c.data(), columns, DType::f32);
    });
  }
};

void measure_tiles_of_products(MachineModel::Products& machine, Operands& o) {
  constexpr Index k_short = 32;
  constexpr double k_tiles = k_panels * k_depth;
  machine.panel_columns = static_cast<double>(o.kernels.columns);
  machine.element_bytes = static_cast<double>(dtype_bytes(o.kernels.operand));
  machine.panels_at_once = static_cast<double>(o.kernels.panels_at_once);
  machine.tile_rows = static_cast<double>(o.tile_rows);
  const double whole = o.multiply_ns(o.tile_rows, k_depth), worker = o.multiply_ns(o.tile_rows, k_short);
  machine.tile_ns = std::max(0.0, (worker - whole * k_short / k_depth) / k_panels / (1 - double{k_short} / k_depth));
  // More rows than a tile are divided evenly, so only the tallest tiles can be timed as later ones.
  const double many = o.multiply_ns(Operands::k_tall * o.tile_rows, k_depth);
  const double next = (many - whole) / (Operands::k_tall - 1);
  for (Index rows = 1; rows <= o.tile_rows; ++rows) {
    const std::size_t i = rows - 1;
    const double first = rows == o.tile_rows ? whole : o.multiply_ns(rows, k_depth);
    const double by_rows = next * static_cast<double>(rows) / machine.tile_rows;
    machine.first_rows_ns[i] = first / k_tiles;
    machine.next_rows_ns[i] = std::max(by_rows, first * std::min(1.0, next / whole)) / k_tiles;
  }
}

MachineModel::Products measure_products(DType operand) {
  MachineModel::Products machine{};
  Operands o{gemm_kernels(operand)};
  o.pack(false);
  measure_tiles_of_products(machine, o);
  const double elements = static_cast<double>(o.columns * k_depth);
  const auto each = [&](auto&& call) { return least_ns(call) / elements; };
  machine.pack_ns = each([&] { o.pack(false); });
  machine.pack_transposed_ns = each([&] { o.pack(true); });
  machine.turn_ns =
      each([&] { o.kernels.transpose(o.b.data(), o.columns, k_depth, o.columns, o.packed.data(), k_depth); });
  return machine;
}

double measure_dots() {
  Operands o{gemm_kernels(DType::f32)};
  return least_ns([&] {
           o.kernels.multiply_dots(1, k_depth, o.a.data(), k_depth, o.b.data(), k_depth, 0, o.columns, o.c.data(),
                                   o.columns);
         }) /
         static_cast<double>(o.columns * k_depth);
}

// ---- elementwise programs

void measure_tiles(MachineModel& machine) {
  constexpr Index k_long = 1024, k_short = 64;
  Floats a(2 * k_long), b(2 * k_long), c(2 * k_long), to(2 * k_long);
  const auto tile_ns = [&](Elementwise::TileFunction function, Index rows, Index n) {
    const Index stride = (n + 16) * static_cast<Index>(sizeof(float));  // consecutive rows are joined into one
    const Elementwise::Tile tile{to.data(), a.data(), b.data(), c.data(), stride, stride, stride, stride,
                                 static_cast<std::size_t>(rows), static_cast<std::size_t>(n)};
    return least_ns([&] { function(tile); });
  };
  for (const OpInfo& info : op_table()) {
    double& element = machine.element_ns[static_cast<std::size_t>(info.op)];
    const bool truth = info.kind == OpKind::logical;
    const auto function = info.op == Op::cast       ? tile_function(Op::cast, DType::b8, DType::f32)
                          : is_elementwise(info.op) ? tile_function(info.op, truth ? DType::b8 : DType::f32, DType::f32)
                                                    : nullptr;
    if (!function) continue;
    element = std::max(0.0, tile_ns(function, 1, k_long) - tile_ns(function, 1, k_short)) / (k_long - k_short);
  }
  const auto add = tile_function(Op::add, DType::f32, DType::f32);
  const double element = machine.element_ns[static_cast<std::size_t>(Op::add)], line = tile_ns(add, 1, k_short);
  constexpr Index k_rows = k_long / k_short;
  machine.row_ns = std::max(0.0, tile_ns(add, k_rows, k_short) - tile_ns(add, 1, k_long)) / k_rows;
  machine.operation_ns = std::max(0.0, line - k_short * element);
}

// One addition of two operands over [rows, columns].
double addition_ns(Index rows, Index columns, bool splat, std::span<Floats> memory) {
  Expression e;
  e.shape = Shape{rows, columns};
  // Rows with gaps, so that they are not joined into one.
  const Strides apart{columns + 16, 1}, one_per_row{columns + 16, 0};
  e.inputs = {{DType::f32, apart}, {DType::f32, splat ? one_per_row : apart}};
  e.instructions = {{Op::add, DType::f32, DType::f32, 0, 1, 0}};
  e.results = {{2, apart, true}};
  const Elementwise program(e);
  const void* const in[] = {memory[0].data(), memory[1].data()};
  void* const out[] = {memory[2].data()};
  return least_ns([&] { program.run(in, out, Worker{}); });
}

void measure_programs(MachineModel& machine) {
  constexpr Index k_columns = 512, k_rows = 4;  // a tile is at most 1024 elements
  std::vector<Floats> memory;
  for (int i = 0; i < 3; ++i) memory.emplace_back((4 * k_rows) * (k_columns + 16));
  const double add = machine.element_ns[static_cast<std::size_t>(Op::add)];
  const double few = addition_ns(k_rows, k_columns, false, memory), small = addition_ns(1, 16, false, memory);
  constexpr double k_tiles = double{k_rows * k_columns} / 1024, k_more = k_rows * k_columns - 16;
  machine.operand_ns = std::max(0.0, ((few - small - k_more * add) / (k_tiles - 1) - machine.operation_ns) / 3);
  machine.program_ns = std::max(0.0, small - 16 * add - machine.operation_ns - 3 * machine.operand_ns);
  const double splat = addition_ns(k_rows, k_columns, true, memory);
  machine.splat_ns = std::max(0.0, (splat - few) / (k_rows * k_columns));
}

// ---- other kernels

void measure_moves(MachineModel& machine) {
  constexpr Index k_rows = 32, k_columns = 128, k_n = k_rows * k_columns;  // 16 KiB
  const Floats from(k_n);
  Floats to(k_n);
  const Type type{DType::f32, Shape{k_rows, k_columns}};
  const auto copy_ns = [&](const Strides& src) {
    const Copy copy = make_copy(DType::f32, type.shape, src, dense_strides(type.shape));
    return least_ns([&] { run_copy(copy, from.data(), to.data(), Worker{}); }) / k_n;
  };
  machine.copy_ns = copy_ns(dense_strides(type.shape));
  machine.copy_line_ns = std::max(0.0, copy_ns(Strides{k_columns / 2, 1}) - machine.copy_ns) * k_columns;
  machine.cross_ns = copy_ns(Strides{1, k_rows});
  Floats scratch(k_n);
  const auto sum_ns = [&](const Type& x, Index axis) {
    const Ints axes{axis};
    const Reduce reduce = make_reduce(Op::reduce_sum, x, axes);
    return least_ns([&] { run_reduce(reduce, from.data(), to.data(), scratch.data(), Worker{}); });
  };
  constexpr Index k_lines = 8, k_short = 64;
  const double lines = sum_ns({DType::f32, Shape{k_lines, k_n / k_lines}}, 1);
  const double narrow = sum_ns({DType::f32, Shape{k_lines, k_short}}, 1);
  machine.line_ns = std::max(0.0, lines - narrow) / (k_n - k_lines * k_short);
  machine.line_call_ns = std::max(0.0, narrow / k_lines - machine.line_ns * k_short);
  machine.rows_ns = sum_ns(type, 0) / k_n;
  const std::int32_t key[3] = {1, 2, 3};
  machine.random_ns = least_ns([&] { run_random_uniform(key, nullptr, 0, k_n, to.data(), Worker{}); }) / k_n;
}

}  // namespace

void measure_kernels(MachineModel& machine) {
  machine.f32 = measure_products(DType::f32);
  machine.bf16 = measure_products(DType::bf16);
  machine.dot_ns = measure_dots();
  measure_tiles(machine);
  measure_programs(machine);
  measure_moves(machine);
}

}  // namespace unroll::cpu
