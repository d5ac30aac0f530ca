// SPDX-License-Identifier: Apache-2.0
// State that a backend, its buffers and its executables share. It lives as long as any of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backends/cuda/driver/device_ranks.h"
#include "backends/cuda/kernels/compiler.h"
#include "backends/cuda/library/autotuner.h"
#include "backends/cuda/library/blas.h"
#include "backends/cuda/library/recurrent.h"
#include "backends/cuda/scan/loops.h"
#include "unroll/passes/backend.h"

namespace unroll::cuda {

struct Context {
  // `communicator`: of several ranks; null: one rank. A rank takes the device of its index unless it is `fixed`.
  Context(int index, bool fixed, const std::string& cache, bool captures, bool measures, Communicator* communicator)
      : device(communicator && !fixed ? rank_on_machine(*communicator) : index, communicator && !fixed),
        compiler(device, cache), autotuner(device, cache, measures, captures), graphs(captures) {
    if (!communicator) return;
    ranks = std::make_unique<DeviceRanks>(*communicator);
    device.set_watch([this](double seconds) { ranks->check(seconds); });
  }
  // Ranks end together, while their communicator is there: buffers may live longer.
  void end_ranks() {
    device.set_watch({});
    ranks.reset();
  }

  // Destroyed from the last to the first.
  Device device;
  Compiler compiler;
  Autotuner autotuner;  // of algorithms of the libraries
  bool graphs;  // runs become CUDA graphs
  bool masks_lengths = false;  // loops run all rows
  LoopOptions loops;
  std::unique_ptr<Blas> blas;  // null: products are own kernels
  std::unique_ptr<RnnLibrary> rnn;  // null: layers are not claimed
  std::string why_no_rnn;           // then
  std::unique_ptr<DeviceRanks> ranks;  // null: one
  std::uint64_t writes = 0;            // to buffers
};

Capabilities capabilities_of(const Limits& limits);

// Memory of the device.
class Memory {
 public:
  Memory(std::shared_ptr<Context> context, std::size_t bytes, const char* what)
      : context_(std::move(context)), bytes_(bytes), at_(context_->device.allocate(bytes, what)) {}
  ~Memory() { context_->device.release(at_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  CUdeviceptr at() const { return at_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<Context> context_;
  std::size_t bytes_;
  CUdeviceptr at_;
};

class DeviceBuffer final : public Buffer {
 public:
  DeviceBuffer(std::shared_ptr<Context> context, std::size_t bytes)
      : context_(context), memory_(std::move(context), bytes, "buffers") {
    mark_written();
  }
  std::size_t bytes() const override { return memory_.bytes(); }
  CUdeviceptr at() const { return memory_.at(); }
  // No two contents of buffers have the same number: who writes to the buffer, or has work do so, gives it another one.
  std::uint64_t version() const { return version_; }
  void mark_written() const { version_ = ++context_->writes; }

 private:
  std::shared_ptr<Context> context_;
  Memory memory_;
  mutable std::uint64_t version_ = 0;
};
// Throws Error(usage) for a buffer of another backend.
const DeviceBuffer& as_device(const Buffer& buffer);

}  // namespace unroll::cuda
