// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/decode/decoder_step.h"

#include <string>
#include <utility>

#include "unroll/support/error.h"

namespace unroll {

DecoderStep::DecoderStep(std::shared_ptr<Program> program) : program_(std::move(program)) {
  const Graph& graph = *program_->plan().graph;
  const auto allocate = [&](const NamedValue& value, Ports& ports, std::vector<Buffer*>& bound) {
    const Type& type = graph.type(value.value);
    Port& port = ports[value.name];
    port = {type, program_->backend().allocate(type.bytes()), {}};
    program_->backend().upload(*port.buffer, 0, Tensor(type).bytes());
    bound.push_back(port.buffer.get());
  };
  for (const NamedValue& input : graph.inputs()) allocate(input, inputs_, bindings_.inputs);
  for (const NamedValue& output : graph.outputs()) allocate(output, outputs_, bindings_.outputs);
  for (const auto& [name, port] : outputs_)
    if (inputs_.contains(name)) states_.push_back(name);
}

DecoderStep::Port& DecoderStep::port(Ports& ports, std::string_view name) const {
  const auto found = ports.find(name);
  if (found != ports.end()) return found->second;
  throw Error(ErrorKind::usage, "DecoderStep",
              std::string("there is no ") + (&ports == &inputs_ ? "input" : "output") + " '" + std::string(name) + "'");
}

void DecoderStep::set(std::string_view name, const Tensor& tensor) {
  Port& to = port(inputs_, name);
  if (tensor.type() != to.type)
    throw Error(ErrorKind::shape, "DecoderStep",
                "input '" + std::string(name) + "' must be " + to.type.text() + "; got " + tensor.type().text());
  program_->backend().upload(*to.buffer, 0, tensor.bytes());
  to.copy.reset();
}

void DecoderStep::set_row(std::string_view name, std::size_t row, std::span<const std::byte> bytes) {
  const Port& to = port(inputs_, name);
  const std::size_t rows = to.type.shape[0];
  if (row >= rows || bytes.size() * rows != to.type.bytes())
    throw Error(ErrorKind::shape, "DecoderStep",
                "row " + std::to_string(row) + " of input '" + std::string(name) + "' " + to.type.text() +
                    " cannot have " + std::to_string(bytes.size()) + " bytes");
  program_->backend().upload(*to.buffer, row * bytes.size(), bytes);
}

void DecoderStep::run() {
  for (auto& [name, port] : inputs_)
    if (port.copy) program_->backend().upload(*port.buffer, 0, port.copy->bytes());
  program_->run(bindings_);
  program_->backend().wait();
  for (auto& [name, port] : outputs_) port.copy.reset();
}

// `known`: the caller overwrites all values, so the copy need not start from the buffer's contents.
std::span<float> DecoderStep::values(Port& port, bool known) {
  const std::size_t n = port.type.shape.elements();
  if (const std::span<std::byte> here = program_->backend().host_bytes(*port.buffer); !here.empty())
    return {reinterpret_cast<float*>(here.data()), n};
  if (!port.copy) {
    port.copy.emplace(port.type);
    if (!known) program_->backend().download(*port.buffer, 0, port.copy->bytes());
  }
  return port.copy->values<float>();
}
std::span<float> DecoderStep::input(std::string_view name) { return values(port(inputs_, name), /*known=*/true); }
std::span<float> DecoderStep::output(std::string_view name) { return values(port(outputs_, name), /*known=*/false); }

}  // namespace unroll
