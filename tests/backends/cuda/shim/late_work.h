// SPDX-License-Identifier: Apache-2.0
// What nccl.cc, cublaslt.cc and cudnn.cc need of the driver beside it.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <functional>

// Checks that memory is allocated, and puts work on a stream; none: only checks. Work that returns CUDA_ERROR_NOT_READY
// is called again.
extern "C++" CUresult unroll_shim_put(CUstream stream, std::function<CUresult()> work, const void* memory,
                                      std::size_t bytes);
// The same for work that a graph may have.
extern "C++" CUresult unroll_shim_work(CUstream stream, std::function<CUresult()> work, const void* memory,
                                       std::size_t bytes);
extern "C++" bool unroll_shim_captures(CUstream stream);
// Called by work when it runs: what it costs on the clock of the device.
extern "C++" void unroll_shim_spend(std::uint64_t nanoseconds);
