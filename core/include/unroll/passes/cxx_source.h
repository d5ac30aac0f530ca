// SPDX-License-Identifier: Apache-2.0
// A plan as C++17 that needs the standard library only.
#pragma once

#include <string>

#include "unroll/passes/backend.h"
#include "unroll/support/export.h"

namespace unroll {

struct CxxSource {
  std::string header;
  std::string weights;  // contents of a binary file; empty when the weights are in the header
};

// Generates a header with one class for the plan of one step. The plan's inputs and outputs are x and y, then the
// states in the same order; the class keeps the states. The weights are in the plan's format. `name` is the class name,
// `title` becomes its comment. Steps allocate nothing. Steps with equal arguments give equal bits with any compiler
// that keeps to IEEE arithmetic without contraction (on x86-64: any compiler without -march).
//   C::lanes, C::inputs, C::outputs          sizes B, I (1 for ids), O
//   void reset()                             the states as at the start: zero, or those of `initial`, f32 by name
//   void step(const T* x, float* y)          x [B,I], y [B,O]; T is float, or std::int32_t for ids
//   void run(const T* x, float* y, int n)    n consecutive steps
//   C::state_size, float* state()            the states, to save and restore
// With separate weights also:
//   C::Weights                               a struct with the bytes of the binary file, aligned to 64
//   const char* load(const void* data, std::size_t size)     uses the weights at `data`, which must stay valid
//   const char* load_file(const char* path, Weights& memory) reads them first
// Both return nullptr, or an error text: wrong size, wrong model, damaged bytes. Without loaded weights steps give NaN.
// Requires a plan for the backend "cxx:17". Throws Error(unsupported), which names a node without a C++ form.
UNROLL_API CxxSource cxx_source(const Plan& plan, const std::string& name, const std::string& title,
                                bool separate_weights = false, const TensorMap& initial = {});

}  // namespace unroll
