// SPDX-License-Identifier: Apache-2.0
// The program of a decoder step with persistent buffers. It runs many times; constant inputs are copied once.
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
  // Sets an input, which is zero at first and keeps its value. Throws Error(usage) on an unknown name and Error(shape)
  // on a tensor of another type.
  void set(std::string_view name, const Tensor& tensor);
  // Sets entry `row` of axis 0 of an input.
  void set_row(std::string_view name, std::size_t row, std::span<const std::byte> bytes);
  void run();

  bool has_output(std::string_view name) const { return outputs_.contains(name); }
  // inputs that continue from outputs of the same name
  const std::vector<std::string>& states() const { return states_; }
  const Type& type(std::string_view input) { return port(inputs_, input).type; }
  // Return f32 values in place, or copies if the backend has separate memory: an input to write before a run, or an
  // output of the last run (zeros before the first), which the caller may overwrite.
  std::span<float> input(std::string_view name);
  std::span<float> output(std::string_view name);

 private:
  struct Port {
    Type type;
    std::unique_ptr<Buffer> buffer;
    std::optional<Tensor> copy;  // copy of a device buffer, if it is current
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
