// SPDX-License-Identifier: Apache-2.0
#include "core/train/device_tensors.h"

#include "unroll/error.h"

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

std::vector<std::string> DeviceTensors::names() const {
  std::vector<std::string> names;
  for (const auto& [name, e] : entries_) names.push_back(name);
  return names;
}

std::size_t DeviceTensors::bytes(const std::string& prefix) const {
  std::size_t all = 0;
  for (const auto& [name, e] : entries_)
    if (name.starts_with(prefix)) all += e.type.bytes();
  return all;
}

PlanOptions donating(const Graph& graph, PlanOptions options) {
  for (const NamedValue& output : graph.outputs())
    for (const NamedValue& input : graph.inputs())
      if (input.name == output.name) options.donate.emplace_back(output.name, input.name);
  return options;
}

BoundProgram::BoundProgram(const Graph& graph, std::span<const Residency> residents, Backend& backend,
                           PlanOptions options)
    : program_(graph, backend, donating(graph, std::move(options))), own_inputs_(backend), own_outputs_(backend) {
  const Graph& planned = *program_.plan().graph;
  std::map<std::string, Buffer*> inputs;
  for (const NamedValue& input : planned.inputs()) {
    Buffer* buffer = nullptr;
    for (const Residency& r : residents)
      if (const std::string name = r.prefix + input.name; !buffer && r.tensors->has(name))
        buffer = r.tensors->buffer(name);
    if (!buffer) {
      own_inputs_.add(input.name, planned.type(input.value));
      buffer = own_inputs_.buffer(input.name);
    }
    inputs.emplace(input.name, buffer);
    bindings_.inputs.push_back(buffer);
  }
  for (const NamedValue& output : planned.outputs()) {
    const auto at = inputs.find(output.name);
    if (at == inputs.end()) own_outputs_.add(output.name, planned.type(output.value));
    bindings_.outputs.push_back(at == inputs.end() ? own_outputs_.buffer(output.name) : at->second);
  }
}

void BoundProgram::set(const std::string& name, const Tensor& tensor) {
  if (own_inputs_.has(name)) own_inputs_.upload(name, tensor);
}

void BoundProgram::run() { program_.run(bindings_); }

}  // namespace unroll
