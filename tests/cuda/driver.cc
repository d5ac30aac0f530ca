// SPDX-License-Identifier: Apache-2.0
// The entry points of libcuda.so.1, for tests without a device: memory is that of the host, kernels are functions that
// g++ compiled (compiler.cc). Work on a stream is done late, when somebody waits for it. Calls that a device would
// refuse are errors here, with a line on stderr; kernels are checked (races.h). Only what the backend calls is there.
//
// Environment: UNROLL_SHIM_DRIVER, the CUDA version of the driver; UNROLL_SHIM_ARCH; UNROLL_SHIM_MEMORY, bytes;
// UNROLL_SHIM_FAULT, the number of the launch that fails; UNROLL_SHIM_MULTIPROCESSORS; UNROLL_SHIM_SHARED, bytes that a
// block may ask for.
#include <cuda.h>
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "backends/cuda/library/functions.h"
#include "tests/cuda/fibers.h"
#include "tests/cuda/late_work.h"
#include "tests/cuda/races.h"

namespace {

using unroll::shim::Memory;

constexpr int k_blocks_per_multiprocessor = 2;
constexpr std::size_t k_plain_shared_bytes = 48 << 10;  // of a launch that does not ask for more

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

}  // namespace

struct CUmod_st {
  std::map<std::string, KernelPlace> kernels;  // by name
  std::deque<CUfunc_st> functions;
  int launches_under_way = 0;
};
struct CUfunc_st {
  CUmod_st* module;
  Library* library;
  std::string name;
  void (*launch)(void** arguments);
  const unsigned* parameters;  // how many, then their sizes
  std::size_t shared_bytes = k_plain_shared_bytes;  // that a launch may ask for
};
struct CUstream_st {
  std::deque<Work> late;
  bool captures = false;
  std::thread::id capturing = {};  // the only thread that a capture restricts; empty: all threads
  std::vector<Work> captured;
};
struct CUgraph_st {
  std::vector<Work> work;
};
struct CUgraphExec_st {
  std::vector<Work> work;
};
struct CUevent_st {
  bool has_time = true;
  CUstream_st* stream = nullptr;
  std::shared_ptr<std::optional<std::uint64_t>> time = {};  // of the latest record, when the stream has come to it
};
struct CUctx_st {
  int retained = 0;
};

