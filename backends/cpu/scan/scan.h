// SPDX-License-Identifier: Apache-2.0
// The time loop. In a packed scan a step runs on the live rows.
#pragma once

#include <string>
#include <vector>

#include "backends/cpu/scan/scan_buffers.h"
#include "backends/cpu/scan/scan_variants.h"

namespace unroll::cpu {

class ScanCall final : public Call {
 public:
  ScanCall(const PlanView& view, std::int32_t id, std::size_t& scratch_bytes);
  void run(const Frame& frame, const Worker& worker) override;
  std::string implementation() const override;
  bool settled() const override { return !variants_.open(); }
  void report(std::vector<ReportLine>& lines) const override { variants_.active().programs[0]->steps().report(lines); }
  double predicted_ns() const override { return variants_.predicted_ns(); }
  std::size_t held_bytes() const override { return buffers_.spill.size() + variants_.held_bytes(); }

 private:
  void run_lane(const Frame& frame, ScanLane& lane, const Worker& worker);
  void run_packed_steps(const Frame& frame, Frame& inner, ScanLane& lane, const Worker& worker);

  const ScanForm form_;
  ScanBuffers buffers_;
  ScanVariants variants_;
};

}  // namespace unroll::cpu
