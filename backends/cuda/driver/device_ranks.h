// SPDX-License-Identifier: Apache-2.0
// Messages between the devices of several ranks, by NCCL, in the order of a stream. Sends and receives alone: the order
// of the sums is ours (core/parallel/sum_plan.h). The ranks' Communicator carries what makes them find each other, and
// tells who is lost.
#pragma once

#include <span>
#include <string>

#include "backends/cuda/driver/nccl.h"
#include "unroll/parallel/communicator.h"
#include "unroll/support/types.h"

namespace unroll::cuda {

class DeviceRanks {
 public:
  struct Message {
    bool sends;  // or receives
    int peer;
    CUdeviceptr at;
    std::size_t elements;
    DType dtype;  // f32 or f64
  };

  // All ranks make theirs. Throws Error(device) where NCCL is missing or too old, Error(peer) where a rank is lost.
  explicit DeviceRanks(Communicator& ranks);
  ~DeviceRanks();
  DeviceRanks(const DeviceRanks&) = delete;
  DeviceRanks& operator=(const DeviceRanks&) = delete;

  // Puts messages on a stream: they begin together.
  void exchange(std::span<const Message> messages, CUstream stream);
  // Called again and again while this rank has waited for its device so long. Throws Error(peer) where a rank has
  // failed, or after the time limit, and ends the messages that are under way.
  void check(double seconds);

 private:
  void require(nccl::Result result, const char* what);
  void await(const char* what);
  [[noreturn]] void fail(nccl::Result result, const char* what);
  void give_up() noexcept;

  Communicator& ranks_;
  NcclFunctions f_;
  nccl::Communicator* nccl_ = nullptr;  // null: ended
};

// The index of this process among those of its machine, and thus of its device.
int rank_on_machine(Communicator& ranks);

}  // namespace unroll::cuda
