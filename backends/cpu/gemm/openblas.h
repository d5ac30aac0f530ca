// SPDX-License-Identifier: Apache-2.0
// Large matmuls by OpenBLAS, opened at run time: the build does not need it, and `cpu` works without it. Used only on
// request, because another library sums in another order: results must not depend on installed system packages.
#pragma once

#include <string>

#include "backends/cpu/kernels/kernels.h"

namespace unroll::cpu {

// Entry points of one library: its C interface for row-major matrices.
struct OpenBlas {
  void (*cblas_sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float* a,
                      int a_stride, const float* b, int b_stride, float beta, float* c, int c_stride) = nullptr;
  void (*set_num_threads)(int) = nullptr;
  int (*get_num_threads)() = nullptr;
  int (*get_parallel)() = nullptr;
  char* (*get_config)() = nullptr;
  char* (*get_corename)() = nullptr;
  std::string release;  // "0.3.21"
  std::string core;     // processor whose kernels it chose: "SkylakeX"

  // Its calls run on the calling thread, because matmuls are divided here. Applies to the process.
  void use_one_thread() const {
    if (get_num_threads() != 1) set_num_threads(1);
  }
};

// Opens the system's library on the first call and keeps it. Throws Error(device) with the reason: it is absent, older
// than 0.3.13 (Debian 11), lacks an entry point, or its threads cannot be limited to one.
const OpenBlas& open_blas();
// Opens another library: a file, or a name that the loader finds.
OpenBlas open_blas(const std::string& file);

// True if OpenBLAS computes this matmul. Depends on shape and dtype only.
bool is_for_openblas(const Matmul& matmul);
// Divides the matmul into pieces that depend on the shape only, because its kernels sum in another order at the end of
// a piece. The bits are therefore the same for any number of workers. No sync inside.
void run_openblas(const OpenBlas& blas, const Matmul& matmul, const void* a, const void* b, void* c,
                  const Worker& worker);

}  // namespace unroll::cpu
