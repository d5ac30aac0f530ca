// SPDX-License-Identifier: Apache-2.0
#include "backends/device/touched.h"

#include <algorithm>
#include <iterator>

namespace unroll::device {

namespace {

using Ranges = std::map<std::size_t, std::size_t>;

bool overlaps(const Ranges& ranges, std::size_t begin, std::size_t end) {
  auto next = ranges.lower_bound(begin);
  if (next != ranges.end() && next->first < end) return true;
  return next != ranges.begin() && std::prev(next)->second > begin;
}

void add(Ranges& ranges, std::size_t begin, std::size_t end) {
  auto next = ranges.upper_bound(begin);
  if (next != ranges.begin() && std::prev(next)->second >= begin) --next;
  while (next != ranges.end() && next->first <= end) {
    begin = std::min(begin, next->first);
    end = std::max(end, next->second);
    next = ranges.erase(next);
  }
  ranges.emplace(begin, end);
}

}  // namespace

bool Touched::conflicts(const std::vector<Touch>& touches) const {
  return std::any_of(touches.begin(), touches.end(), [&](const Touch& touch) {
    const auto at = memory_.find(touch.memory);
    if (at == memory_.end() || touch.begin >= touch.end) return false;
    if (overlaps(at->second.written, touch.begin, touch.end)) return true;
    return touch.writes && overlaps(at->second.read, touch.begin, touch.end);
  });
}

void Touched::add(const std::vector<Touch>& touches) {
  for (const Touch& touch : touches) {
    if (touch.begin >= touch.end) continue;
    Memory& memory = memory_[touch.memory];
    device::add(touch.writes ? memory.written : memory.read, touch.begin, touch.end);
  }
}

}  // namespace unroll::device
