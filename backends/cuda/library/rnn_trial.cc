// SPDX-License-Identifier: Apache-2.0
// cuDNN describes layers that it then refuses to run: its persistent algorithms have kernels for some devices, sizes
// and formats only, and no setter says which.
#include <array>
#include <string>
#include <vector>

#include "backends/cuda/library/recurrent.h"
#include "backends/device/lowering.h"
#include "unroll/error.h"

namespace unroll::cuda {

namespace {

class TrialMemory {
 public:
  TrialMemory(const Device& device, std::size_t bytes)
      : device_(device), at_(device.allocate(bytes, "trials of layers")) {}
  ~TrialMemory() { device_.release(at_); }
  TrialMemory(const TrialMemory&) = delete;
  TrialMemory& operator=(const TrialMemory&) = delete;
  CUdeviceptr at() const { return at_; }

 private:
  const Device& device_;
  CUdeviceptr at_;
};

std::size_t bytes_of(const Rnn& rnn, RnnSlot slot) {
  switch (slot) {
    case RnnSlot::weights:
    case RnnSlot::d_weights: return rnn.weight_bytes();
    case RnnSlot::workspace: return rnn.workspace_bytes();
    case RnnSlot::reserve: return rnn.reserve_bytes();
    default: {
      const common::Recurrent& r = rnn.form().layers;
      return elements_of(r, slot) * dtype_bytes(inside_dtype(r));
    }
  }
}

RnnTrials::Key key_of(const RnnForm& form) {
  const common::Recurrent& r = form.layers;
  const std::int64_t flags = (form.training ? 1 : 0) | (form.tf32 ? 2 : 0) | (r.relu ? 4 : 0) | (r.projects ? 8 : 0);
  return {static_cast<std::int64_t>(form.algorithm), static_cast<std::int64_t>(r.cell),
          static_cast<std::int64_t>(r.dtype), static_cast<std::int64_t>(r.format), flags, r.T, r.B, r.I, r.H, r.P, r.L,
          r.D};
}

// All calls of the layer on zeros. Empty, or why one fails.
std::string failure_of(const Device& device, const std::shared_ptr<const Rnn>& rnn) {
  const auto last = rnn->form().training ? RnnSlot::d_weights : RnnSlot::workspace;
  std::vector<RnnSlot> slots;
  std::vector<CUdeviceptr> places;
  std::size_t bytes = 0;
  for (int k = 0; k <= static_cast<int>(last); ++k) {
    const auto slot = static_cast<RnnSlot>(k);
    if (bytes_of(*rnn, slot) == 0) continue;
    slots.push_back(slot), places.push_back(bytes);
    bytes += device::aligned(bytes_of(*rnn, slot));
  }
  const TrialMemory memory(device, bytes);
  for (CUdeviceptr& place : places) place += memory.at();
  device.check(device.f().MemsetD8Async(memory.at(), 0, bytes, device.stream()), "cuMemsetD8Async");
  using Kind = RnnCall::Kind;
  try {
    for (const Kind kind : {Kind::forward, Kind::gradient_of_data, Kind::gradient_of_weights})
      if (kind == Kind::forward || rnn->form().training) RnnCall(rnn, kind, slots).run(places, device.stream());
    device.wait();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::device) throw;
    return error.what();
  }
  return {};
}

}  // namespace

bool RnnTrials::runs(const Device& device, const std::shared_ptr<const Rnn>& rnn, std::string& why) {
  const Key key = key_of(rnn->form());
  if (!failures_.count(key)) {
    try {
      failures_[key] = failure_of(device, rnn);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::memory) throw;
      return true;  // a run needs as much, and says what holds it
    }
  }
  why = failures_[key];
  return why.empty();
}

}  // namespace unroll::cuda
