// SPDX-License-Identifier: Apache-2.0
// Containers indexed by the nodes and the values of a graph. They are sized once and do not follow a graph that grows.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "unroll/ir/graph.h"

namespace unroll {

// A std::vector that takes indices of any integer type: node numbers, axes, attributes.
template <class T>
class Table {
 public:
  using Items = std::vector<T>;

  Table() = default;
  template <std::integral Size>
  explicit Table(Size n, const T& item = T()) : items_(static_cast<std::size_t>(n), item) {}
  Table(Items items) : items_(std::move(items)) {}

  template <std::integral Index>
  typename Items::reference operator[](Index i) {
    return items_[static_cast<std::size_t>(i)];
  }
  template <std::integral Index>
  typename Items::const_reference operator[](Index i) const {
    return items_[static_cast<std::size_t>(i)];
  }

  std::size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  typename Items::reference back() { return items_.back(); }
  typename Items::const_reference back() const { return items_.back(); }
  void push_back(T item) { items_.push_back(std::move(item)); }
  template <std::integral Size>
  void assign(Size n, const T& item) {
    items_.assign(static_cast<std::size_t>(n), item);
  }
  void clear() { items_.clear(); }
  const Items& items() const { return items_; }
  friend bool operator==(const Table&, const Table&) = default;

 private:
  Items items_;
};

// One item for each node, indexed by its number.
template <class T>
class PerNode : public Table<T> {
 public:
  using Table<T>::Table;
  explicit PerNode(const Graph& graph, const T& item = T()) : Table<T>(graph.nodes().size(), item) {}
};

// One item for each value, indexed by its ValueId.
template <class T>
class PerValue {
 public:
  PerValue() = default;
  explicit PerValue(const Graph& graph, const T& item = T()) : items_(graph) {
    for (std::size_t n = 0; n < items_.size(); ++n) items_[n].assign(graph.nodes()[n].outputs.size(), item);
  }

  decltype(auto) operator[](const ValueId& id) { return items_[id.node][static_cast<std::size_t>(id.output)]; }
  decltype(auto) operator[](const ValueId& id) const { return items_[id.node][static_cast<std::size_t>(id.output)]; }

  // The items of the outputs of a node.
  std::vector<T>& of_node(std::integral auto node) { return items_[node]; }
  const std::vector<T>& of_node(std::integral auto node) const { return items_[node]; }
  std::size_t n_nodes() const { return items_.size(); }

 private:
  PerNode<std::vector<T>> items_;
};

}  // namespace unroll
