// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/driver/captured_graph.h"

#include "unroll/support/error.h"

namespace unroll::cuda {

CapturedGraph::CapturedGraph(const Device& device, const std::function<void()>& enqueue) : device_(device) {
  const Functions& f = device_.f();
  device_.check(f.StreamBeginCapture(device_.stream(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "cuStreamBeginCapture");
  CUgraph graph = nullptr;
  try {
    enqueue();
  } catch (...) {
    if (f.StreamEndCapture(device_.stream(), &graph) == CUDA_SUCCESS && graph) f.GraphDestroy(graph);
    throw;
  }
  device_.check(f.StreamEndCapture(device_.stream(), &graph), "cuStreamEndCapture");
  const CUresult made = f.GraphInstantiateWithFlags(&graph_, graph, 0);
  f.GraphDestroy(graph);
  device_.check(made, "cuGraphInstantiateWithFlags");
}

CapturedGraph::~CapturedGraph() {
  try {
    device_.enter();
    device_.wait();  // it may still run
  } catch (const Error&) {  // the next call throws it
  }
  device_.f().GraphExecDestroy(graph_);
}

void CapturedGraph::launch() const {
  device_.check(device_.f().GraphLaunch(graph_, device_.stream()), "cuGraphLaunch");
}

}  // namespace unroll::cuda
