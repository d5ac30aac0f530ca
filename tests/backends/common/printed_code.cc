// SPDX-License-Identifier: Apache-2.0
#include "tests/backends/common/printed_code.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <future>
#include <sstream>

#include "tests/support/temp_folder.h"

namespace unroll::testing {

namespace {

std::string text_in(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_text(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

// Runs a command line; its output on stdout and stderr when it fails, empty when it succeeds.
std::string failure_of(const std::string& command, const std::string& log) {
  if (std::system((command + " > '" + log + "' 2>&1").c_str()) == 0) return {};
  return command + "\n" + text_in(log);
}

constexpr std::string_view k_cuda_shim = R"(
#include <cmath>
#include <bit>
#define __device__
#define __global__
#define __shared__ static
using std::isfinite;
inline void __syncthreads() {}
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
struct Dim { unsigned x; };
static const Dim threadIdx{0}, blockIdx{0}, blockDim{1}, gridDim{1};
)";

}  // namespace

const Compilers& compilers() {
  static const Compilers found{UNROLL_CPP_COMPILER, UNROLL_CUDA_COMPILER};
  return found;
}

bool have(const std::string& compiler, const std::string& what) {
  if (compiler.empty()) std::printf("skipped: %s\n", what.c_str());
  return !compiler.empty();
}

std::string_view shim(common::Dialect dialect) { return dialect == common::Dialect::cpp ? "" : k_cuda_shim; }

std::string as_function(const common::Expression& e, common::Dialect dialect, const std::string& name,
                        const common::PrintedKernel& kernel, const common::PrintOptions& options) {
  const std::vector<DType> dtypes = common::register_dtypes(e);
  const std::string index = common::index_type(dialect, options);
  std::string arguments;
  const auto add = [&](const char* list, std::size_t k, DType dtype) {
    arguments += "(" + common::memory_type(dtype) + "*)" + list + "[" + std::to_string(k) + "], ";
  };
  for (std::size_t i = 0; i < e.inputs.size(); ++i) add("in", i, dtypes[i]);
  for (std::size_t k = 0; k < e.results.size(); ++k) add("out", k, dtypes[e.results[k].from]);
  const std::string head = "extern \"C\" void " + name +
                           "(void* const* in, void* const* out, const void* sizes, long long n) {\n";
  const std::string last = dialect == common::Dialect::cpp ? "(const " + index + "*)sizes, 0, n"
                                                           : "*(const " + name + "_kernel_sizes*)sizes";
  return kernel.text + head + "  " + name + "_kernel(" + arguments + last + ");\n}\n";
}

std::vector<std::byte> packed_sizes(std::vector<std::int64_t> sizes, const common::PrintOptions& options,
                                    const std::vector<std::int64_t>& offsets) {
  for (std::size_t k = 0; k < offsets.size(); ++k) sizes[1 + k] = offsets[k];
  const std::size_t width = options.short_indices ? 4 : 8;  // little-endian
  std::vector<std::byte> bytes(sizes.size() * width);
  for (std::size_t k = 0; k < sizes.size(); ++k) std::memcpy(bytes.data() + k * width, &sizes[k], width);
  return bytes;
}

std::string failure_of_cuda(const std::string& source) {
  const TempFolder folder;
  write_text(folder / "kernels.cu", source);
  return failure_of("'" + compilers().cuda + "' -ptx -w -o '" + (folder / "kernels.ptx") + "' '" +
                        (folder / "kernels.cu") + "'",
                    folder / "log");
}

PrintedCode::PrintedCode(const std::string& folder, const std::vector<std::string>& sources,
                         const std::string& options) {
  const auto path_of = [&](std::size_t k) { return folder + "/part" + std::to_string(k); };
  const auto compile = [&](std::size_t first) {
    std::string failure;
    for (std::size_t k = first; k < sources.size(); k += 2) {
      write_text(path_of(k) + ".cc", sources[k]);
      failure += failure_of("'" + compilers().cpp + "' -std=c++20 -w -shared -fPIC -ffp-contract=off " + options +
                                " -o '" + path_of(k) + ".so' '" + path_of(k) + ".cc'",
                            path_of(k) + ".log");
    }
    return failure;
  };
  auto odd = std::async(std::launch::async, compile, std::size_t{1});
  failure_ = compile(0);
  failure_ += odd.get();
  for (std::size_t k = 0; k < sources.size() && failure_.empty(); ++k) {
    libraries_.push_back(dlopen((path_of(k) + ".so").c_str(), RTLD_NOW | RTLD_LOCAL));
    if (!libraries_.back()) failure_ = dlerror();
  }
}

PrintedCode::~PrintedCode() {
  for (void* library : libraries_)
    if (library) dlclose(library);
}

void* PrintedCode::find(const std::string& name) const {
  for (void* library : libraries_)
    if (void* function = dlsym(library, name.c_str())) return function;
  return nullptr;
}

}  // namespace unroll::testing
