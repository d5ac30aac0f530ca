// SPDX-License-Identifier: Apache-2.0
// Modules of kernels: compiled by NVRTC, kept in memory while they are used and in a folder between processes.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/driver/device.h"

namespace unroll::cuda {

// The target of NVRTC: cubins of a known device, otherwise PTX of the newest known architecture, which the driver
// compiles.
struct Target {
  std::string option;  // "--gpu-architecture=sm_90"
  bool is_ptx = false;
};
// `supported`: architectures, ascending. Throws Error(device) when none runs on `arch`.
Target target_for(int arch, const std::vector<int>& supported);

// Besides the architecture. Products and sums are not contracted, so that an expression has the same bits in every
// kernel that has it; products of matrices ask for fused multiply-adds.
inline constexpr const char* k_compiler_options[] = {"--std=c++17", "--fmad=false"};

// The image of a module. Throws Error(internal) with NVRTC's log and the numbered line that it complains about.
std::string compile_image(const Functions& functions, const std::string& source, const Target& target);

// A module that is loaded.
class Module {
 public:
  Module(const Device& device, const std::string& image, int n_kernels);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  CUfunction kernel(int number) const { return kernels_[number]; }

 private:
  const Device& device_;
  CUmodule module_ = nullptr;
  std::vector<CUfunction> kernels_;
};

class Compiler {
 public:
  // `folder`: where images are kept; empty: nowhere.
  Compiler(const Device& device, std::string folder);
  std::shared_ptr<const Module> module(const std::string& source, int n_kernels);
  int compiled() const { return compiled_; }  // by NVRTC

 private:
  std::string image(const std::string& source);
  Target target_of(const std::string& source) const;

  const Device& device_;
  std::string folder_;
  Target target_;
  std::map<std::string, std::weak_ptr<const Module>> modules_;  // by source
  int compiled_ = 0;
};

}  // namespace unroll::cuda
