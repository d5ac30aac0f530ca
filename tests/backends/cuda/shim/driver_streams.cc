// SPDX-License-Identifier: Apache-2.0
// Streams, whose work is done late; graphs of it, and events.
#include <cuda.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "tests/backends/cuda/shim/driver_state.h"
#include "tests/backends/cuda/shim/late_work.h"

namespace unroll::shim {

CUresult finish(CUstream_st& stream) {
  while (!stream.late.empty()) {
    const Work work = stream.late.front();
    const CUresult result = driver().broken == CUDA_SUCCESS ? work() : CUDA_SUCCESS;
    if (result == CUDA_ERROR_NOT_READY) return result;
    stream.late.pop_front();
    if (result != CUDA_SUCCESS) driver().broken = result;
  }
  return driver().broken;
}
CUresult finish_without_ranks(CUstream_st& stream, const char* what) {
  const CUresult result = finish(stream);
  if (result != CUDA_ERROR_NOT_READY) return result;
  return complain(CUDA_ERROR_NOT_PERMITTED, std::string(what) + " waits for another rank, which may be lost");
}

CUresult put(CUstream_st* stream, Work work) {
  if (!driver().streams.count(stream)) return complain(CUDA_ERROR_INVALID_HANDLE, "a stream that is not there");
  if (stream->captures) stream->captured.push_back(std::move(work));
  else stream->late.push_back(std::move(work));
  return CUDA_SUCCESS;
}

}  // namespace unroll::shim

using namespace unroll::shim;

CUresult cuStreamCreate(CUstream* stream, unsigned) {
  const std::lock_guard lock(driver().mutex);
  if (const CUresult r = ready()) return r;
  *stream = new CUstream_st;
  driver().streams.insert(*stream);
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy(CUstream stream) {
  const std::lock_guard lock(driver().mutex);
  finish(*stream);
  driver().streams.erase(stream);
  delete stream;
  return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream stream) {
  const std::lock_guard lock(driver().mutex);
  if (const CUresult r = ready_outside_capture("cuStreamSynchronize")) return r;
  return finish_without_ranks(*stream, "cuStreamSynchronize");
}
CUresult cuStreamQuery(CUstream stream) {
  const std::lock_guard lock(driver().mutex);
  if (const CUresult r = ready_outside_capture("cuStreamQuery")) return r;
  return finish(*stream);
}
CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  const std::lock_guard lock(driver().mutex);
  if (const CUresult r = ready_outside_capture("cuStreamBeginCapture")) return r;
  stream->captures = true;
  stream->capturing = mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL ? std::this_thread::get_id() : std::thread::id();
  stream->captured.clear();
  return CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  const std::lock_guard lock(driver().mutex);
  if (!stream->captures) return complain(CUDA_ERROR_ILLEGAL_STATE, "the stream does not capture");
  stream->captures = false;
  *graph = new CUgraph_st{std::move(stream->captured)};
  return driver().broken;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* made, CUgraph graph, unsigned long long) {
  const std::lock_guard lock(driver().mutex);
  if (const CUresult r = ready_outside_capture("cuGraphInstantiateWithFlags")) return r;
  *made = new CUgraphExec_st{graph->work};
  return CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  const std::lock_guard lock(driver().mutex);
  if (const CUresult r = ready_outside_capture("cuGraphLaunch")) return r;
  return put(stream, [work = graph->work] {
    for (const Work& each : work)
      if (const CUresult r = each()) return r;
    return CUDA_SUCCESS;
  });
}
CUresult cuGraphExecDestroy(CUgraphExec graph) {
  delete graph;
  return CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph graph) {
  delete graph;
  return CUDA_SUCCESS;
}
CUresult cuEventCreate(CUevent* event, unsigned flags) {
  *event = new CUevent_st{(flags & CU_EVENT_DISABLE_TIMING) == 0};
  return ready();
}
CUresult cuEventDestroy(CUevent event) {
  delete event;
  return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
  const std::lock_guard lock(driver().mutex);
  event->stream = stream;
  if (const CUresult r = ready(); r != CUDA_SUCCESS || !event->has_time) return r;
  if (stream->captures) return complain(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "a time while a stream captures");
  event->time = std::make_shared<std::optional<std::uint64_t>>();
  return put(stream, [time = event->time] {
    *time = driver().clock;
    return CUDA_SUCCESS;
  });
}
CUresult cuEventElapsedTime(float* milliseconds, CUevent begin, CUevent end) {
  const std::lock_guard lock(driver().mutex);
  if (const CUresult r = ready()) return r;
  if (!begin->time || !end->time) return complain(CUDA_ERROR_INVALID_HANDLE, "the time of an event that has none");
  if (!*begin->time || !*end->time) return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>(static_cast<double>(**end->time - **begin->time) / 1e6);
  return CUDA_SUCCESS;
}
CUresult cuEventSynchronize(CUevent event) {
  const std::lock_guard lock(driver().mutex);
  if (const CUresult r = ready_outside_capture("cuEventSynchronize")) return r;
  return event->stream ? finish_without_ranks(*event->stream, "cuEventSynchronize") : CUDA_SUCCESS;
}

CUresult unroll_shim_work(CUstream stream, std::function<CUresult()> work, const void* memory, std::size_t bytes) {
  const std::lock_guard lock(driver().mutex);
  if (!driver().memory.contains(memory, bytes))
    return complain(CUDA_ERROR_INVALID_VALUE, "a library's call outside of allocated memory");
  return work ? put(stream, std::move(work)) : CUDA_SUCCESS;
}
void unroll_shim_spend(std::uint64_t nanoseconds) { driver().clock += nanoseconds; }
bool unroll_shim_captures(CUstream stream) {
  const std::lock_guard lock(driver().mutex);
  return stream->captures;
}
CUresult unroll_shim_put(CUstream stream, std::function<CUresult()> work, const void* memory, std::size_t bytes) {
  {
    const std::lock_guard lock(driver().mutex);
    if (stream->captures) return complain(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "messages while a stream captures");
  }
  return unroll_shim_work(stream, std::move(work), memory, bytes);
}
