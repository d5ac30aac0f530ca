// SPDX-License-Identifier: Apache-2.0
// Tensors of a checkpoint.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "unroll/support/error.h"
#include "unroll/support/result.h"
#include "unroll/support/tensor.h"

namespace unroll::checkpoint {

struct NamedTensor {
  std::string name;    // "lstm.weight_ih_l0"
  Tensor tensor;       // f32, f64, i32 or b8; empty if it is unusable
  std::string stored;  // type in the file: "bf16[16,3]", and the name of the tensor that it is tied to
  Shape shape;         // [] if there are more dimensions than a tensor supports
  std::optional<Error> unusable;  // reason: its type, or an element out of range. Thrown when the tensor is read
};
struct Checkpoint {
  std::vector<NamedTensor> tensors;
  bool in_order = false;  // in the order in which the writing program registered them
  std::vector<std::string> skipped;  // classes and functions in the file whose objects were left out
};

// The tensor, or the reason of type input_file why it is unusable. Throws other errors.
NamedTensor named_tensor(const std::string& name, Result<Tensor> tensor, std::string stored, Shape shape);

}  // namespace unroll::checkpoint
