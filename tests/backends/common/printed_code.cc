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
constexpr std::string_view k_glsl_shim = R"(
#include <bit>
#include <cmath>
#include <cstdint>
typedef unsigned int uint;
using std::uint8_t;
using std::uint16_t;
using std::abs; using std::exp; using std::log; using std::sqrt; using std::isnan; using std::isinf;
inline float roundEven(float x) { return std::nearbyint(x); }
inline uint floatBitsToUint(float x) { return std::bit_cast<uint>(x); }
inline float sign(float x) { return float((x > 0) - (x < 0)); }
inline float uintBitsToFloat(uint x) { return std::bit_cast<float>(x); }
struct uvec3 {
  uint x, y, z;
  uvec3(uint a, uint b, uint c) : x(a), y(b), z(c) {}
};
inline void umulExtended(uint a, uint b, uint& high, uint& low) {
  const unsigned long long product = (unsigned long long)a * b;
  high = uint(product >> 32), low = uint(product);
}
inline void atomicAnd(uint& x, uint y) { x &= y; }
inline void atomicOr(uint& x, uint y) { x |= y; }
inline void barrier() {}
struct Lanes { uint x; };
static const Lanes gl_GlobalInvocationID{0}, gl_LocalInvocationID{0}, gl_WorkGroupID{0};
static const Lanes gl_NumWorkGroups{1}, gl_WorkGroupSize{1};
#define shared static
)";

// A buffer is a pointer, push constants too; main is `kernel`.
std::string glsl_line(const std::string& line) {
  if (line.starts_with("#version") || line.starts_with("#extension") || line.find("local_size_x") != line.npos)
    return {};
  if (line.starts_with("void main()")) return "static void kernel()" + line.substr(11) + "\n";
  if (!line.starts_with("layout")) return line + "\n";
  const std::size_t open = line.find("{ ") + 2;
  return "static " + line.substr(open, line.find(' ', open) - open) + "* " +
         line.substr(line.find(' ', open) + 1, line.find('[') - line.find(' ', open) - 1) + ";\n";
}
std::string glsl_as_cpp(const std::string& text) {
  std::istringstream lines(text);
  std::string line, result;
  while (std::getline(lines, line)) result += glsl_line(line);
  return result;
}

}  // namespace

const Compilers& compilers() {
  static const Compilers found{UNROLL_CPP_COMPILER, UNROLL_CUDA_COMPILER, UNROLL_GLSL_COMPILER};
  return found;
}

bool have(const std::string& compiler, const std::string& what) {
  if (compiler.empty()) std::printf("skipped: %s\n", what.c_str());
  return !compiler.empty();
}

std::string_view shim(common::Dialect dialect) {
  switch (dialect) {
    case common::Dialect::cpp: return {};
    case common::Dialect::cuda: return k_cuda_shim;
    case common::Dialect::glsl: return k_glsl_shim;
  }
  return {};
}

std::string as_prelude(const std::string& prelude) { return glsl_as_cpp(prelude); }

std::string as_function(const common::Expression& e, common::Dialect dialect, const std::string& name,
                        const common::PrintedKernel& kernel, const common::PrintOptions& options) {
  using common::Dialect;
  const std::vector<DType> dtypes = common::register_dtypes(e);
  const std::string index = common::index_type(dialect, options);
  std::string arguments, assignments;
  const auto add = [&](const char* list, std::size_t k, DType dtype, const char* buffer) {
    const std::string from = std::string(list) + "[" + std::to_string(k) + "]";
    const std::string type = common::element_type(dialect, dtype, options) + "*";
    arguments += "(" + type + ")" + from + ", ";
    assignments += "  " + name + "_space::" + buffer + std::to_string(k) + " = (" + type + ")" + from + ";\n";
  };
  for (std::size_t i = 0; i < e.inputs.size(); ++i) add("in", i, dtypes[i], "x");
  for (std::size_t k = 0; k < e.results.size(); ++k) add("out", k, dtypes[e.results[k].from], "y");
  const std::string head = "extern \"C\" void " + name +
                           "(void* const* in, void* const* out, const void* sizes, long long n) {\n";
  switch (dialect) {
    case Dialect::cpp:
      return kernel.text + head + "  " + name + "_kernel(" + arguments + "(const " + index + "*)sizes, 0, n);\n}\n";
    case Dialect::cuda:
      return kernel.text + head + "  " + name + "_kernel(" + arguments + "*(const " + name +
             "_kernel_sizes*)sizes);\n}\n";
    case Dialect::glsl:
      return "namespace " + name + "_space {\n" + glsl_as_cpp(kernel.text) + "}\n" + head + assignments + "  " + name +
             "_space::sizes = (uint*)sizes;\n  " + name + "_space::kernel();\n}\n";
  }
  return {};
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

std::string failure_of_glsl(const std::vector<std::string>& sources) {
  const bool is_glslc = compilers().glsl.ends_with("glslc");
  const std::string option = is_glslc ? " --target-env=vulkan1.2 -c -w" : " --quiet --target-env vulkan1.2";
  const TempFolder folder;
  const std::string path = folder / "kernel.comp";
  std::string failures;
  for (std::size_t k = 0; k < sources.size() && failures.size() < 4000; ++k) {
    write_text(path, sources[k]);
    failures += failure_of("'" + compilers().glsl + "'" + option + " -o '" + path + ".spv' '" + path + "'",
                           folder / "log");
  }
  return failures;
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
