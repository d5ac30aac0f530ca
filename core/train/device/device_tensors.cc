// SPDX-License-Identifier: Apache-2.0
#include "core/train/device/device_tensors.h"

#include <algorithm>

#include "core/ir/input_range.h"
#include "unroll/support/error.h"

namespace unroll {

void DeviceTensors::add(const std::string& name, const Type& type) {
  const auto at = entries_.find(name);
  if (at != entries_.end()) {
    if (at->second.type == type) return;
    throw Error(ErrorKind::shape, "trainer",
                "'" + name + "' is " + at->second.type.text() + " in one batch and " + type.text() + " in another");
  }
  entries_.emplace(name, Entry{type, backend_.allocate(type.bytes())});
  clear(name);
}

const DeviceTensors::Entry& DeviceTensors::entry(const std::string& name) const {
  const auto at = entries_.find(name);
  if (at == entries_.end()) throw Error(ErrorKind::internal, "DeviceTensors", "there is no tensor '" + name + "'");
  return at->second;
}

void DeviceTensors::upload(const std::string& name, const Tensor& tensor) {
  const Entry& e = entry(name);
  if (tensor.type() != e.type)
    throw Error(ErrorKind::shape, "trainer",
                "'" + name + "' must be " + e.type.text() + "; got " + tensor.type().text());
  backend_.upload(*e.buffer, 0, tensor.bytes());
}

void DeviceTensors::clear(const std::string& name) { upload(name, Tensor(entry(name).type)); }

Tensor DeviceTensors::download(const std::string& name) const {
  Tensor tensor(entry(name).type);
  download_into(name, tensor);
  return tensor;
}

void DeviceTensors::download_into(const std::string& name, Tensor& tensor) const {
  backend_.download(*entry(name).buffer, 0, tensor.bytes());
}

Tensor DeviceTensors::view(const std::string& name) const {
  const Entry& e = entry(name);
  const std::span<std::byte> bytes = backend_.host_bytes(*e.buffer);
  return bytes.empty() ? download(name) : Tensor::borrowed(e.type, bytes);
}

std::vector<std::string> DeviceTensors::names() const {
  std::vector<std::string> names;
  for (const auto& [name, e] : entries_) names.push_back(name);
  return names;
}

TensorMap DeviceTensors::nonzero() const {
  TensorMap copies;
  for (const auto& [name, e] : entries_) {
    const Tensor tensor = view(name);
    const auto bytes = tensor.bytes();
    const bool is_zero = std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
    if (!is_zero) copies.emplace(name, tensor);
  }
  return copies;
}

void DeviceTensors::put_back(const TensorMap& copies) {
  for (const auto& [name, e] : entries_) {
    const auto copy = copies.find(name);
    if (copy == copies.end()) clear(name);
    else upload(name, copy->second);
  }
}

std::size_t DeviceTensors::bytes() const {
  std::size_t all = 0;
  for (const auto& [name, e] : entries_) all += e.type.bytes();
  return all;
}

std::size_t DeviceTensors::bytes(TensorRole role) const {
  std::size_t all = 0;
  for (const auto& [name, e] : entries_)
    if (role_of(name) == role) all += e.type.bytes();
  return all;
}

PlanOptions donating(const Graph& graph, PlanOptions options) {
  for (const NamedValue& output : graph.outputs())
    for (const NamedValue& input : graph.inputs())
      if (input.name == output.name) options.donate.emplace_back(output.name, input.name);
  return options;
}

BoundProgram::BoundProgram(const Graph& graph, std::span<const PersistentTensors> persistent, Backend& backend,
                           PlanOptions options)
    : program_(graph, backend, donating(graph, std::move(options))), limits_(index_limits(graph)),
      own_inputs_(backend), own_outputs_(backend) {
  const Graph& planned = *program_.plan().graph;
  const auto resident = [&](const std::string& name) -> Buffer* {
    for (const PersistentTensors& r : persistent)
      if (r.tensors->has(r.prefix + name)) return r.tensors->buffer(r.prefix + name);
    return nullptr;
  };
  const auto buffer_of = [&](const NamedValue& value, DeviceTensors& own) {
    if (Buffer* buffer = resident(value.name)) return buffer;
    own.add(value.name, planned.type(value.value));
    return own.buffer(value.name);
  };
  for (const NamedValue& input : planned.inputs()) bindings_.inputs.push_back(buffer_of(input, own_inputs_));
  for (const NamedValue& output : planned.outputs())
    bindings_.outputs.push_back(own_inputs_.has(output.name) ? own_inputs_.buffer(output.name)
                                                             : buffer_of(output, own_outputs_));
}

void BoundProgram::set(const std::string& name, const Tensor& tensor) {
  if (!own_inputs_.has(name)) return;
  const Graph& planned = *program_.plan().graph;
  const auto input = std::ranges::find(planned.inputs(), name, &NamedValue::name);
  check_range(planned, *input, tensor, ErrorKind::usage, "trainer");
  check_indices(limits_, name, tensor);
  own_inputs_.upload(name, tensor);
}

void BoundProgram::bind(const std::string& name, Buffer* buffer) {
  const Graph& planned = *program_.plan().graph;
  const auto replace = [&](const auto& names, std::vector<Buffer*>& buffers) {
    for (std::size_t i = 0; i < buffers.size(); ++i)
      if (names[i].name == name) buffers[i] = buffer;
  };
  replace(planned.inputs(), bindings_.inputs);
  replace(planned.outputs(), bindings_.outputs);
}

void BoundProgram::run() { program_.run(bindings_); }

}  // namespace unroll
