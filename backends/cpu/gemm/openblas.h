// SPDX-License-Identifier: Apache-2.0
// Large products by OpenBLAS, opened at run time: the build needs nothing of it, and `cpu` works where it is absent.
// Only for a backend that was asked for it: another library sums in another order, so results have other bits, which
// must not depend on what a system package brings.
#pragma once

#include <string>

#include "backends/cpu/kernels/kernels.h"

namespace unroll::cpu {

// The entry points of one library, of its C interface for matrices in rows.
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

  // Its calls run in the thread that calls: the product is cut here. For the whole process, as there is no other way.
  void use_one_thread() const {
    if (get_num_threads() != 1) set_num_threads(1);
  }
};

// Opens the library of the system on the first call and keeps it. Throws Error(device), which says why not: it is not
// there, is older than 0.3.13 (Debian 11), lacks an entry point, or its threads cannot be kept to one.
const OpenBlas& open_blas();
// The same of a file or a name that the loader finds, opened anew.
OpenBlas open_blas(const std::string& file);

// Whether OpenBLAS multiplies this. Depends on shape and dtype only.
bool is_for_openblas(const Matmul& matmul);
// Cut into pieces that depend on the shape only, because its kernels sum in another order where a piece ends: the bits
// are the same for any number of parts. No sync inside.
void run_openblas(const OpenBlas& blas, const Matmul& matmul, const void* a, const void* b, void* c,
                  const Worker& worker);

}  // namespace unroll::cpu
