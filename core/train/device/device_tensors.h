// SPDX-License-Identifier: Apache-2.0
// Named tensors in backend buffers, and a program that is bound to them once. A run uploads only its batch.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/nn/index_limits.h"
#include "core/support/tensor_role.h"
#include "unroll/passes/run.h"

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
  // Copies of all that are not zero in every bit, and back to them: the others become zero.
  TensorMap nonzero() const;
  void put_back(const TensorMap& copies);
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

// Tensors that a program finds under their names without the prefix.
struct PersistentTensors {
  const DeviceTensors* tensors;
  std::string prefix = {};
};

// The options with every output donated the input of its name.
PlanOptions donating(const Graph& graph, PlanOptions options);

// Inputs and outputs are looked for in `persistent`, first found; the others belong to the program, which uploads the
// inputs. An output named like an input overwrites it.
class BoundProgram {
 public:
  BoundProgram(const Graph& graph, std::span<const PersistentTensors> persistent, Backend& backend,
               PlanOptions options);

  // Does nothing for a name the program does not read. Throws Error(usage) on an index out of range.
  void set(const std::string& name, const Tensor& tensor);
  // The buffer to read and write under this name from now on; does nothing for a name the program does not have.
  void bind(const std::string& name, Buffer* buffer);
  void run();
  const Program& program() const { return program_; }
  std::size_t own_bytes() const { return own_inputs_.bytes() + own_outputs_.bytes(); }
  void download_into(const std::string& output, Tensor& tensor) const { own_outputs_.download_into(output, tensor); }

 private:
  Program program_;
  std::vector<IndexLimit> limits_;
  DeviceTensors own_inputs_, own_outputs_;
  Bindings bindings_;
};

}  // namespace unroll
