// SPDX-License-Identifier: Apache-2.0
#include "backends/onednn/library.h"

#include <dlfcn.h>
#include <pthread.h>

#include "backends/onednn/found.h"
#include "unroll/support/error.h"

namespace unroll::onednn {

namespace {

constexpr int k_major = 3;
// The library found beside the headers, then the loader's search path. UNROLL_ONEDNN_LIBRARY may be empty.
constexpr const char* k_places[] = {UNROLL_ONEDNN_LIBRARY, "libdnnl.so.3"};

constexpr const char* k_next = "run .ci/setup, or install oneDNN 3 where the loader finds libdnnl.so.3";

void* open_any() {
  std::string reasons;
  for (const char* place : k_places) {
    if (*place == '\0') continue;
    // Never closed: an OpenMP runtime cannot be unloaded while its threads live.
    if (void* handle = dlopen(place, RTLD_NOW | RTLD_LOCAL)) return handle;
    reasons += (reasons.empty() ? "" : "; ") + std::string(dlerror());
  }
  throw Error(ErrorKind::device, "onednn", "the library cannot be opened: " + reasons, k_next);
}

template <class F>
void find(void* handle, const std::string& name, F& function) {
  function = reinterpret_cast<F>(dlsym(handle, name.c_str()));
}

// oneDNN dies of SIGILL on processors without SSE4.1, and uses FMA whenever it finds AVX2.
void require_instructions() {
#ifdef __x86_64__
  const bool has_sse = __builtin_cpu_supports("sse4.1") != 0;
  const bool lacks_fma = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") == 0;
  if (!has_sse || lacks_fma)
    throw Error(ErrorKind::device, "onednn",
                std::string("this processor has no ") + (has_sse ? "FMA" : "SSE4.1") + ", which oneDNN's kernels need",
                "Use the backend cpu");
#endif
}

Library open() {
  require_instructions();
  Library l;
  void* handle = open_any();
#define X(name)                                                                               \
  find(handle, "dnnl_" #name, l.name);                                                        \
  if (!l.name) throw Error(ErrorKind::device, "onednn", "the library has no dnnl_" #name, k_next);
  UNROLL_ONEDNN_FUNCTIONS(X)
#undef X
  const dnnl_version_t& v = *l.version();
  l.release = std::to_string(v.major) + "." + std::to_string(v.minor) + "." + std::to_string(v.patch);
  if (v.major != k_major)
    throw Error(ErrorKind::device, "onednn", "needs version " + std::to_string(k_major) + "; got " + l.release, k_next);
  // The handle also gives access to the library's dependencies.
  find(handle, "omp_set_num_threads", l.omp_set_num_threads);
  find(handle, "omp_get_max_threads", l.omp_get_max_threads);
  find(handle, "omp_get_num_threads", l.omp_get_num_threads);
  find(handle, "omp_get_thread_num", l.omp_get_thread_num);
  find(handle, "omp_pause_resource_all", l.omp_pause_resource_all);
  find(handle, "GOMP_parallel", l.gomp_parallel);
  if (!l.omp_set_num_threads || !l.omp_get_max_threads || !l.omp_get_num_threads || !l.omp_get_thread_num)
    l.gomp_parallel = nullptr;
  if (l.engine_create(&l.engine, dnnl_cpu, 0) != dnnl_success)
    throw Error(ErrorKind::device, "onednn", "the library provides no CPU engine");
  return l;
}

}  // namespace

namespace {

// libgomp waits forever for threads that a forked child lacks. A process without libgomp threads can be forked; libgomp
// restarts them on demand.
void end_threads_before_fork() {
  constexpr int k_soft = 1;  // omp_pause_soft
  if (library().omp_pause_resource_all) library().omp_pause_resource_all(k_soft);
}

}  // namespace

const Library& library() {
  static const Library opened = [] {
    Library l = open();
    pthread_atfork(end_threads_before_fork, nullptr, nullptr);
    return l;
  }();
  return opened;
}

void check(dnnl_status_t status, const std::string& what) {
  if (status == dnnl_success) return;
  if (status == dnnl_out_of_memory) throw Error(ErrorKind::memory, "onednn", what + " ran out of memory");
  throw Error(ErrorKind::device, "onednn", what + " failed with status " + std::to_string(static_cast<int>(status)));
}

ThreadCount::ThreadCount(int n) {
  if (n == 0 || !library().has_openmp()) return;
  before_ = library().omp_get_max_threads();
  library().omp_set_num_threads(n);
}
ThreadCount::~ThreadCount() {
  if (before_ > 0) library().omp_set_num_threads(before_);
}

}  // namespace unroll::onednn
