// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/cost/machine_model.h"

#include <algorithm>

#include "backends/cpu/cost/kernel_clock.h"

namespace unroll::cpu {

namespace {

MachineModel::Products usual_products() {
  constexpr double k_flop_per_ns = 150, k_bytes_per_ns = 50, k_panel_columns = 32, k_tall = 12;
  MachineModel::Products p{};
  p.panel_columns = k_panel_columns;
  p.element_bytes = sizeof(float);
  p.panels_at_once = 32;
  p.tile_rows = k_tall;
  for (std::size_t i = 0; i < k_tile_rows; ++i) {
    p.next_rows_ns[i] = 2 * k_panel_columns * static_cast<double>(i + 1) / k_flop_per_ns;
    p.first_rows_ns[i] = std::max(p.next_rows_ns[i], k_panel_columns * sizeof(float) / k_bytes_per_ns);
  }
  p.tile_ns = 10;
  p.pack_ns = 0.1;
  p.pack_transposed_ns = p.turn_ns = 0.2;
  return p;
}

MachineModel make_usual() {
  MachineModel r{};
  r.f32 = r.bf16 = usual_products();
  r.dot_ns = 0.08;
  r.element_ns.assign(op_table().size(), 0);
  for (const OpInfo& info : op_table())
    if (is_elementwise(info.op))
      r.element_ns[static_cast<std::size_t>(info.op)] = info.cost == OpCost::expensive ? 0.6
                                                        : info.cost == OpCost::cheap   ? 0.06
                                                                                       : 0;
  r.operation_ns = 4;
  r.row_ns = 1;
  r.operand_ns = 4;
  r.program_ns = 20;
  r.splat_ns = 0.05;
  r.copy_ns = 0.1;
  r.cross_ns = r.line_ns = 0.3;
  r.rows_ns = 0.1;
  r.copy_line_ns = 5;
  r.line_call_ns = 5;
  r.random_ns = 1.5;
  r.call_ns = 15;
  r.barrier_ns = 700;  // includes the wait for the slower thread
  r.pool_ns = 2000;
  r.cache_bytes = {std::size_t{32} << 10, std::size_t{1} << 20, std::size_t{16} << 20, ~std::size_t{0}};
  r.one = {{{0, 0}, {0.02, 0.02}, {0.04, 0.06}, {0.08, 0.16}}};
  r.all = {{{0, 0}, {0.02, 0.02}, {0.05, 0.08}, {0.12, 0.24}}};
  return r;
}

}  // namespace

const MachineModel& usual_machine() {
  static const MachineModel machine = make_usual();
  return machine;
}

MachineModel measure_machine(const AnyPool& pool) {
  MachineModel machine = usual_machine();
  measure_kernels(machine);
  measure_memory(machine, pool);
  return machine;
}

}  // namespace unroll::cpu
