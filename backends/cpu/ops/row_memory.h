// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <iterator>
#include <map>

namespace unroll::cpu {

// Allocates bytes of a row, first fit.
class RowMemory {
 public:
  std::int64_t take(std::int64_t bytes) {
    for (auto at = free_.begin(); at != free_.end(); ++at) {
      if (at->second < bytes) continue;
      const auto [offset, size] = *at;
      free_.erase(at);
      if (size > bytes) free_[offset + bytes] = size - bytes;
      return offset;
    }
    const std::int64_t offset = end_;
    end_ += bytes;
    return offset;
  }
  void give_back(std::int64_t offset, std::int64_t bytes) {
    auto at = free_.emplace(offset, bytes).first;
    if (const auto next = std::next(at); next != free_.end() && at->first + at->second == next->first) {
      at->second += next->second;
      free_.erase(next);
    }
    if (at == free_.begin()) return;
    const auto before = std::prev(at);
    if (before->first + before->second != at->first) return;
    before->second += at->second;
    free_.erase(at);
  }
  std::int64_t end() const { return end_; }

 private:
  std::map<std::int64_t, std::int64_t> free_;  // offset -> bytes
  std::int64_t end_ = 0;
};

}  // namespace unroll::cpu
