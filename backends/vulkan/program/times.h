// SPDX-License-Identifier: Apache-2.0
// Times of nodes, by time stamps between their dispatches. Only some runs are timed, by a recording of their own, in
// which nodes do not overlap; of a loop one step in sixteen.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "backends/vulkan/program/context.h"

namespace unroll::vulkan {

struct NodeWork;
using Times = std::map<const NodeWork*, double>;  // milliseconds

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
  void add_to(Times& milliseconds) const;

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

// Times of all runs where only some are timed. Other runs count as the last timed one before them, and those before the
// first timed one as it. So no total is less than that of fewer runs, whatever is timed later.
class SampledTimes {
 public:
  // `run` counts all runs from 0, and is larger than in the call before.
  void add(Times times, std::int64_t run);
  Times total(std::int64_t runs) const;

 private:
  Times before_, latest_;
  std::int64_t from_ = 0;  // the first run that latest_ stands for
};

}  // namespace unroll::vulkan
