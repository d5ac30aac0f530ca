// SPDX-License-Identifier: Apache-2.0
// Values: the outputs of nodes.
#pragma once

#include <compare>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "unroll/support/types.h"

namespace unroll {

// Output `output` of node `node`.
struct ValueId {
  std::int32_t node = -1;
  std::int32_t output = 0;
  friend auto operator<=>(const ValueId&, const ValueId&) = default;
};

class Graph;
struct Node;

// A handle to one value of a graph. It is cheap to copy and valid as long as the graph exists. References from type(),
// shape() and node() are valid until the next node is appended to the graph.
class UNROLL_API Value {
 public:
  Value() = default;
  Value(Graph* graph, ValueId id) : graph_(graph), id_(id) {}

  explicit operator bool() const { return graph_ != nullptr; }
  Graph& graph() const { return *graph_; }
  ValueId id() const { return id_; }
  const Type& type() const;
  const Shape& shape() const { return type().shape; }
  DType dtype() const { return type().dtype; }
  int rank() const { return shape().rank(); }
  const Node& node() const;
  friend bool operator==(const Value& a, const Value& b) { return a.graph_ == b.graph_ && a.id_ == b.id_; }

 private:
  Graph* graph_ = nullptr;
  ValueId id_;
};

// Values as an argument: {a, b}, a vector, an array or a span. It refers to the values and does not own them.
class ValueList : public std::span<const Value> {
 public:
  using span::span;
  ValueList() = default;
  ValueList(std::span<const Value> values) : span(values) {}
  ValueList(std::initializer_list<Value> values) : span(values.begin(), values.size()) {}
};

}  // namespace unroll