namespace {

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
// Never destroyed: the backend's own statics may outlive those of this library.
Driver& driver() {
  static Driver* const all = new Driver;
  return *all;
}
thread_local CUcontext current = nullptr;

std::size_t setting(const char* name, std::size_t otherwise) {
  const char* const text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

int multiprocessors() { return static_cast<int>(setting("UNROLL_SHIM_MULTIPROCESSORS", 2)); }
std::size_t most_shared_bytes() { return setting("UNROLL_SHIM_SHARED", 227 << 10); }

CUresult complain(CUresult result, const std::string& what) {
  std::fprintf(stderr, "cuda shim: %s\n", what.c_str());
  return result;
}

// What all calls with a context begin with.
CUresult ready() {
  if (driver().broken != CUDA_SUCCESS) return driver().broken;
  return current ? CUDA_SUCCESS : complain(CUDA_ERROR_INVALID_CONTEXT, "no context is current");
}
// And those that must not happen while a stream captures.
CUresult ready_outside_capture(const char* what) {
  for (const CUstream_st* stream : driver().streams)
    if (stream->captures && (stream->capturing == std::thread::id() || stream->capturing == std::this_thread::get_id()))
      return complain(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, std::string(what) + " while a stream captures");
  return ready();
}

// Work that waits for another rank (nccl.cc) stays where it is: CUDA_ERROR_NOT_READY.
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
// For calls that would wait without a limit.
CUresult finish_without_ranks(CUstream_st& stream, const char* what) {
  const CUresult result = finish(stream);
  if (result != CUDA_ERROR_NOT_READY) return result;
  return complain(CUDA_ERROR_NOT_PERMITTED, std::string(what) + " waits for another rank, which may be lost");
}

constexpr std::uint64_t k_launch_cost = 2000;  // nanoseconds, whatever the kernel

CUresult put(CUstream_st* stream, Work work) {
  if (!driver().streams.count(stream)) return complain(CUDA_ERROR_INVALID_HANDLE, "a stream that is not there");
  if (stream->captures) stream->captured.push_back(std::move(work));
  else stream->late.push_back(std::move(work));
  return CUDA_SUCCESS;
}

void barrier(void* place) { unroll::shim::at_barrier(place); }

// By words, since some memory is written in words of 8 bytes and read in words of 4.
void access(const void* address, unsigned bytes, bool writes, const void*) {
  if (unroll::shim::is_on_stack(address)) return;
  constexpr unsigned k_word = 4;
  Driver& d = driver();
  for (unsigned at = 0; at < bytes; at += k_word) {
    const std::string wrong = d.memory.check(
        {static_cast<const char*>(address) + at, std::min(bytes - at, k_word), writes,
         d.launches, unroll::shim::epoch(), unroll::shim::seen_of, unroll::shim::running_block(),
         unroll::shim::barriers_so_far(),
         static_cast<std::uint16_t>(unroll::shim::running_thread())});
    if (!wrong.empty()) unroll::shim::fail(wrong);
  }
}

struct Launched {
  CUfunc_st* function;
  unsigned blocks, threads;
  std::vector<std::vector<char>> arguments;
  bool cooperative = false;
  std::size_t shared_bytes = 0;
  unsigned cluster = 1;  // blocks that run at the same time in any case
};

// Of each block of a launch; poisoned, and checked as other shared memory is.
class BlockMemory {
 public:
  BlockMemory(std::size_t blocks, std::size_t bytes) {
    for (std::size_t k = 0; bytes > 0 && k < blocks; ++k) {
      all_.push_back(static_cast<char*>(std::aligned_alloc(256, (bytes + 255) / 256 * 256)));
      std::memset(all_.back(), 0xff, bytes);
      driver().memory.add(all_.back(), bytes, Memory::Kind::shared);
    }
  }
  ~BlockMemory() {
    for (char* each : all_) {
      driver().memory.remove(each);
      std::free(each);
    }
  }
  BlockMemory(const BlockMemory&) = delete;
  BlockMemory& operator=(const BlockMemory&) = delete;
  char* of(std::size_t block) const { return all_.empty() ? nullptr : all_[block]; }

 private:
  std::vector<char*> all_;
};

CUresult run(const Launched& launch) {
  Driver& d = driver();
  CUfunc_st& f = *launch.function;
  ++d.launches;
  d.clock += k_launch_cost;
  std::vector<void*> arguments;
  for (const auto& bytes : launch.arguments) arguments.push_back(const_cast<char*>(bytes.data()));
  State& state = *f.library->state;
  state = {{0, 0, 0}, {0, 0, 0}, {launch.threads, 1, 1}, {launch.blocks, 1, 1}, barrier, access,
           unroll::shim::arrive, unroll::shim::yield, unroll::shim::meet, nullptr, launch.cluster};
  const BlockMemory shared(launch.blocks, launch.shared_bytes);
  if (const std::size_t n = setting("UNROLL_SHIM_FAULT", 0); n > 0 && d.launches >= n)
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  std::vector<unsigned> blocks;
  for (unsigned k = 0; k < launch.blocks; ++k) blocks.push_back(d.launches % 2 ? launch.blocks - 1 - k : k);
  const auto started = [&](const std::vector<unsigned>& some) {
    return unroll::shim::run_blocks(
        launch.threads, some, [&](unsigned) { f.launch(arguments.data()); },
        [&](unsigned block, unsigned thread) {
          state.block.x = block, state.thread.x = thread, state.shared = shared.of(block);
        },
        d.launches % 4 > 1);
  };
  std::string wrong;
  if (launch.cooperative) {
    wrong = started(blocks);
    d.launches += unroll::shim::last_epoch();  // what follows a barrier of blocks is ordered as another launch would be
  } else {
    for (std::size_t k = 0; k < blocks.size() && wrong.empty(); k += launch.cluster) {
      const auto first = blocks.begin() + static_cast<std::ptrdiff_t>(k);
      wrong = started({first, first + static_cast<std::ptrdiff_t>(launch.cluster)});
      d.launches += launch.cluster > 1 ? unroll::shim::last_epoch() : 0;
    }
  }
  return wrong.empty() ? CUDA_SUCCESS : complain(CUDA_ERROR_ILLEGAL_ADDRESS, f.name + ": " + wrong);
}

CUresult allocate(CUdeviceptr* at, std::size_t bytes) {
  Driver& d = driver();
  if (bytes == 0) return complain(CUDA_ERROR_INVALID_VALUE, "an allocation of no bytes");
  if (d.used + bytes > setting("UNROLL_SHIM_MEMORY", std::size_t{4} << 30)) return CUDA_ERROR_OUT_OF_MEMORY;
  void* const memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (!memory) return CUDA_ERROR_OUT_OF_MEMORY;
  std::memset(memory, 0xff, bytes);  // NaN
  d.used += bytes;
  d.memory.add(memory, bytes, Memory::Kind::global);
  *at = reinterpret_cast<CUdeviceptr>(memory);
  return CUDA_SUCCESS;
}
CUresult release(CUdeviceptr at) {
  Driver& d = driver();
  void* const memory = reinterpret_cast<void*>(at);
  const std::size_t bytes = d.memory.size_of(memory);
  if (bytes == 0) return complain(CUDA_ERROR_INVALID_VALUE, "freed memory that is not allocated");
  d.used -= bytes;
  d.memory.remove(memory);
  std::free(memory);
  return CUDA_SUCCESS;
}

CUresult copy(CUstream_st* stream, void* to, const void* from, std::size_t bytes, bool checks_to, bool checks_from) {
  return put(stream, [=] {
    const Memory& memory = driver().memory;
    if ((checks_to && !memory.contains(to, bytes)) || (checks_from && !memory.contains(from, bytes)))
      return complain(CUDA_ERROR_INVALID_VALUE, "a copy outside of allocated memory");
    std::memmove(to, from, bytes);
    return CUDA_SUCCESS;
  });
}

// Writable memory of a library is shared memory of its kernels, the rest are constants.
void add_regions(void* library) {
  link_map* map = nullptr;
  dlinfo(library, RTLD_DI_LINKMAP, &map);
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* base) {
        if (info->dlpi_addr != *static_cast<const ElfW(Addr)*>(base)) return 0;
        for (int k = 0; k < info->dlpi_phnum; ++k) {
          const auto& part = info->dlpi_phdr[k];
          if (part.p_type != PT_LOAD || part.p_memsz == 0) continue;
          driver().memory.add(reinterpret_cast<const void*>(info->dlpi_addr + part.p_vaddr), part.p_memsz,
                              part.p_flags & PF_W ? Memory::Kind::shared : Memory::Kind::constant);
        }
        return 1;
      },
      &map->l_addr);
}

