// SPDX-License-Identifier: Apache-2.0
// oneDNN's C interface, opened at run time: unroll does not depend on it and works without it.
#pragma once

#include <oneapi/dnnl/dnnl.h>

#include <cstddef>
#include <memory>
#include <string>

namespace unroll::onednn {

#define UNROLL_ONEDNN_FUNCTIONS(X)                                                                                    \
  X(version) X(get_effective_cpu_isa)                                                                                 \
  X(engine_create) X(stream_create) X(stream_destroy) X(stream_wait)                                                  \
  X(memory_desc_create_with_strides) X(memory_desc_create_with_tag) X(memory_desc_destroy)                            \
  X(memory_desc_equal)                                                                                                \
  X(memory_desc_get_size) X(memory_create) X(memory_set_data_handle) X(memory_destroy)                                \
  X(primitive_attr_create) X(primitive_attr_set_scratchpad_mode) X(primitive_attr_destroy)                            \
  X(primitive_desc_query) X(primitive_desc_query_md) X(primitive_desc_destroy)                                        \
  X(primitive_create) X(primitive_execute) X(primitive_destroy) X(reorder_primitive_desc_create)                      \
  X(vanilla_rnn_forward_primitive_desc_create) X(vanilla_rnn_backward_primitive_desc_create)                          \
  X(lstm_forward_primitive_desc_create) X(lstm_backward_primitive_desc_create)                                        \
  X(gru_forward_primitive_desc_create) X(gru_backward_primitive_desc_create)                                          \
  X(lbr_gru_forward_primitive_desc_create) X(lbr_gru_backward_primitive_desc_create)

// The entry points dnnl_<name>, and those of the library's OpenMP runtime. The latter are null without OpenMP.
struct Library {
#define X(name) decltype(&dnnl_##name) name = nullptr;
  UNROLL_ONEDNN_FUNCTIONS(X)
#undef X
  void (*omp_set_num_threads)(int) = nullptr;
  int (*omp_get_max_threads)() = nullptr;
  int (*omp_get_num_threads)() = nullptr;
  int (*omp_get_thread_num)() = nullptr;
  int (*omp_pause_resource_all)(int kind) = nullptr;  // null before OpenMP 5.0
  // Runs function(argument) on n_threads threads at once (libgomp's ABI, which other OpenMP runtimes support too).
  void (*gomp_parallel)(void (*function)(void*), void* argument, unsigned n_threads, unsigned flags) = nullptr;

  dnnl_engine_t engine = nullptr;
  std::string release;  // "3.2.0"

  bool has_openmp() const { return gomp_parallel != nullptr; }
};

// Opens the library on the first call and keeps it. Throws Error(device), which lists the attempts, if it is absent,
// lacks an entry point or is older than 3.
const Library& library();

// Throws Error(memory|device), which names the failed call.
void check(dnnl_status_t status, const std::string& what);

// Sets the calling thread's OpenMP thread count during its lifetime, for primitives made or run then. 0: no change.
class ThreadCount {
 public:
  explicit ThreadCount(int n);
  ~ThreadCount();
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_ = 0;
};

}  // namespace unroll::onednn
