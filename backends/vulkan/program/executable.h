// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <list>
#include <memory>
#include <vector>

#include "backends/vulkan/program/record.h"

namespace unroll::vulkan {

class VulkanExecutable final : public Executable {
 public:
  VulkanExecutable(std::shared_ptr<Context> context, std::shared_ptr<const Plan> plan);
  ~VulkanExecutable() override;
  void run(const Bindings& bindings) override;
  std::vector<ReportLine> report() const override;
  std::size_t workspace_bytes() const override;

 private:
  // Blocks and offsets of all bound buffers.
  using Key = std::vector<std::pair<std::uint64_t, std::size_t>>;
  struct Recorded {
    Key key;
    bool timed;
    std::shared_ptr<Recording> recording;
  };
  const std::shared_ptr<Recording>& recording_for(const Bindings& bindings, bool timed);
  void take_times() const;  // of the last timed run, which must be complete
  void release() noexcept;

  std::shared_ptr<Context> context_;
  std::shared_ptr<const Plan> plan_;
  Program program_;
  Held held_;
  std::int64_t runs_ = 0, last_timed_ = 0;
  mutable std::shared_ptr<Recording> running_;  // of run last_timed_, whose times are not taken yet
  mutable SampledTimes times_;
  std::list<Recorded> recorded_;  // the latest first
};

}  // namespace unroll::vulkan
