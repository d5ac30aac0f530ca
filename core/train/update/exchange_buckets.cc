// SPDX-License-Identifier: Apache-2.0
#include "core/train/update/exchange_buckets.h"

#include <algorithm>
#include <map>

#include "unroll/ir/per_node.h"

namespace unroll {

namespace {

// Loops on the longest path to each value. `before`: to each input.
PerValue<int> loops_to(const Graph& graph, const std::vector<int>& before) {
  PerValue<int> loops(graph);
  std::size_t inputs = 0;
  for (std::size_t id = 0; id < graph.nodes().size(); ++id) {
    const Node& node = graph.nodes()[id];
    std::vector<int> operands;
    for (const ValueId& from : node.inputs) operands.push_back(loops[from]);
    int most = node.op == Op::input ? before[inputs++] : node.op == Op::scan ? 1 : 0;
    if (!operands.empty()) most += *std::max_element(operands.begin(), operands.end());
    std::vector<int>& here = loops.of_node(id);
    here.assign(node.outputs.size(), most);
    if (op_info(node.op).tier != OpTier::composite && node.op != Op::gradient) continue;
    const auto body = composite_body(graph, node);
    const PerValue<int> inside = loops_to(*body, operands);
    for (std::size_t k = 0; k < node.outputs.size(); ++k) here[k] = inside[body->outputs()[k].value];
  }
  return loops;
}

}  // namespace

std::vector<int> exchange_buckets(std::span<const Value> gradients) {
  constexpr std::size_t k_least_bytes = 64 << 10;  // of a bucket: messages of fewer take no less time
  if (gradients.empty()) return {};
  const Graph& graph = gradients[0].graph();
  const PerValue<int> loops = loops_to(graph, std::vector<int>(graph.inputs().size(), 0));
  std::map<int, std::size_t> bytes;  // by loops
  for (const Value& g : gradients) bytes[loops[g.id()]] += g.type().bytes();
  std::map<int, int> bucket_of;
  int bucket = 0;
  std::size_t so_far = 0;
  for (const auto& [n, size] : bytes) {
    bucket_of[n] = bucket;
    so_far += size;
    if (so_far < k_least_bytes) continue;
    so_far = 0;
    ++bucket;
  }
  std::vector<int> all;
  for (const Value& g : gradients) all.push_back(bucket_of.at(loops[g.id()]));
  return all;
}

}  // namespace unroll
