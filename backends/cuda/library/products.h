// SPDX-License-Identifier: Apache-2.0
// Products that cuBLASLt computes together with the node after them, and products in tf32.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "backends/common/hazards.h"
#include "backends/cuda/library/blas.h"
#include "unroll/passes/backend.h"

namespace unroll::cuda {

// A product whose only reader adds a bias, or keeps what is positive, or both. It runs in the place of that reader.
struct BlasGroup {
  std::int32_t product = -1, epilogue = -1;  // nodes
  BlasExtras extras = {};
  ValueId bias = {};    // where there is one
  ValueId result = {};  // of the epilogue
};
// `is_body`: of a loop, where the address of an input differs from step to step.
std::vector<BlasGroup> blas_groups(const Plan& plan, const common::Hazards& hazards, bool is_body);

// The values of a plan and of the bodies of its loops that are tf32 numbers: results of round_tf32, also where they
// were moved, selected or stacked since.
class Tf32Values {
 public:
  Tf32Values() = default;  // none
  explicit Tf32Values(const Plan& plan);
  bool has(ValueId value) const {
    return !values_.empty() && values_[value.node][value.output];
  }
  const Tf32Values& body(std::int32_t scan) const;

 private:
  Tf32Values(const Plan& plan, const std::vector<bool>& inputs);
  std::vector<bool> scan_outputs(const Plan& plan, std::int32_t node);

  std::vector<std::vector<bool>> values_;         // [node][output]; empty: none
  std::map<std::int32_t, Tf32Values> bodies_ = {};  // of scans
};

}  // namespace unroll::cuda