Library* library_at(const std::string& path) {
  Library& library = driver().libraries[path];
  if (library.handle) return &library;
  library.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library.handle) return nullptr;
  library.state = static_cast<State*>(dlsym(library.handle, "unroll_state"));
  add_regions(library.handle);
  return &library;
}

}  // namespace

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* version) {
  *version = static_cast<int>(setting("UNROLL_SHIM_DRIVER", 13000));
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* n) {
  *n = 1;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int index) {
  *device = 0;
  return index == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDeviceGetName(char* name, int n, CUdevice) {
  std::snprintf(name, static_cast<std::size_t>(n), "CUDA shim on the host");
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute what, CUdevice) {
  const auto arch = static_cast<int>(setting("UNROLL_SHIM_ARCH", 90));
  switch (what) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = arch / 10; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = arch % 10; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = multiprocessors(); break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = static_cast<int>(most_shared_bytes());
      break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: *value = 1; break;
    default: return complain(CUDA_ERROR_INVALID_VALUE, "an attribute that the shim lacks");
  }
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem(size_t* bytes, CUdevice) {
  *bytes = setting("UNROLL_SHIM_MEMORY", std::size_t{4} << 30);
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  ++driver().context.retained;
  *context = &driver().context;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice) {
  const int left = --driver().context.retained;
  if (left == 0) driver().broken = CUDA_SUCCESS;
  return left >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
CUresult cuCtxSetCurrent(CUcontext context) {
  current = context;
  return driver().broken;
}
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice) {
  *pool = nullptr;
  return CUDA_SUCCESS;
}
CUresult cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute, void*) { return CUDA_SUCCESS; }

