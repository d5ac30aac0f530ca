// SPDX-License-Identifier: Apache-2.0
// A table with one entry per op, sized by the op table itself, so that an op appended to it needs no other edit.
#pragma once

#include <cstddef>
#include <vector>

#include "unroll/ir/graph.h"

namespace unroll {

template <class T>
class OpMap {
 public:
  OpMap() : entries_(op_table().size()) {}

  std::size_t size() const { return entries_.size(); }
  void set(Op op, T entry) { entries_.at(static_cast<std::size_t>(op)) = std::move(entry); }
  // T() for an op without an entry, also one that the op table lacks.
  T find(Op op) const {
    const auto at = static_cast<std::size_t>(op);
    return at < entries_.size() ? entries_[at] : T();
  }

 private:
  std::vector<T> entries_;
};

}  // namespace unroll
