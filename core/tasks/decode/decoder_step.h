// SPDX-License-Identifier: Apache-2.0
// The program of a decoder's step with buffers of its own. It runs many times; what stays the same is copied once.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unroll/passes/run.h"
#include "unroll/support/tensor.h"

namespace unroll {

class DecoderStep {
 public:
  explicit DecoderStep(std::shared_ptr<Program> program);
  // Inputs are zeros at first, and keep their values until they are set again. Throws Error(usage) on an unknown name
  // and Error(shape) on a tensor of another type.
  void set(std::string_view name, const Tensor& tensor);
  // Entry `row` of axis 0 of an input.
  void set_row(std::string_view name, std::size_t row, std::span<const std::byte> bytes);
  void run();

  bool has_output(std::string_view name) const { return outputs_.contains(name); }
  const std::vector<std::string>& states() const { return states_; }  // inputs that outputs of the same name follow
  const Type& type(std::string_view input) { return port(inputs_, input).type; }
  // f32 values where they lie, or copies on a backend with memory of its own: an input to be written before a run, and
  // an output of the last run (zeros before the first), which the caller may overwrite.
  std::span<float> input(std::string_view name);
  std::span<float> output(std::string_view name);

 private:
  struct Port {
    Type type;
    std::unique_ptr<Buffer> buffer;
    std::optional<Tensor> copy;  // of a buffer outside of the host's memory, while it is newer or as new
  };
  using Ports = std::map<std::string, Port, std::less<>>;
  Port& port(Ports& ports, std::string_view name) const;
  std::span<float> values(Port& port, bool known);

  std::shared_ptr<Program> program_;
  Ports inputs_, outputs_;
  Bindings bindings_;
  std::vector<std::string> states_;
};

}  // namespace unroll
