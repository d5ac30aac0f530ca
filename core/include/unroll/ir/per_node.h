// SPDX-License-Identifier: Apache-2.0
// Containers with an item for each node or value of a graph. They are sized once and do not follow a graph that grows.
#pragma once

#include <cstddef>
#include <vector>

#include "unroll/ir/graph.h"

namespace unroll {

// Indexed by the number of a node.
template <class T>
class PerNode : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  explicit PerNode(const Graph& graph, const T& item = T()) : std::vector<T>(graph.nodes().size(), item) {}
};

// Indexed by ValueId.
template <class T>
class PerValue {
 public:
  PerValue() = default;
  explicit PerValue(const Graph& graph, const T& item = T()) : items_(graph) {
    for (std::size_t n = 0; n < items_.size(); ++n) items_[n].assign(graph.nodes()[n].outputs.size(), item);
  }

  decltype(auto) operator[](const ValueId& id) { return items_[id.node][id.output]; }
  decltype(auto) operator[](const ValueId& id) const { return items_[id.node][id.output]; }

  // The items of the outputs of a node.
  std::vector<T>& of_node(std::size_t node) { return items_[node]; }
  const std::vector<T>& of_node(std::size_t node) const { return items_[node]; }
  std::size_t n_nodes() const { return items_.size(); }

 private:
  PerNode<std::vector<T>> items_;
};

}  // namespace unroll
