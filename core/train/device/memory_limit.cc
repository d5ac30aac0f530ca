// SPDX-License-Identifier: Apache-2.0
#include "core/train/device/memory_limit.h"

#include <algorithm>
#include <set>
#include <string>

#include "core/support/machine_memory.h"
#include "core/support/text/size_text.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

std::size_t constant_bytes(const Plan& plan) {
  std::size_t bytes = 0;
  for (const Node& node : plan.graph->nodes())
    if (node.op == Op::constant) bytes += node.outputs[0].bytes();
  return bytes;
}

std::size_t saved_values_bytes(const Plan& plan) {
  const Graph& graph = *plan.graph;
  const auto is_scan = [&](std::int32_t id) { return graph.node(id).op == Op::scan; };
  std::set<ValueId> saved;
  for (const Node& node : graph.nodes()) {
    if (node.op != Op::scan) continue;
    const bool reverse = scan_layout(node).reverse;
    for (const ValueId id : node.inputs)
      if (is_scan(id.node) && scan_layout(graph.node(id.node)).reverse != reverse &&
          plan.storage[id.node][id.output].place == Storage::Place::arena)
        saved.insert(id);
  }
  std::size_t bytes = 0;
  for (const ValueId id : saved) bytes += graph.type(id).bytes();
  return bytes;
}

std::size_t memory_for(const Backend& backend) {
  const std::size_t device = backend.describe().memory_bytes;
  return device > 0 ? device : free_memory();
}

void require_memory(RunEstimate& e, std::size_t limit) {
  std::erase_if(e.memory, [](const RunEstimate::Part& part) { return part.bytes == 0; });
  std::stable_sort(e.memory.begin(), e.memory.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  e.bytes = 0;
  for (const RunEstimate::Part& part : e.memory) e.bytes += part.bytes;
  if (limit == 0 || e.bytes <= limit) return;
  constexpr std::size_t k_named = 4;
  std::string largest;
  for (std::size_t i = 0; i < std::min(e.memory.size(), k_named); ++i)
    largest += (i == 0 ? "" : ", ") + e.memory[i].name + " " + size_text(e.memory[i].bytes);
  throw Error(ErrorKind::memory, "trainer",
              "the run needs " + size_text(e.bytes) + "; " + (e.on_device ? "the device has " : "the machine has ") +
                  size_text(limit) + " free. The largest: " + largest,
              "Take a smaller model or batch, or fewer steps");
}

}  // namespace unroll
