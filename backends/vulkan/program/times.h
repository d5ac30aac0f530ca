// SPDX-License-Identifier: Apache-2.0
// Times of nodes, by time stamps between their dispatches. Only some runs are timed, by a recording of their own, in
// which nodes do not overlap; of a loop one step in sixteen.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "backends/vulkan/device/context.h"

namespace unroll::vulkan {

struct NodeWork;

// Time stamps of one recording.
class TimeStamps {
 public:
  explicit TimeStamps(Context& context) : context_(context) {}
  ~TimeStamps();
  TimeStamps(const TimeStamps&) = delete;
  TimeStamps& operator=(const TimeStamps&) = delete;

  // Makes room for `most` spans; commands that reset it come first in the recording.
  void create(std::uint32_t most, VkCommandBuffer commands);
  // Spans beyond the room are left out. `weight`: how many such spans this one stands for.
  void begin(VkCommandBuffer commands, const NodeWork* work, double weight);
  void end(VkCommandBuffer commands);
  // Adds milliseconds of the run that has just finished.
  void add_to(std::map<const NodeWork*, double>& milliseconds) const;

 private:
  struct Span {
    const NodeWork* work;
    double weight;
    std::uint32_t first, last;  // queries
  };
  Context& context_;
  VkQueryPool pool_ = VK_NULL_HANDLE;
  std::uint32_t size_ = 0, used_ = 0;  // queries
  std::vector<Span> spans_;
  std::vector<int> open_;  // indices of spans; -1: left out
};

}  // namespace unroll::vulkan
