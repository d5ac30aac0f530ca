// SPDX-License-Identifier: Apache-2.0
#include "core/train/device/device_tensors.h"

#include <algorithm>

#include "core/train/files/check_parameters.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

std::string name_in_shard(const std::string& state, std::int64_t shard) {
  return shard == 0 ? state : state + "@" + std::to_string(shard);
}

}  // namespace

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

TensorMap DeviceTensors::downloaded() const {
  TensorMap tensors;
  for (const auto& [name, e] : entries_) tensors.emplace(name, download(name));
  return tensors;
}

TensorMap DeviceTensors::views() const {
  TensorMap tensors;
  for (const auto& [name, e] : entries_) tensors.emplace(name, view(name));
  return tensors;
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

void DeviceTensors::replace_all(const TensorMap& tensors, const std::string& source) {
  NamedTypes expected, got;
  for (const auto& [name, e] : entries_) expected.emplace(name, e.type);
  for (const auto& [name, tensor] : tensors) got.emplace(name, tensor.type());
  check_parameters(expected, got, source);
  for (const auto& [name, tensor] : tensors) upload(name, tensor);
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

void ModelTensors::add_parameters(const TensorMap& initial, bool averages) {
  for (const auto& [name, tensor] : initial) {
    parameters_.add(name, tensor.type());
    if (averages) carried_.add(average_name(name), tensor.type());
  }
  set_parameters(initial, "initial values");
}

void ModelTensors::add(std::span<const NamedType> buffers) {
  for (const NamedType& buffer : buffers) {
    const TensorRole role = role_of(buffer.name);
    if (role == TensorRole::state) {
      states_.insert(buffer.name);
      for (const std::int64_t shard : shards_) carried_.add(name_in_shard(buffer.name, shard), buffer.type);
      continue;
    }
    DeviceTensors& set = role == TensorRole::accumulated ? accumulated_ : carried_;
    if (set.has(buffer.name) && set.type(buffer.name) == buffer.type) continue;
    set.add(buffer.name, buffer.type);
    if (buffer.initial != 0) set.upload(buffer.name, Tensor::filled(buffer.type, buffer.initial));
  }
}

std::map<std::string, Buffer*> ModelTensors::states(std::int64_t shard) const {
  std::map<std::string, Buffer*> buffers;
  for (const std::string& state : states_) buffers.emplace(state, carried_.buffer(name_in_shard(state, shard)));
  return buffers;
}

TensorMap ModelTensors::downloaded_states(std::int64_t shard) const {
  TensorMap tensors;
  for (const std::string& state : states_) tensors.emplace(state, carried_.download(name_in_shard(state, shard)));
  return tensors;
}

void ModelTensors::clear_states(std::int64_t shard) {
  for (const std::string& state : states_) carried_.clear(name_in_shard(state, shard));
}

TensorMap ModelTensors::averages() const {
  TensorMap tensors = parameters_.downloaded();
  for (auto& [name, tensor] : tensors)
    if (const std::string average = average_name(name); carried_.has(average)) tensor = carried_.download(average);
  return tensors;
}

void ModelTensors::set_parameters(const TensorMap& tensors, const std::string& source) {
  parameters_.replace_all(tensors, source);
  for (const auto& [name, tensor] : tensors)
    if (const std::string average = average_name(name); carried_.has(average)) carried_.upload(average, tensor);
}

void ModelTensors::set_carried(const TensorMap& tensors, const std::string& source) {
  TensorMap own;
  for (const auto& [name, tensor] : tensors)
    if (!has_ranks_ || role_of(name) != TensorRole::state || carried_.has(name)) own.emplace(name, tensor);
  carried_.replace_all(own, source);
}

}  // namespace unroll