CUresult cuMemAlloc(CUdeviceptr* at, size_t bytes) {
  const std::lock_guard lock(driver().mutex);
  if (const CUresult r = ready_outside_capture("cuMemAlloc")) return r;
  return allocate(at, bytes);
}
CUresult cuMemFree(CUdeviceptr at) {
  const std::lock_guard lock(driver().mutex);
  if (const CUresult r = ready_outside_capture("cuMemFree")) return r;
  for (CUstream_st* stream : driver().streams) finish(*stream);
  return release(at);
}
CUresult cuMemAllocAsync(CUdeviceptr* at, size_t bytes, CUstream) {
  const std::lock_guard lock(driver().mutex);
  if (const CUresult r = ready_outside_capture("cuMemAllocAsync")) return r;
  return allocate(at, bytes);
}
CUresult cuMemFreeAsync(CUdeviceptr at, CUstream stream) {
  const std::lock_guard lock(driver().mutex);
  if (const CUresult r = ready_outside_capture("cuMemFreeAsync")) return r;
  return put(stream, [at] { return release(at); });
}
CUresult cuMemHostAlloc(void** at, size_t bytes, unsigned) {
  const std::lock_guard lock(driver().mutex);
  if (const CUresult r = ready_outside_capture("cuMemHostAlloc")) return r;
  *at = std::malloc(bytes);
  return *at ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult cuMemFreeHost(void* at) {
  std::free(at);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  const std::lock_guard lock(driver().mutex);
  if (const CUresult r = ready()) return r;
  return copy(stream, reinterpret_cast<void*>(to), from, bytes, true, false);
}
// To memory that is not pinned: the call returns when it is done.
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  const std::lock_guard lock(driver().mutex);
  if (const CUresult r = ready_outside_capture("cuMemcpyDtoHAsync")) return r;
  if (const CUresult r = copy(stream, to, reinterpret_cast<const void*>(from), bytes, false, true)) return r;
  return finish_without_ranks(*stream, "cuMemcpyDtoHAsync");
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  const std::lock_guard lock(driver().mutex);
  if (const CUresult r = ready()) return r;
  return copy(stream, reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes, true, true);
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  const std::lock_guard lock(driver().mutex);
  if (const CUresult r = ready()) return r;
  return put(stream, [=] {
    void* const at = reinterpret_cast<void*>(to);
    if (!driver().memory.contains(at, bytes)) return complain(CUDA_ERROR_INVALID_VALUE, "zeros outside of memory");
    std::memset(at, value, bytes);
    return CUDA_SUCCESS;
  });
}

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

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  const std::lock_guard lock(driver().mutex);
  if (const CUresult r = ready_outside_capture("cuModuleLoadData")) return r;
  std::istringstream lines(static_cast<const char*>(image));
  std::string line, name, symbol, path;
  if (!std::getline(lines, line) || line != "cuda shim") return complain(CUDA_ERROR_INVALID_IMAGE, "not an image");
  auto made = std::make_unique<CUmod_st>();
  while (lines >> name >> symbol && std::getline(lines >> std::ws, path)) {
    Library* const library = path == "later" ? nullptr : library_at(path);
    if (!library && path != "later") return complain(CUDA_ERROR_INVALID_IMAGE, dlerror());
    made->kernels[name] = {library, symbol};
  }
  *module = made.release();
  return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule module) {
  const std::lock_guard lock(driver().mutex);
  if (module->launches_under_way > 0) return complain(CUDA_ERROR_LAUNCH_FAILED, "a module in use is unloaded");
  delete module;
  return CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  const std::lock_guard lock(driver().mutex);
  if (const CUresult r = ready()) return r;
  const auto kernel = module->kernels.find(name);
  if (kernel == module->kernels.end()) return CUDA_ERROR_NOT_FOUND;
  const auto& [library, symbol] = kernel->second;
  if (!library) {  // it is compiled later, for another module
    module->functions.push_back({module, nullptr, symbol, nullptr, nullptr});
    *function = &module->functions.back();
    return CUDA_SUCCESS;
  }
  void* const launch = dlsym(library->handle, (symbol + "_launch").c_str());
  const void* const parameters = dlsym(library->handle, (symbol + "_parameters").c_str());
  if (!launch || !parameters) return CUDA_ERROR_NOT_FOUND;
  module->functions.push_back({module, library, symbol, reinterpret_cast<void (*)(void**)>(launch),
                               static_cast<const unsigned*>(parameters)});
  *function = &module->functions.back();
  return CUDA_SUCCESS;
}
static bool fits(const Index& grid, const Index& block) {
  return grid.x > 0 && grid.x <= 0x7fffffff && grid.y == 1 && grid.z == 1 && block.x > 0 && block.x <= 1024 &&
         block.y == 1 && block.z == 1;
}
static Launched launched_of(const CUlaunchConfig& config, CUfunction f) {
  Launched launch{f, config.gridDimX, config.blockDimX, {}, false, config.sharedMemBytes};
  for (unsigned k = 0; k < config.numAttrs; ++k) {
    const CUlaunchAttribute& each = config.attrs[k];
    if (each.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) launch.cluster = each.value.clusterDim.x;
    if (each.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) launch.cooperative = each.value.cooperative != 0;
  }
  return launch;
}
static CUresult put_launch(Launched launch, CUstream stream, void** arguments) {
  const unsigned* const parameters = launch.function->parameters;
  if (!parameters) return complain(CUDA_ERROR_INVALID_HANDLE, launch.function->name + ": it is not compiled yet");
  for (unsigned k = 0; k < parameters[0]; ++k) {
    const char* const from = static_cast<const char*>(arguments[k]);
    launch.arguments.emplace_back(from, from + parameters[1 + k]);
  }
  if (stream->captures) return put(stream, [launch = std::move(launch)] { return run(launch); });
  ++launch.function->module->launches_under_way;
  return put(stream, [launch = std::move(launch)] {
    --launch.function->module->launches_under_way;
    return run(launch);
  });
}
CUresult cuLaunchKernel(CUfunction f, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void** arguments,
                        void** extra) {
  const std::lock_guard lock(driver().mutex);
  if (const CUresult r = ready()) return r;
  if (!fits({grid_x, grid_y, grid_z}, {block_x, block_y, block_z}) || shared_bytes > 0 || extra)
    return complain(CUDA_ERROR_INVALID_VALUE, f->name + ": a wrong launch");
  return put_launch({f, grid_x, block_x, {}}, stream, arguments);
}
CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute what, int value) {
  const std::lock_guard lock(driver().mutex);
  if (const CUresult r = ready()) return r;
  if (what != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
      static_cast<std::size_t>(value) > most_shared_bytes())
    return complain(CUDA_ERROR_INVALID_VALUE, f->name + ": more shared memory than a block may have");
  f->shared_bytes = static_cast<std::size_t>(value);
  return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction f, int, size_t shared_bytes) {
  *blocks = shared_bytes > f->shared_bytes ? 0 : shared_bytes > 0 ? 1 : k_blocks_per_multiprocessor;
  return ready();
}
CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                                   unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream,
                                   void** arguments) {
  const std::lock_guard lock(driver().mutex);
  if (const CUresult r = ready()) return r;
  if (!fits({grid_x, grid_y, grid_z}, {block_x, block_y, block_z}) || shared_bytes > f->shared_bytes)
    return complain(CUDA_ERROR_INVALID_VALUE, f->name + ": a wrong launch");
  if (grid_x > static_cast<unsigned>(multiprocessors() * (shared_bytes > 0 ? 1 : k_blocks_per_multiprocessor)))
    return complain(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, f->name + ": more blocks than run at the same time");
  return put_launch({f, grid_x, block_x, {}, /*cooperative=*/true, shared_bytes}, stream, arguments);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** arguments, void** extra) {
  const std::lock_guard lock(driver().mutex);
  if (const CUresult r = ready()) return r;
  const Launched launch = launched_of(*config, f);
  const bool is_cluster = launch.cluster > 1 && launch.cluster <= 8 && launch.blocks % launch.cluster == 0;
  if (!fits({config->gridDimX, config->gridDimY, config->gridDimZ},
            {config->blockDimX, config->blockDimY, config->blockDimZ}) ||
      launch.shared_bytes > f->shared_bytes || extra || !is_cluster || setting("UNROLL_SHIM_ARCH", 90) < 90)
    return complain(CUDA_ERROR_INVALID_VALUE, f->name + ": a wrong launch");
  if (launch.cooperative && launch.blocks > static_cast<unsigned>(multiprocessors()))
    return complain(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, f->name + ": more blocks than run at the same time");
  return put_launch(launch, config->hStream, arguments);
}
CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction f, const CUlaunchConfig* config) {
  const std::lock_guard lock(driver().mutex);
  *clusters = multiprocessors() / static_cast<int>(launched_of(*config, f).cluster);
  return ready();
}

// Words of memory that kernels have read or written.
extern "C" std::uint64_t unroll_shim_accesses() { return driver().memory.checked(); }
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

CUresult cuGetErrorName(CUresult result, const char** name) {
  switch (result) {
    case CUDA_SUCCESS: *name = "CUDA_SUCCESS"; break;
    case CUDA_ERROR_OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; break;
    case CUDA_ERROR_ILLEGAL_ADDRESS: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; break;
    default: *name = nullptr; return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char** text) {
  *text = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGetProcAddress(const char* symbol, void** entry, int, cuuint64_t, CUdriverProcAddressQueryResult*) {
  *entry = nullptr;
#define X(name, version) \
  if (std::strcmp(symbol, "cu" #name) == 0) *entry = reinterpret_cast<void*>(&cu##name);
  UNROLL_CUDA_DRIVER_FUNCTIONS(X)
#undef X
  return *entry ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
