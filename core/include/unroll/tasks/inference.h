// SPDX-License-Identifier: Apache-2.0
// Trained tasks as networks from named inputs to named outputs, for whole sequences. `Model` runs them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "unroll/model/network.h"
#include "unroll/support/export.h"
#include "unroll/support/tensor.h"
#include "unroll/support/types.h"
#include "unroll/tasks/shared.h"

namespace unroll {

// One axis of a tensor: a letter if each run chooses the size, a number if the model fixes it.
struct Axis {
  std::string letter;     // "T" steps, "B" sequences, ...; empty: fixed
  std::int64_t size = 0;  // if fixed
};
struct UNROLL_API TensorSpec {
  std::string name;
  DType dtype = DType::f32;
  std::vector<Axis> axes;
  std::string text() const;  // "f32[T,B,28]"
};

// unroll/tasks/NAME.h documents the inputs and outputs of each task. T steps, B sequences, V tokens, S series, H
// horizon, K labels; `lengths` i32 [B] count the steps of each sequence; padding is not read.
struct Inference {
  std::vector<TensorSpec> inputs = {}, outputs = {};
  // Inputs that continue a sequence: the output of the same name is the value after the last step. Start with zeros.
  std::vector<std::string> states = {};
  Network network = {};
};
// Builds the inference from the metadata of a checkpoint. Throws Error(input_file) on incomplete ones or unknown tasks.
UNROLL_API Inference task_inference(const Metadata& metadata);

// Returns the sizes of the letters in a set of inputs. Throws Error(usage) on a missing or unknown name, Error(type) on
// a wrong dtype, and Error(shape) on a wrong size or one letter with two sizes. Each error names the input.
UNROLL_API std::map<std::string, std::int64_t> bind_sizes(const Inference& inference, const TensorMap& inputs);
// Returns zeros for the states missing in `inputs`: together they start a new sequence. Throws like bind_sizes.
UNROLL_API TensorMap zero_states(const Inference& inference, const TensorMap& inputs);
// Returns the shape of a tensor for the given sizes.
UNROLL_API Shape shape_of(const TensorSpec& spec, const std::map<std::string, std::int64_t>& sizes);

}  // namespace unroll
