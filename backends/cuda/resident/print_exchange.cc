// SPDX-License-Identifier: Apache-2.0
// The text of exchanges through shared memory, in parts of a loop's kernel and around them.
#include <algorithm>
#include <iterator>

#include "backends/cuda/resident/resident.h"

namespace unroll::cuda {

namespace {

std::string buffer_name(int number) { return "UNROLL_LOOP_buffer" + decimal(number); }

}  // namespace

std::string print_buffers(const ResidentPlan& plan) {
  std::string all;
  for (int number = 0; number < static_cast<int>(plan.buffers.size()); ++number) {
    const ExchangeBuffer& b = plan.buffers[number];
    const ResidentProduct& p = plan.products[b.products[0]];
    all += "struct " + buffer_name(number) + " {\n  static constexpr int AT = " +
           decimal(static_cast<std::int64_t>(b.at)) + ", SLOT = " + decimal(b.slot) + ", CHUNK = " +
           decimal(b.chunk) + ", VECTOR = " + decimal(b.vector()) +
           ", KIND = " + decimal(static_cast<std::int64_t>(p.kind)) + ", ROUNDS = " + decimal(p.rounding >= 0) +
           ", K = " + decimal(b.k) + ", BLOCKS = " + decimal(plan.map.blocks) + ";\n};\n";
  }
  return all;
}

std::string print_exchange_sizes(bool reads, const std::vector<PassedResult>& passed) {
  std::string words = reads ? "from" : "";
  for (const int buffer : buffers_of(passed)) words += (words.empty() ? "to" : ", to") + decimal(buffer);
  return "struct KERNEL_sizes { long long " + (words.empty() ? "none" : words) + "; };\n";
}

std::string print_slots(const std::vector<PassedResult>& passed) {
  std::string all;
  for (const int buffer : buffers_of(passed)) {
    const std::string n = decimal(buffer), type = buffer_name(buffer);
    all += "  const int to" + n + " = int(n.to" + n + " >> 1);\n  char* const slot" + n + " = unroll_slot<" + type +
           ">(to" + n + ");\n  if (to" + n + " >= 0 && threadIdx.x == 0u) *unroll_rows_of<" + type + ">(slot" + n +
           ") = rows_end;\n";
  }
  return all;
}

std::string print_sends(const ResidentPlan& plan, const std::vector<PassedResult>& passed, std::int64_t units) {
  const std::pair<std::int64_t, const char*> vectors[] = {
      {16, "uint4"}, {8, "uint2"}, {4, "unsigned"}, {2, "uint16_t"}};
  const std::int64_t own = plan.map.own_units(units);
  bool has_wgmma = false;
  for (const ResidentProduct& p : plan.products) has_wgmma = has_wgmma || p.is_wgmma;
  std::string all;
  for (const PassedResult& each : passed) {
    const ExchangeBuffer& b = plan.buffers[each.buffer];
    const auto element = static_cast<std::int64_t>(b.element);
    const auto widest = std::find_if(std::begin(vectors), std::end(vectors), [&](const auto& vector) {
      return (own * element) % vector.first == 0 && (units * element) % vector.first == 0 &&
             (each.first * element) % vector.first == 0;
    });
    const std::string n = decimal(each.buffer), first = decimal(each.first), end = "first_unit + " + decimal(own);
    all += "  if (to" + n + " >= 0)\n    unroll_send<" + buffer_name(each.buffer) + ", " + widest->second + ">(slot" +
           n + ", rows_end - rows_begin, " + first + " + first_unit,\n      " + first + " + (" + end + " < " +
           decimal(units) + " ? " + end + " : " + decimal(units) + "));\n";
  }
  if (has_wgmma && !passed.empty()) all += "  unroll_proxy_fence();\n";
  return all;
}

std::string print_begin(const ResidentPlan& plan) {
  if (plan.buffers.empty()) return {};
  const std::size_t begin = plan.buffers.front().at;
  return "  unroll_clear(" + decimal(static_cast<std::int64_t>(begin)) + ", " +
         decimal(static_cast<std::int64_t>(plan.shared_bytes - begin)) +
         ");\n  if (n.clustered != 0) unroll_cluster_wait(" + decimal(plan.map.blocks) + "u);\n";
}

std::string print_unit_kernel(const UnitPrinter& printer, const ResidentPlan& plan, std::int64_t live_rows) {
  const std::string own = decimal(plan.map.own_units(printer.units())), index = printer.index();
  const std::vector<PassedResult>& passed = printer.passed();
  return print_exchange_sizes(false, passed) + "extern \"C\" __global__ void KERNEL(" + printer.parameters() +
         "KERNEL_sizes n) {\n" + print_owned(plan.map, printer.rows(), printer.units(), live_rows) +
         print_slots(passed) +
         "  for (int e = int(threadIdx.x); e < (rows_end - rows_begin) * " + own + "; e += int(blockDim.x)) {\n" +
         "    const " + index + " unit = first_unit + e % " + own + ", row = rows_begin + e / " + own + ";\n" +
         "    if (unit >= " + decimal(printer.units()) + ") continue;\n" + printer.places("    ") +
         printer.statements("    ", false) + "  }\n" + (passed.empty() ? "" : "  __syncthreads();\n") +
         print_sends(plan, passed, printer.units()) + "}\n";
}

}  // namespace unroll::cuda
