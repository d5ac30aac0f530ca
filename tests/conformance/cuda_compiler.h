// SPDX-License-Identifier: Apache-2.0
// Plans as the cuda backend makes them, and NVRTC where it is installed: what can be said of kernels without a device.
#pragma once

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "backends/cuda/kernels/compiler.h"
#include "backends/cuda/program/context.h"
#include "backends/cuda/program/program.h"
#include "core/passes/forwarding_backend.h"
#include "unroll/support/error.h"

namespace unroll::testing {

// Plans as the backend would.
class PlansForCuda final : public ForwardingBackend {
 public:
  PlansForCuda() : ForwardingBackend(make_backend("cuda:sm_90")) {}
  const Capabilities& describe() const override { return capabilities_; }

 private:
  Capabilities capabilities_ = cuda::capabilities_of({"a device", 90, 132, 13000, 13000, std::size_t{80} << 30, true});
};

inline bool has_compiler(cuda::Functions& functions) {
  cuda::libraries().compiler[2] = "/usr/local/cuda/lib64/libnvrtc.so";
  try {
    cuda::open_compiler(functions);
    return true;
  } catch (const Error& error) {
    std::printf("skipped: %s\n", error.what());
    return false;
  }
}

// What tests compile for. Each kernel is compiled for one of them in turn, or with UNROLL_ARCHITECTURES=all for all.
inline constexpr const char* k_compiled_for[] = {"sm_80", "sm_90a", "sm_100"};
inline bool is_compiled_for(int turn, int architecture) {
  const char* const text = std::getenv("UNROLL_ARCHITECTURES");
  return (text && std::string(text) == "all") || turn % 3 == architecture;
}

// What ptxas says of each kernel of a module.
inline std::string ptxas_log(const cuda::Functions& f, const std::string& source, const std::string& architecture) {
  nvrtcProgram program = nullptr;
  cuda::check(f, f.compiler.CreateProgram(&program, source.c_str(), "kernels.cu", 0, nullptr, nullptr), "creating");
  const std::string target = "--gpu-architecture=" + architecture;
  std::vector<const char*> options{target.c_str(), "--ptxas-options=-v"};
  options.insert(options.end(), std::begin(cuda::k_compiler_options), std::end(cuda::k_compiler_options));
  const nvrtcResult compiled = f.compiler.CompileProgram(program, static_cast<int>(options.size()), options.data());
  std::size_t n = 0;
  cuda::check(f, f.compiler.GetProgramLogSize(program, &n), "the size of a log");
  std::string log(n, '\0');
  cuda::check(f, f.compiler.GetProgramLog(program, log.data()), "a log");
  f.compiler.DestroyProgram(&program);
  cuda::check(f, compiled, "compiling");
  return log;
}

// SASS of a source for the architecture. Empty: there is no nvdisasm, which the toolkit and a package of PyPI have.
inline std::string machine_code(const cuda::Functions& f, const std::string& source, const std::string& architecture) {
  const char* const own = std::getenv("UNROLL_NVDISASM");
  const std::string tool = own ? own : "nvdisasm";
  if (std::system((tool + " --version > /dev/null 2>&1").c_str()) != 0) {
    std::printf("no machine code: set UNROLL_NVDISASM to nvdisasm\n");
    return {};
  }
  const std::string image = cuda::compile_image(f, source, {"--gpu-architecture=" + architecture});
  const std::string path = "resident_" + architecture + ".cubin";
  std::ofstream(path, std::ios::binary) << image;
  std::string text;
  FILE* const pipe = popen((tool + " -c " + path + " 2>&1").c_str(), "r");
  char part[4096];
  for (std::size_t n; pipe && (n = std::fread(part, 1, sizeof(part), pipe)) > 0;) text.append(part, n);
  if (pipe) pclose(pipe);
  std::remove(path.c_str());
  return text;
}

// The number before `word` in what the log says of a kernel; -1: it is not there.
inline int number_before(const std::string& log, const std::string& kernel, const std::string& word) {
  const std::size_t begin = log.find("Function properties for " + kernel + "\n");
  const std::size_t at = begin == std::string::npos ? begin : log.find(word, begin);
  if (at == std::string::npos) return -1;
  std::size_t first = at;
  while (first > 0 && std::isdigit(static_cast<unsigned char>(log[first - 1]))) --first;
  return first == at ? -1 : std::stoi(log.substr(first, at - first));
}

}  // namespace unroll::testing
