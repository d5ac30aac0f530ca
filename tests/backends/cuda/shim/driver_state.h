// SPDX-License-Identifier: Apache-2.0
// What the parts of the driver share: its state, the handles that it gives out, and the checks that calls begin with.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/backends/cuda/shim/races.h"

namespace unroll::shim {

inline constexpr std::size_t k_plain_shared_bytes = 48 << 10;  // of a launch that does not ask for more

struct Index {
  unsigned x, y, z;
};
// As in shim_prelude.h.
struct State {
  Index thread, block, block_size, grid_size;
  void (*barrier)(void* place);
  void (*access)(const void* address, unsigned bytes, bool writes, const void* place);
  void (*arrive)(const void* barrier, bool completes);
  void (*yield)();
  void (*meet)();
  char* shared;
  unsigned cluster;
  char* (*shared_of)(unsigned rank);
};

using Work = std::function<CUresult()>;

// A library of kernels (compiler.cc). It stays loaded: many modules have kernels of it.
struct Library {
  void* handle = nullptr;
  State* state = nullptr;
};
struct KernelPlace {
  Library* library;
  std::string symbol;
};

}  // namespace unroll::shim

struct CUmod_st {
  std::map<std::string, unroll::shim::KernelPlace> kernels;  // by name
  std::deque<CUfunc_st> functions;
  int launches_under_way = 0;
};
struct CUfunc_st {
  CUmod_st* module;
  unroll::shim::Library* library;
  std::string name;
  void (*launch)(void** arguments);
  const unsigned* parameters;  // how many, then their sizes
  std::size_t shared_bytes = unroll::shim::k_plain_shared_bytes;  // that a launch may ask for
  unsigned most_cluster = 8;
};
struct CUstream_st {
  std::deque<unroll::shim::Work> late;
  bool captures = false;
  std::thread::id capturing = {};  // the only thread that a capture restricts; empty: all threads
  std::vector<unroll::shim::Work> captured;
};
struct CUgraph_st {
  std::vector<unroll::shim::Work> work;
};
struct CUgraphExec_st {
  std::vector<unroll::shim::Work> work;
};
struct CUevent_st {
  bool has_time = true;
  CUstream_st* stream = nullptr;
  std::shared_ptr<std::optional<std::uint64_t>> time = {};  // of the latest record, when the stream has come to it
};
struct CUctx_st {
  int retained = 0;
};

namespace unroll::shim {

struct Driver {
  std::mutex mutex;
  CUctx_st context;
  Memory memory;
  std::size_t used = 0;
  std::set<CUstream_st*> streams;
  std::map<std::string, Library> libraries;  // by path
  CUresult broken = CUDA_SUCCESS;  // once a kernel has failed, until the context is released
  std::uint32_t launches = 0;
  std::uint64_t clock = 0;  // nanoseconds: it advances by what work costs, so times are the same in every run
};
Driver& driver();
std::size_t setting(const char* name, std::size_t otherwise);  // of the environment
int multiprocessors();
std::size_t most_shared_bytes();

CUresult complain(CUresult result, const std::string& what);
// What all calls with a context begin with.
CUresult ready();
// And those that must not happen while a stream captures.
CUresult ready_outside_capture(const char* what);

// driver_streams.cc. Work that waits for another rank (nccl.cc) stays where it is: CUDA_ERROR_NOT_READY.
CUresult finish(CUstream_st& stream);
CUresult finish_without_ranks(CUstream_st& stream, const char* what);  // for calls that would wait without a limit
CUresult put(CUstream_st* stream, Work work);

}  // namespace unroll::shim
