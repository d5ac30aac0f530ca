// SPDX-License-Identifier: Apache-2.0
// A product by a resident weight and what follows it, as a part of a loop's kernel. Threads of a block: 8 warps. A warp
// has a slice of the sum over k for all columns of the block and some rows at a time; its sums go to shared memory,
// where the threads that own the elements of the result add them up in the order of the slices (prelude.cc).
#include <algorithm>
#include <string>

#include "backends/cuda/resident/resident.h"

namespace unroll::cuda {

namespace {

// "struct UNROLL_LOOP_weight0 { static constexpr int K = 256, ...; };": UNROLL_LOOP is the name of the loop's kernel.
std::string constants(const ResidentProduct& p, const std::string& name) {
  const std::pair<const char*, std::int64_t> all[] = {
      {"K", p.k},
      {"WIDTH", p.n},
      {"GATES", p.gates},
      {"UNITS", p.units},
      {"OWN", p.own},
      {"COLUMNS", p.columns},
      {"ROW", p.row},
      {"ROWS", p.tile_rows},
      {"PITCH", p.pitch()},
      {"SLICE", p.slice},
      {"SLICES", p.slices},
      {"KIND", static_cast<std::int64_t>(p.kind)},
      {"AT", static_cast<std::int64_t>(p.shared_at)},
      {"TERMS", p.terms()},
      {"TILES", p.is_tensor() ? p.columns / (p.is_wgmma ? 64 : 16) : 0},
      {"FRAGMENTS", p.fragments},
      {"K_PADDED", (p.k + 3) / 4 * 4},
      {"LANES", p.lanes},
      {"QUADS", p.is_tensor() ? 0 : p.columns / 4 / p.lanes},
      {"THREAD_ROWS", p.is_tensor() ? 0 : p.tile_rows * p.lanes / 32},
      {"TRANSPOSED", p.transposed},
      {"VECTORS", p.vectors},
      {"ROUNDS", p.rounding >= 0},
      {"IN_REGISTERS", p.in_registers},
  };
  std::string list;
  for (const auto& [word, value] : all)
    list += (list.empty() ? "" : ", ") + std::string(word) + " = " + decimal(value);
  return "struct " + name + " {\n  static constexpr int " + list + ";\n};\n";
}

std::string weight_name(int number) { return "UNROLL_LOOP_weight" + std::to_string(number); }

// Element e of the tile.
std::string element(const UnitPrinter& printer, const std::string& e, const std::string& indent) {
  return indent + "const " + printer.index() + " unit = first_unit + " + e + " % P::OWN, row = tile + " + e +
         " / P::OWN;\n";
}

// Prints `rows`, from which the product reads its operand. The block takes from memory what the buffer lacks: a first
// state, rows that begin in this step, all rows if the blocks are no cluster.
std::string print_operand(const ResidentProduct& p) {
  const std::string type = "unroll_rows<P, " + std::string(is_half(p.a_dtype) ? "uint16_t" : "float") + ">";
  if (p.buffer < 0) return "  const " + type + " rows = {a};\n";
  return "  typedef UNROLL_LOOP_buffer" + decimal(p.buffer) + " B;\n" +
         "  char* const slot = unroll_slot<B>(int(n.from >> 1));\n" +
         "  const int there = (n.from & 1) != 0 ? *unroll_rows_of<B>(slot) : 0;\n" +
         "  const int from = there > rows_begin ? there : rows_begin;\n" +
         "  if (from < rows_end) unroll_fill<B>(" + type + "{a}, slot, rows_begin, from, rows_end);\n" +
         "  const unroll_buffer_rows<B> rows = {slot, rows_begin};\n";
}

}  // namespace

std::string print_resident_product(const ResidentPlan& plan, int number, const UnitPrinter& printer,
                                   std::int64_t live_rows) {
  const ResidentProduct& p = plan.products[number];
  const bool early = p.tile_rows * p.own <= static_cast<std::int64_t>(k_resident_threads);
  const std::vector<PassedResult>& passed = printer.passed();
  std::string all = print_exchange_sizes(p.buffer >= 0, passed) + "extern \"C\" __global__ void KERNEL(const ";
  all += (is_half(p.a_dtype) ? "uint16_t" : "float") + std::string("* a, ") + printer.parameters() +
         "KERNEL_sizes n) {\n  typedef " + weight_name(number) + " P;\n" +
         print_owned(plan.map, p.m, p.units, live_rows) + print_slots(passed);
  all += "  if (first_unit >= P::UNITS) return;\n  const int thread = int(threadIdx.x);\n";
  all += "  float* const all_sums = (float*)(unroll_shared_memory() + " +
         decimal(static_cast<std::int64_t>(plan.sums_at)) + ");\n";
  all += print_operand(p);
  all += "  for (int tile = rows_begin; tile < rows_end; tile += P::ROWS) {\n";
  if (early)  // what does not wait for the product is on its way meanwhile
    all += element(printer, "thread", "    ") +
           "    const bool there = thread < P::ROWS * P::OWN && unit < P::UNITS && row < rows_end;\n" +
           printer.places("    ") + printer.early_loads("    ", "there");
  if (p.is_wgmma) all += "    unroll_wgmma_sums<P, B>(slot, weights, all_sums, tile - rows_begin);\n";
  else if (!p.is_tensor()) all += "    unroll_fma_sums<P>(rows, all_sums, tile, rows_end);\n";
  else if (p.in_registers) all += "    unroll_tensor_sums<P>(rows, weights, all_sums, tile, rows_end);\n";
  else
    all += "    const unroll_shared_fragments weights = {unroll_fragments_of<P>(thread / 32, thread % 32)};\n"
           "    unroll_tensor_sums<P>(rows, weights, all_sums, tile, rows_end);\n";
  all += "    __syncthreads();\n";
  all += early ? "    if (there) {\n      const int e = thread;\n"
               : "    for (int e = thread; e < P::ROWS * P::OWN; e += " + decimal(k_resident_threads) + ") {\n" +
                     element(printer, "e", "      ") + "      if (unit >= P::UNITS || row >= rows_end) continue;\n" +
                     printer.places("      ");
  all += "      const float* const sums = all_sums + e / P::OWN * P::PITCH + e % P::OWN;\n";
  for (std::int64_t gate = 0; gate < p.gates; ++gate)
    all += "      const float s" + decimal(gate) + " = unroll_add_slices<P>(sums + " + decimal(gate) + " * P::OWN);\n";
  return all + printer.statements("      ", early) + "    }\n    __syncthreads();\n  }\n" +
         print_sends(plan, passed, p.units) + "}\n";
}

ResidentPart print_resident_weight(const ResidentPlan& plan, int number) {
  const ResidentProduct& p = plan.products[number];
  const bool is_narrow = p.kind == ProductKind::bf16 || p.kind == ProductKind::f16;
  const std::string name = weight_name(number), n = decimal(number);
  const std::string from = std::string("(const ") + (is_narrow ? "uint16_t" : "float") + "*)table[" + n +
                           "], int(blockIdx.x % " + decimal(plan.map.blocks) + "u) * " + name + "::OWN);\n";
  ResidentPart part;
  part.prologue = constants(p, name);
  if (p.in_registers) {
    part.variables = "  uint4 weights" + n + "[" + name + "::FRAGMENTS] = {};\n  unroll_keep_" +
                     (p.is_wgmma ? "wgmma<" : "fragments<") + name + ">(weights" + n + ", " + from;
    part.parameter = "const uint4 (&weights)[" + name + "::FRAGMENTS], ";
    part.argument = "weights" + n;
  } else {
    part.variables = (p.is_tensor() ? "  unroll_load_fragments<" : "  unroll_load_columns<") + name + ">(" + from;
  }
  return part;
}

}  // namespace unroll::cuda
