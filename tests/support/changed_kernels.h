// SPDX-License-Identifier: Apache-2.0
// Kernels of cuda with a mistake, which tests must see.
#pragma once

#include <string>
#include <utility>

#include "backends/cuda/driver/functions.h"

namespace unroll::testing {

// While it lives, the compiler gets kernels with another text.
class ChangedKernels {
 public:
  ChangedKernels(std::string text, std::string instead) {
    change() = {std::move(text), std::move(instead)};
    cuda::set_tamper(tamper);
  }
  ~ChangedKernels() { cuda::set_tamper(nullptr); }
  ChangedKernels(const ChangedKernels&) = delete;
  ChangedKernels& operator=(const ChangedKernels&) = delete;
  int places() const { return change().places; }  // that had the text so far

 private:
  struct Change {
    std::string text, instead;
    int places = 0;
    decltype(cuda::Functions{}.compiler.CreateProgram) create = nullptr;
  };
  static Change& change() {
    static Change the_change;
    return the_change;
  }
  static nvrtcResult create_changed(nvrtcProgram* program, const char* source, const char* name, int n,
                                    const char* const* headers, const char* const* names) {
    std::string text(source);
    for (std::size_t at = 0; (at = text.find(change().text, at)) != std::string::npos; at += change().instead.size()) {
      text.replace(at, change().text.size(), change().instead);
      ++change().places;
    }
    return change().create(program, text.c_str(), name, n, headers, names);
  }
  static void tamper(cuda::Functions& functions) {
    if (!functions.compiler.CreateProgram || functions.compiler.CreateProgram == create_changed) return;
    change().create = functions.compiler.CreateProgram;
    functions.compiler.CreateProgram = create_changed;
  }
};

}  // namespace unroll::testing
