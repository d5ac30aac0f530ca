// SPDX-License-Identifier: Apache-2.0
// Batches of inputs with one padded shape, in two sizes, which keeps the number of compiled programs small.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unroll/passes/run.h"
#include "unroll/support/error.h"
#include "unroll/tasks/tasks.h"

namespace unroll {

// Returns the rows of a full batch of inputs with `elements` values each (tokens, logits). Long inputs get fewer rows,
// which bounds the memory.
inline std::int64_t prediction_rows(std::int64_t elements, std::int64_t most_elements = std::int64_t{1} << 15) {
  constexpr std::int64_t k_rows = 32;
  return std::clamp<std::int64_t>(most_elements / std::max<std::int64_t>(elements, 1), 1, k_rows);
}

// Calls run(part, B) with parts of `items`. B is 1 for a single item and `rows` otherwise; empty inputs fill up the
// batch.
template <class F>
void for_each_batch(std::span<const std::size_t> items, std::int64_t rows, const F& run) {
  const std::size_t most = rows;
  for (std::size_t at = 0; at < items.size(); at += most) {
    const auto part = items.subspan(at, std::min(most, items.size() - at));
    run(part, part.size() == 1 ? 1 : rows);
  }
}

// A cache of the last used programs by shape.
template <class Key>
class ProgramCache {
 public:
  template <class Make>
  std::shared_ptr<Program> get(const Key& key, const Make& make) {
    Entry& entry = entries_[key];
    entry.used = ++clock_;
    if (!entry.program) entry.program = make();
    const std::shared_ptr<Program> program = entry.program;
    if (entries_.size() > k_most) {
      const auto older = [](const auto& a, const auto& b) { return a.second.used < b.second.used; };
      entries_.erase(std::min_element(entries_.begin(), entries_.end(), older));
    }
    return program;
  }

 private:
  static constexpr std::size_t k_most = 48;
  struct Entry {
    std::shared_ptr<Program> program;
    std::uint64_t used = 0;
  };
  std::map<Key, Entry> entries_;
  std::uint64_t clock_ = 0;
};

// Throws Error(usage) unless the model was trained for `task`.
void require_task(const Metadata& metadata, std::string_view task, std::string_view who);

// Throws Error(usage) about input `index` of a span.
[[noreturn]] void refuse_input(std::string_view who, std::size_t index, const std::string& what);
// Throws Error(numeric) about input `index` unless all its outputs are finite.
void require_finite(std::string_view who, std::size_t index, std::span<const float> outputs);

// Returns the labels by descending probability, ties in the order of the model; at most `top_k`, 0: all.
std::vector<ScoredLabel> ranked(std::span<const float> probabilities, const std::vector<std::string>& labels,
                                std::int64_t top_k);

}  // namespace unroll
