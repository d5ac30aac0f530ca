// SPDX-License-Identifier: Apache-2.0
#include "frontends/tasks/decode/decoder_step.h"

#include <string>
#include <utility>

#include "unroll/error.h"

namespace unroll {

DecoderStep::DecoderStep(std::shared_ptr<Program> program) : program_(std::move(program)) {
  const Graph& graph = *program_->plan().graph;
  const auto allocate = [&](const NamedValue& value, Ports& ports, std::vector<Buffer*>& bound) {
    const Type& type = graph.type(value.value);
    Port& port = ports[value.name];
    port = {type, program_->backend().allocate(type.bytes())};
    bound.push_back(port.buffer.get());
  };
  for (const NamedValue& input : graph.inputs()) allocate(input, inputs_, bindings_.inputs);
  for (const NamedValue& output : graph.outputs()) allocate(output, outputs_, bindings_.outputs);
}

const DecoderStep::Port& DecoderStep::port(const Ports& ports, std::string_view name) const {
  const auto found = ports.find(name);
  if (found != ports.end()) return found->second;
  throw Error(ErrorKind::usage, "DecoderStep",
              std::string("there is no ") + (&ports == &inputs_ ? "input" : "output") + " '" + std::string(name) + "'");
}

void DecoderStep::set(std::string_view name, const Tensor& tensor) {
  const Port& to = port(inputs_, name);
  if (tensor.type() != to.type)
    throw Error(ErrorKind::shape, "DecoderStep",
                "input '" + std::string(name) + "' must be " + to.type.text() + "; got " + tensor.type().text());
  program_->backend().upload(*to.buffer, 0, tensor.bytes());
}

void DecoderStep::set_row(std::string_view name, std::size_t row, std::span<const std::byte> bytes) {
  const Port& to = port(inputs_, name);
  const auto rows = static_cast<std::size_t>(to.type.shape[0]);
  if (row >= rows || bytes.size() * rows != to.type.bytes())
    throw Error(ErrorKind::shape, "DecoderStep",
                "row " + std::to_string(row) + " of input '" + std::string(name) + "' " + to.type.text() +
                    " cannot have " + std::to_string(bytes.size()) + " bytes");
  program_->backend().upload(*to.buffer, row * bytes.size(), bytes);
}

void DecoderStep::run() {
  program_->run(bindings_);
  program_->backend().wait();
  copies_.clear();
}

const Type& DecoderStep::output_type(std::string_view name) const { return port(outputs_, name).type; }

std::span<float> DecoderStep::output(std::string_view name) {
  const Port& from = port(outputs_, name);
  const auto n = static_cast<std::size_t>(from.type.shape.elements());
  if (const std::span<std::byte> here = program_->backend().host_bytes(*from.buffer); !here.empty())
    return {reinterpret_cast<float*>(here.data()), n};
  const auto [copy, is_new] = copies_.try_emplace(std::string(name), from.type);
  if (is_new) program_->backend().download(*from.buffer, 0, copy->second.bytes());
  return copy->second.values<float>();
}

}  // namespace unroll
