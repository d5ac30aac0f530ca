// SPDX-License-Identifier: Apache-2.0
// Work on the stream of a device, captured as a CUDA graph.
#pragma once

#include <functional>

#include "backends/cuda/driver/device.h"

namespace unroll::cuda {

class CapturedGraph {
 public:
  // `enqueue` puts the work on the stream. Throws Error(device) when it cannot be captured.
  CapturedGraph(const Device& device, const std::function<void()>& enqueue);
  ~CapturedGraph();
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;
  void launch() const;

 private:
  const Device& device_;
  CUgraphExec graph_ = nullptr;
};

}  // namespace unroll::cuda
