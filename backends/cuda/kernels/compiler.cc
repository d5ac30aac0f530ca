// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/kernels/compiler.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <sstream>

#include "backends/common/kernel_files.h"
#include "backends/cuda/kernels/kernels.h"
#include "unroll/support/error.h"

namespace unroll::cuda {

namespace {

constexpr std::size_t k_longest_log = 2000;

std::vector<int> supported_architectures(const Functions& f) {
  int n = 0;
  check(f, f.compiler.GetNumSupportedArchs(&n), "nvrtcGetNumSupportedArchs");
  std::vector<int> list(std::max(n, 0));
  if (n > 0) check(f, f.compiler.GetSupportedArchs(list.data()), "nvrtcGetSupportedArchs");
  std::sort(list.begin(), list.end());
  return list;
}

// The lines that a log mentions first: "kernels(12): error".
std::string complaint(const std::string& log, const std::string& source) {
  std::string text = log.substr(0, k_longest_log);
  const std::size_t open = log.find("kernels.cu(");
  if (open == std::string::npos) return text;
  const int number = std::atoi(log.c_str() + open + 11);
  std::istringstream lines(source);
  std::string line;
  for (int k = 1; std::getline(lines, line); ++k)
    if (k == number) text += "\nline " + std::to_string(k) + ": " + line;
  return text;
}

}  // namespace

Target target_for(int arch, const std::vector<int>& supported) {
  int best = 0;
  for (const int each : supported) {
    if (each == arch) return {"--gpu-architecture=sm_" + std::to_string(arch), false};
    if (each < arch) best = std::max(best, each);
  }
  if (best == 0)
    throw Error(ErrorKind::device, "cuda", "NVRTC has no architecture for sm_" + std::to_string(arch),
                "Install the NVRTC of another CUDA version; CUDA 12 supports devices from sm_50");
  return {"--gpu-architecture=compute_" + std::to_string(best), true};
}

std::string compile_image(const Functions& f, const std::string& source, const Target& target) {
  nvrtcProgram program = nullptr;
  check(f, f.compiler.CreateProgram(&program, source.c_str(), "kernels.cu", 0, nullptr, nullptr),
        "nvrtcCreateProgram");
  struct Destroy {
    const Functions& f;
    nvrtcProgram& program;
    ~Destroy() { f.compiler.DestroyProgram(&program); }
  } const destroy{f, program};
  std::vector<const char*> options{target.option.c_str()};
  options.insert(options.end(), std::begin(k_compiler_options), std::end(k_compiler_options));
  const nvrtcResult compiled = f.compiler.CompileProgram(program, static_cast<int>(options.size()), options.data());
  if (compiled == NVRTC_ERROR_COMPILATION) {
    std::size_t n = 0;
    std::string log;
    if (f.compiler.GetProgramLogSize(program, &n) == NVRTC_SUCCESS) {
      log.resize(n);
      f.compiler.GetProgramLog(program, log.data());
    }
    throw Error(ErrorKind::internal, "cuda", "a kernel does not compile:\n" + complaint(log, source));
  }
  check(f, compiled, "compiling a kernel");
  std::size_t n = 0;
  check(f, target.is_ptx ? f.compiler.GetPTXSize(program, &n) : f.compiler.GetCUBINSize(program, &n),
        "nvrtcGetCUBINSize");
  std::string image(n, '\0');
  check(f, target.is_ptx ? f.compiler.GetPTX(program, image.data()) : f.compiler.GetCUBIN(program, image.data()),
        "nvrtcGetCUBIN");
  return image;
}

Module::Module(const Device& device, const std::string& image, int n_kernels) : device_(device) {
  const Functions& f = device_.f();
  device_.check(f.ModuleLoadData(&module_, image.data()), "cuModuleLoadData");
  try {
    for (int k = 0; k < n_kernels; ++k) {
      kernels_.push_back(nullptr);
      device_.check(f.ModuleGetFunction(&kernels_.back(), module_, Kernels::name(k).c_str()), "cuModuleGetFunction");
    }
  } catch (...) {
    f.ModuleUnload(module_);
    throw;
  }
}

Module::~Module() {
  try {
    device_.enter();
    device_.wait();  // its kernels may still run
  } catch (const Error&) {  // the next call throws it
  }
  device_.f().ModuleUnload(module_);
}

Compiler::Compiler(const Device& device, std::string folder)
    : device_(device), folder_(std::move(folder)),
      target_(target_for(device.limits().arch, supported_architectures(device.f()))) {}

// Only sm_90a has wgmma; it runs on devices of compute capability 9.0.
Target Compiler::target_of(const std::string& source) const {
  const bool has_wgmma = source.find("wgmma.mma_async") != std::string::npos;
  return has_wgmma && !target_.is_ptx ? Target{target_.option + "a", false} : target_;
}

std::string Compiler::image(const std::string& source) {
  const Target target = target_of(source);
  std::string depends_on = target.option;
  for (const char* option : k_compiler_options) depends_on.append(" ").append(option);
  depends_on += ", NVRTC " + version_text(device_.limits().compiler) + "\n" + source + '\0';
  const std::string path =
      folder_.empty() ? "" : common::kernel_path(folder_, depends_on, target.is_ptx ? ".ptx" : ".cubin");
  if (!path.empty())
    if (std::string kept = common::read_kernel(path, depends_on).bytes; !kept.empty()) return kept;
  std::string made = compile_image(device_.f(), source, target);
  ++compiled_;
  if (!path.empty()) common::write_kernel(path, depends_on, made);
  return made;
}

std::shared_ptr<const Module> Compiler::module(const std::string& source, int n_kernels) {
  std::weak_ptr<const Module>& known = modules_[source];
  if (auto loaded = known.lock()) return loaded;
  auto made = std::make_shared<const Module>(device_, image(source), n_kernels);
  known = made;
  return made;
}

}  // namespace unroll::cuda
