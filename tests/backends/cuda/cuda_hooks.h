// SPDX-License-Identifier: Apache-2.0
// Lets any call of the CUDA driver, of NVRTC, cuBLASLt or cuDNN fail once, through their function tables.
#pragma once

#include "backends/cuda/driver/functions.h"
#include "backends/cuda/library/blas.h"
#include "backends/cuda/library/cudnn.h"

namespace unroll::cuda_hooks {

using namespace unroll::cuda;

struct Fault {
  int calls = 0;   // so far
  int due = -1;    // number of the call that fails; -1: none
  bool memory = false;
  const char* failed = nullptr;
};
inline Fault& fault() {
  static Fault state;
  return state;
}

inline constexpr const char* k_names[] = {
#define X(name, version) "cu" #name,
    UNROLL_CUDA_DRIVER_FUNCTIONS(X)
#undef X
#define X(name) "nvrtc" #name,
    UNROLL_CUDA_COMPILER_FUNCTIONS(X)
#undef X
#define X(name, ...) "cublasLt" #name,
    UNROLL_BLAS_FUNCTIONS(X)
#undef X
#define X(name, ...) "cudnn" #name,
    UNROLL_DNN_FUNCTIONS(X)
#undef X
};
enum Number : int {
#define X(name, version) cu_##name,
  UNROLL_CUDA_DRIVER_FUNCTIONS(X)
#undef X
#define X(name) nvrtc_##name,
  UNROLL_CUDA_COMPILER_FUNCTIONS(X)
#undef X
#define X(name, ...) blas_##name,
  UNROLL_BLAS_FUNCTIONS(X)
#undef X
#define X(name, ...) dnn_##name,
  UNROLL_DNN_FUNCTIONS(X)
#undef X
};

inline void injected(CUresult& result) {
  result = fault().memory ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_LAUNCH_FAILED;
}
inline void injected(nvrtcResult& result) {
  result = fault().memory ? NVRTC_ERROR_OUT_OF_MEMORY : NVRTC_ERROR_INTERNAL_ERROR;
}
inline void injected(blas::Status& result) {
  result = fault().memory ? blas::Status::alloc_failed : blas::Status::execution_failed;
}
inline void injected(dnn::Status& result) {
  result = fault().memory ? dnn::Status::device_memory : dnn::Status::execution_failed;
}

// Puts itself before an entry that returns a result.
template <int N, class F>
struct Hook {
  static void install(F&) {}
};
template <int N, class R, class... A>
struct Hook<N, R (*)(A...)> {
  static inline R (*real)(A...) = nullptr;
  static R call(A... arguments) {
    if (fault().calls++ != fault().due) return real(arguments...);
    fault().failed = k_names[N];
    R result;
    injected(result);
    return result;
  }
  static void install(R (*&entry)(A...)) {
    real = entry;
    entry = call;
  }
};
template <int N, class... A>
struct Hook<N, const char* (*)(A...)> {
  static void install(const char* (*&)(A...)) {}
};
inline void tamper_driver(Functions& f) {
#define X(name, version) Hook<cu_##name, decltype(f.name)>::install(f.name);
  UNROLL_CUDA_DRIVER_FUNCTIONS(X)
#undef X
#define X(name) Hook<nvrtc_##name, decltype(f.compiler.name)>::install(f.compiler.name);
  UNROLL_CUDA_COMPILER_FUNCTIONS(X)
#undef X
}
// A library that cannot be opened is absent, which other tests have: then own kernels run.
inline void tamper_blas(BlasFunctions& f) {
#define X(name, ...) \
  if (blas_##name != blas_Create) Hook<blas_##name, decltype(f.name)>::install(f.name);
  UNROLL_BLAS_FUNCTIONS(X)
#undef X
}
inline void tamper_dnn(DnnFunctions& f) {
#define X(name, ...) \
  if (dnn_##name != dnn_Create) Hook<dnn_##name, decltype(f.name)>::install(f.name);
  UNROLL_DNN_FUNCTIONS(X)
#undef X
}

inline void install_hooks() {
  set_tamper(tamper_driver), set_blas_tamper(tamper_blas), set_dnn_tamper(tamper_dnn);
}
inline void remove_hooks() { set_tamper(nullptr), set_blas_tamper(nullptr), set_dnn_tamper(nullptr); }

}  // namespace unroll::cuda_hooks
