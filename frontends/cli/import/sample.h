// SPDX-License-Identifier: Apache-2.0
// An imported model computes what it computed where it comes from.
#pragma once

#include <string>

#include "frontends/cli/terminal/report.h"
#include "unroll/tasks/inference.h"

namespace unroll::cli {

// What the `reference` backend computes from the inputs, y alone, and how much the model amplifies rounding: the
// relative L2 difference of `cpu` from it.
struct Expected {
  Tensor y;
  double amplified = 0;
};
Expected expected_output(const Inference& inference, const TensorMap& parameters, const TensorMap& inputs);

// ||found - wanted|| / ||wanted||, infinity if shapes differ.
double relative_l2(const Tensor& found, const Tensor& wanted);
// The tolerance of that: 84 roundings of f32, as sums in another order make, and what the model makes of them.
double import_tolerance(const Expected& expected);

// Compares with the tensors `input` and `output` of a safetensors file; with batch_first they begin with the axis B,
// where they have T and B. Throws Error(differ), and Error(input_file | shape | type) when they do not fit.
Report check_sample(const Inference& inference, const TensorMap& parameters, const std::string& file,
                    bool batch_first);

}  // namespace unroll::cli
