// SPDX-License-Identifier: Apache-2.0
#include "core/autodiff/transplant.h"

#include <set>
#include <string>

#include "unroll/support/error.h"

namespace unroll {

namespace {

// Nodes that must be computed for `wanted`; calls met(v) for each use of a value of `stops`.
template <class IsStop, class Met>
std::vector<bool> nodes_before(const Graph& source, std::span<const ValueId> wanted, const IsStop& is_stop,
                               const Met& met) {
  std::vector<bool> needed(source.nodes().size(), false);
  const auto visit = [&](ValueId id) {
    if (is_stop(id)) {
      met(id);
    } else {
      needed[id.node] = true;
    }
  };
  for (const ValueId id : wanted) visit(id);
  for (std::size_t n = needed.size(); n-- > 0;)
    if (needed[n])
      for (const ValueId id : source.nodes()[n].inputs) visit(id);
  return needed;
}

}  // namespace

std::vector<ValueId> frontier(const Graph& source, std::span<const ValueId> wanted, std::span<const ValueId> stops) {
  const std::set<ValueId> stop_set(stops.begin(), stops.end());
  std::set<ValueId> met;
  nodes_before(
      source, wanted, [&](ValueId id) { return stop_set.contains(id); }, [&](ValueId id) { met.insert(id); });
  return {met.begin(), met.end()};
}

std::vector<Value> transplant(Graph& target, const Graph& source, std::span<const ValueId> wanted,
                              std::map<ValueId, Value> given) {
  const std::vector<bool> needed = nodes_before(
      source, wanted, [&](ValueId id) { return given.contains(id); }, [](ValueId) {});
  for (std::size_t n = 0; n < needed.size(); ++n) {
    if (!needed[n]) continue;
    const Node& node = source.nodes()[n];
    if (node.op == Op::input)
      throw Error(ErrorKind::internal, "transplant",
                  "input '" + node.attributes.get<std::string>("name") + "' is not given");
    std::vector<Value> operands;
    for (const ValueId id : node.inputs) operands.push_back(given.at(id));
    const std::vector<Value> results = target.append_copy(source, node, operands);
    for (std::size_t k = 0; k < results.size(); ++k)
      given.try_emplace({static_cast<std::int32_t>(n), static_cast<std::int32_t>(k)}, results[k]);
  }
  std::vector<Value> copies;
  for (const ValueId id : wanted) copies.push_back(given.at(id));
  return copies;
}

}  // namespace unroll
