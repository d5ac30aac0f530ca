// SPDX-License-Identifier: Apache-2.0
// Checks that an imported model computes the same as in its original program.
#pragma once

#include <string>

#include "frontends/cli/terminal/report.h"
#include "unroll/tasks/inference.h"

namespace unroll::cli {

// Outputs y of the `reference` backend, and the amplification of rounding: the relative L2 difference of `cpu`.
struct Expected {
  Tensor y;
  double amplified = 0;
};
Expected expected_output(const Inference& inference, const TensorMap& parameters, const TensorMap& inputs);

// ||found - wanted|| / ||wanted||, infinity if shapes differ.
double relative_l2(const Tensor& found, const Tensor& wanted);
// Returns the tolerance of relative_l2: 84 roundings of f32, as reordered sums cause, times the model's amplification.
double import_tolerance(const Expected& expected);

// Compares with the tensors `input` and `output` of a safetensors file; with batch_first axis B comes first if they
// have T and B. Throws Error(differ), and Error(input_file | shape | type) if they do not fit.
Report check_sample(const Inference& inference, const TensorMap& parameters, const std::string& file,
                    bool batch_first);

}  // namespace unroll::cli
