// SPDX-License-Identifier: Apache-2.0
// A graph by its values, numbered in order: which others each one is computed from, and what is computed from it.
#pragma once

#include <cstdint>
#include <vector>

#include "unroll/graph.h"

namespace unroll::cli {

using Flags = std::vector<char>;  // of values
inline bool is_set(const Flags& flags, int v) { return flags[static_cast<std::size_t>(v)] != 0; }

class PlanValues {
 public:
  explicit PlanValues(const Graph& graph);

  int size() const { return static_cast<int>(needs_.size()); }
  int of(ValueId id) const { return first_[static_cast<std::size_t>(id.node)] + id.output; }
  std::int32_t node_id(int v) const { return nodes_[static_cast<std::size_t>(v)]; }
  const Node& node(int v) const { return graph_.node(node_id(v)); }
  std::vector<int> siblings(int v) const;  // all outputs of its node
  std::int64_t elements(int v) const;
  // Of one output of a fused node, only what its body computes it from.
  const std::vector<int>& needs(int v) const { return needs_[static_cast<std::size_t>(v)]; }

  // `from` and all they are computed from, or all that is computed from them.
  Flags ancestors(const std::vector<int>& from) const { return closure(from, needs_); }
  Flags descendants(const std::vector<int>& from) const { return closure(from, users_); }

 private:
  Flags closure(std::vector<int> open, const std::vector<std::vector<int>>& next) const;
  std::vector<int> needs_of(const Node& node, std::int32_t output) const;

  const Graph& graph_;
  std::vector<int> first_;           // [node] its first value
  std::vector<std::int32_t> nodes_;  // [value]
  std::vector<std::vector<int>> needs_, users_;
};

}  // namespace unroll::cli
