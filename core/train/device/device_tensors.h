// SPDX-License-Identifier: Apache-2.0
// Named tensors in backend buffers, and all the tensors of a model in training.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/support/tensor_role.h"
#include "core/train/update/built_task.h"
#include "unroll/passes/backend.h"

namespace unroll {

class DeviceTensors {
 public:
  explicit DeviceTensors(Backend& backend) : backend_(backend) {}

  // Zeros, unless it is there already. Throws Error(shape) when it is there with another type.
  void add(const std::string& name, const Type& type);
  void upload(const std::string& name, const Tensor& tensor);
  void clear(const std::string& name);  // zeros
  Tensor download(const std::string& name) const;
  void download_into(const std::string& name, Tensor& tensor) const;
  // In the memory of the buffer where the host can read it, until the next upload or run; a copy elsewhere.
  Tensor view(const std::string& name) const;
  bool has(const std::string& name) const { return entries_.contains(name); }
  const Type& type(const std::string& name) const { return entry(name).type; }
  Buffer* buffer(const std::string& name) const { return entry(name).buffer.get(); }
  std::vector<std::string> names() const;
  TensorMap downloaded() const;
  TensorMap views() const;
  // Copies of all that are not zero in every bit. put_back() restores them and sets the others to zero.
  TensorMap nonzero() const;
  void put_back(const TensorMap& copies);
  // Uploads all. Throws Error(input_file) naming `source` on missing, unknown or misshapen tensors.
  void replace_all(const TensorMap& tensors, const std::string& source);
  Backend& backend() const { return backend_; }
  std::size_t bytes() const;
  std::size_t bytes(TensorRole role) const;

 private:
  struct Entry {
    Type type;
    std::unique_ptr<Buffer> buffer;
  };
  const Entry& entry(const std::string& name) const;
  Backend& backend_;
  std::map<std::string, Entry> entries_;
};

// The tensors of a model: its parameters, the buffers that go from update to update, and the partial sums over the
// micro-batches of one update.
class ModelTensors {
 public:
  // `shards`: their states are carried here. `has_ranks`: other ranks carry the states of other shards.
  ModelTensors(Backend& backend, std::vector<std::int64_t> shards, bool has_ranks)
      : shards_(std::move(shards)), has_ranks_(has_ranks), parameters_(backend), carried_(backend),
        accumulated_(backend) {}

  void add_parameters(const TensorMap& initial, bool averages);
  // Adds the buffers of an update's graph by their roles. States get one buffer per shard.
  void add(std::span<const NamedType> buffers);

  // The states of a shard, under the names that graphs have for them.
  std::map<std::string, Buffer*> states(std::int64_t shard) const;
  TensorMap downloaded_states(std::int64_t shard) const;
  void clear_states(std::int64_t shard);

  const DeviceTensors& parameters() const { return parameters_; }  // as the last update left them
  const DeviceTensors& carried() const { return carried_; }        // slots, averages, states, counters
  DeviceTensors& carried() { return carried_; }
  const DeviceTensors& accumulated() const { return accumulated_; }
  DeviceTensors& accumulated() { return accumulated_; }
  TensorMap averages() const;  // the parameters if the options ask for no average

  // Throw Error(input_file) as replace_all() does. Averages begin with the parameters.
  void set_parameters(const TensorMap& tensors, const std::string& source);
  void set_carried(const TensorMap& tensors, const std::string& source);  // ignores the states of other ranks' shards

  // A copy of all that updates change, exact in every bit. Tensors that are zero, as in a new run, have no copy.
  struct Snapshot {
    TensorMap parameters, carried;
  };
  Snapshot snapshot() const { return {parameters_.nonzero(), carried_.nonzero()}; }
  void restore(const Snapshot& snapshot) {
    parameters_.put_back(snapshot.parameters);
    carried_.put_back(snapshot.carried);
  }

 private:
  std::vector<std::int64_t> shards_;
  bool has_ranks_;
  std::set<std::string> states_;  // names of the first shard's
  DeviceTensors parameters_, carried_, accumulated_;
};

}  // namespace unroll
