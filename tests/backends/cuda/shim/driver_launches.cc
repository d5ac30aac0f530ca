// SPDX-License-Identifier: Apache-2.0
// Modules, and launches of their kernels: on fibers, with a check of every access to memory.
#include <cuda.h>
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/backends/cuda/shim/driver_state.h"
#include "tests/backends/cuda/shim/fibers.h"

using namespace unroll::shim;

namespace {

constexpr std::uint64_t k_launch_cost = 2000;  // nanoseconds, whatever the kernel
constexpr int k_blocks_per_multiprocessor = 2;

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
      driver().memory.add(all_.back(), bytes, Memory::Kind::peers);
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

// Of the launch that runs.
const BlockMemory* block_memory = nullptr;
unsigned cluster_blocks = 1;
// The shared memory of a block in the cluster of the running one, which must be there.
char* shared_of(unsigned rank) {
  const unsigned block = unroll::shim::running_block() / cluster_blocks * cluster_blocks + rank;
  if (cluster_blocks < 2 || rank >= cluster_blocks) unroll::shim::fail("a store to a block of another cluster");
  if (!unroll::shim::is_running(block))
    unroll::shim::fail("a store to block " + std::to_string(block) + ", which has not begun or has ended");
  return block_memory->of(block);
}

CUresult run(const Launched& launch) {
  Driver& d = driver();
  CUfunc_st& f = *launch.function;
  ++d.launches;
  d.clock += k_launch_cost;
  std::vector<void*> arguments;
  for (const auto& bytes : launch.arguments) arguments.push_back(const_cast<char*>(bytes.data()));
  State& state = *f.library->state;
  state = {{0, 0, 0}, {0, 0, 0}, {launch.threads, 1, 1}, {launch.blocks, 1, 1}, barrier, access,
           unroll::shim::arrive, unroll::shim::yield, unroll::shim::meet, nullptr, launch.cluster, shared_of};
  const BlockMemory shared(launch.blocks, launch.shared_bytes);
  block_memory = &shared, cluster_blocks = launch.cluster;
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

bool fits(const Index& grid, const Index& block) {
  return grid.x > 0 && grid.x <= 0x7fffffff && grid.y == 1 && grid.z == 1 && block.x > 0 && block.x <= 1024 &&
         block.y == 1 && block.z == 1;
}
Launched launched_of(const CUlaunchConfig& config, CUfunction f) {
  Launched launch{f, config.gridDimX, config.blockDimX, {}, false, config.sharedMemBytes};
  for (unsigned k = 0; k < config.numAttrs; ++k) {
    const CUlaunchAttribute& each = config.attrs[k];
    if (each.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) launch.cluster = each.value.clusterDim.x;
    if (each.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) launch.cooperative = each.value.cooperative != 0;
  }
  return launch;
}
CUresult put_launch(Launched launch, CUstream stream, void** arguments) {
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

}  // namespace

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
  if (what == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) {
    f->most_cluster = value != 0 ? 16 : 8;
    return CUDA_SUCCESS;
  }
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
  const bool is_cluster =
      launch.cluster > 1 && launch.cluster <= f->most_cluster && launch.blocks % launch.cluster == 0;
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
  const unsigned cluster = launched_of(*config, f).cluster;
  if (cluster > f->most_cluster) return complain(CUDA_ERROR_INVALID_CLUSTER_SIZE, f->name + ": too large a cluster");
  *clusters = multiprocessors() / static_cast<int>(cluster);
  return ready();
}

// Words of memory that kernels have read or written.
extern "C" std::uint64_t unroll_shim_accesses() { return driver().memory.checked(); }
extern "C" std::uint64_t unroll_shim_global_accesses() { return driver().memory.checked_global(); }
