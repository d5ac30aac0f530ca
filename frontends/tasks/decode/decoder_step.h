// SPDX-License-Identifier: Apache-2.0
// The program of a decoder's step with buffers of its own. It runs many times; what stays the same is copied once.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "unroll/run.h"
#include "unroll/tensor.h"

namespace unroll {

class DecoderStep {
 public:
  explicit DecoderStep(std::shared_ptr<Program> program);
  // Sets an input by name; it keeps its value until it is set again. Throws Error(usage) on an unknown name and
  // Error(shape) on a tensor of another type.
  void set(std::string_view name, const Tensor& tensor);
  // Entry `row` of axis 0 of an input.
  void set_row(std::string_view name, std::size_t row, std::span<const std::byte> bytes);
  // Runs once every input is set.
  void run();
  const Type& output_type(std::string_view name) const;
  // An output of the last run, f32. The caller may overwrite it.
  std::span<float> output(std::string_view name);

 private:
  struct Port {
    Type type;
    std::unique_ptr<Buffer> buffer;
  };
  using Ports = std::map<std::string, Port, std::less<>>;
  const Port& port(const Ports& ports, std::string_view name) const;

  std::shared_ptr<Program> program_;
  Ports inputs_, outputs_;
  Bindings bindings_;
  std::map<std::string, Tensor, std::less<>> copies_;  // of outputs that do not lie in the host's memory
};

}  // namespace unroll
