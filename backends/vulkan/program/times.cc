// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/program/times.h"

#include <utility>

namespace unroll::vulkan {

TimeStamps::~TimeStamps() {
  if (pool_) context_.device.f().DestroyQueryPool(context_.device.handle(), pool_, nullptr);
}

void TimeStamps::create(std::uint32_t most, VkCommandBuffer commands) {
  VkQueryPoolCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
  info.queryType = VK_QUERY_TYPE_TIMESTAMP;
  info.queryCount = 2 * most;
  const Functions& f = context_.device.f();
  context_.device.check(f.CreateQueryPool(context_.device.handle(), &info, nullptr, &pool_), "vkCreateQueryPool");
  size_ = info.queryCount;
  f.CmdResetQueryPool(commands, pool_, 0, size_);
}

void TimeStamps::begin(VkCommandBuffer commands, const NodeWork* work, double weight) {
  if (used_ + 2 > size_) return open_.push_back(-1);
  open_.push_back(static_cast<int>(spans_.size()));
  spans_.push_back({work, weight, used_, used_ + 1});
  context_.device.f().CmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pool_, used_);
  used_ += 2;
}

void TimeStamps::end(VkCommandBuffer commands) {
  const int span = open_.back();
  open_.pop_back();
  if (span >= 0)
    context_.device.f().CmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pool_, spans_[span].last);
}

void TimeStamps::add_to(Times& milliseconds) const {
  if (used_ == 0) return;
  std::vector<std::uint64_t> ticks(used_);
  const Limits& limits = context_.device.limits();
  context_.device.check(
      context_.device.f().GetQueryPoolResults(context_.device.handle(), pool_, 0, used_, ticks.size() * 8, ticks.data(),
                                              8, VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
      "vkGetQueryPoolResults");
  for (const Span& span : spans_)
    milliseconds[span.work] += span.weight * 1e-6 * limits.tick *
                               static_cast<double>((ticks[span.last] - ticks[span.first]) & limits.tick_mask);
}

void SampledTimes::add(Times times, std::int64_t run) {
  if (!latest_.empty()) {
    before_ = total(run);
    from_ = run;
  }
  latest_ = std::move(times);
}

Times SampledTimes::total(std::int64_t runs) const {
  Times all = before_;
  for (const auto& [work, time] : latest_) all[work] += time * static_cast<double>(runs - from_);
  return all;
}

}  // namespace unroll::vulkan
