// SPDX-License-Identifier: Apache-2.0
// Inputs of one padded shape run together, in batches of two sizes, so that few programs are compiled.
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

// Rows of a full batch whose inputs have `elements` values each (tokens, logits): fewer where they are long, so that
// memory stays bounded.
inline std::int64_t prediction_rows(std::int64_t elements, std::int64_t most_elements = std::int64_t{1} << 15) {
  constexpr std::int64_t k_rows = 32;
  return std::clamp<std::int64_t>(most_elements / std::max<std::int64_t>(elements, 1), 1, k_rows);
}

// Calls run(part, B) with parts of `items`; B is 1 for a single item and `rows` otherwise: the rest of a batch is
// filled with empty inputs.
template <class F>
void for_each_batch(std::span<const std::size_t> items, std::int64_t rows, const F& run) {
  const auto most = static_cast<std::size_t>(rows);
  for (std::size_t at = 0; at < items.size(); at += most) {
    const auto part = items.subspan(at, std::min(most, items.size() - at));
    run(part, part.size() == 1 ? 1 : rows);
  }
}

// The programs of the last used shapes.
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

// Error(usage) about input `index` of a span.
[[noreturn]] void refuse_input(std::string_view who, std::size_t index, const std::string& what);
// Throws Error(numeric) about input `index` unless all outputs of the model for it are finite.
void require_finite(std::string_view who, std::size_t index, std::span<const float> outputs);

// The labels by probability, equal ones in the order of the model; at most `top_k`, 0: all.
std::vector<ScoredLabel> ranked(std::span<const float> probabilities, const std::vector<std::string>& labels,
                                std::int64_t top_k);

}  // namespace unroll
