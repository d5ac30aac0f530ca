// SPDX-License-Identifier: Apache-2.0
// A program with buffers of its own that runs many times: what stays the same from run to run is copied once.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "unroll/run.h"
#include "unroll/tensor.h"

namespace unroll {

class BoundProgram {
 public:
  explicit BoundProgram(std::shared_ptr<Program> program);
  // Sets inputs by name; they keep their values until they are set again. Throws Error(usage) on an unknown name and
  // Error(shape) on a tensor of another type.
  void set(std::string_view name, const Tensor& tensor);
  void set(const TensorMap& tensors) {
    for (const auto& [name, tensor] : tensors) set(name, tensor);
  }
  // Runs once every input is set, and returns all outputs.
  const TensorMap& run();

 private:
  std::shared_ptr<Program> program_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  Bindings bindings_;
  TensorMap outputs_;
};

}  // namespace unroll
