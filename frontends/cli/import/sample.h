// SPDX-License-Identifier: Apache-2.0
// Checks that an imported model computes the same as in its original program.
#pragma once

#include <string>

#include "frontends/cli/terminal/report.h"
#include "unroll/tasks/inference.h"

namespace unroll::cli {

// Compares with the tensors `input` and `output` of a safetensors file; with batch_first axis B comes first if they
// have T and B. Throws Error(differ), and Error(input_file | shape | type) if they do not fit.
Report check_sample(const Inference& inference, const TensorMap& parameters, const std::string& file,
                    bool batch_first);

}  // namespace unroll::cli
