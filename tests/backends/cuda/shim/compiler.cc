// SPDX-License-Identifier: Apache-2.0
// NVRTC's entry points, for tests without a device: modules are compiled by g++, as shared libraries that the driver
// beside it loads. Only what the backend calls is there.
//
// A call of g++ takes most of its time to start, so while UNROLL_SHIM_COLLECT is set, kernels are only collected. The
// first module after that compiles all of them.
#include <nvrtc.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

struct _nvrtcProgram {
  std::string source, image, log;
};

namespace {

constexpr int k_architectures[] = {75, 80, 86, 89, 90, 100, 120};

std::string text_in(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// For each kernel: a function that takes the addresses of its arguments, and the sizes of its parameters.
std::string launchers(const std::string& source) {
  const std::string head = "extern \"C\" __global__ void ";
  std::string text;
  for (std::size_t at = 0; (at = source.find(head, at)) != std::string::npos;) {
    at += head.size();
    if (source.compare(at, 2, "__") == 0) at = source.find('\n', at) + 1;  // launch bounds, and a line break
    const std::size_t open = source.find('(', at), close = source.find(')', open);
    const std::string name = source.substr(at, open - at);
    std::istringstream parameters(source.substr(open + 1, close - open - 1));
    std::string arguments, sizes, parameter;
    int n = 0;
    while (std::getline(parameters, parameter, ',')) {
      const std::string type = parameter.substr(0, parameter.find_last_of("* ") + 1);
      arguments += (n > 0 ? ", *(" : "*(") + type + "*)p[" + std::to_string(n) + "]";
      sizes += ", sizeof(" + type + ")";
      ++n;
    }
    text += "extern \"C\" UNROLL_PLAIN void " + name + "_launch(void** p) { " + name + "(" + arguments + "); }\n";
    text += "extern \"C\" const unsigned " + name + "_parameters[] = {" + std::to_string(n) + sizes + "};\n";
  }
  return text;
}

// Kernels that were compiled before, by any process, in the folder UNROLL_SHIM_CACHE: many modules have the same ones.
std::filesystem::path cache() {
  const char* const folder = std::getenv("UNROLL_SHIM_CACHE");
  const std::filesystem::path path = folder ? folder : std::filesystem::temp_directory_path() / "unroll_shim_cache";
  std::filesystem::create_directories(path);
  return path;
}

std::string renamed(const std::string& text, const std::string& from, const std::string& to) {
  std::string result;
  std::size_t at = 0;
  for (std::size_t next; (next = text.find(from, at)) != std::string::npos; at = next + from.size()) {
    const char before = next > 0 ? text[next - 1] : ' ', after = text[next + from.size()];
    const bool is_name = !std::isalnum(static_cast<unsigned char>(before)) && before != '_' &&
                         !std::isdigit(static_cast<unsigned char>(after));
    result.append(text, at, next - at).append(is_name ? to : from);
  }
  return result.append(text, at);
}

// A module's text: functions, then kernels k0, k1, ..., each behind the struct of its sizes.
struct Kernel {
  std::string name, symbol, text;  // in the module; in its library, by a hash of the text; with that name
};
struct Split {
  std::string functions;
  std::vector<Kernel> kernels;
};
Split split(const std::string& source) {
  static const std::string prelude = text_in(UNROLL_SHIM_PRELUDE);
  const auto head = [](int number) { return "struct k" + std::to_string(number) + "_sizes"; };
  std::size_t begin = source.find(head(0));
  Split all{source.substr(0, begin), {}};
  // The first functions are in every module; the others only where a kernel needs them, and most do not.
  const std::string first = all.functions.substr(0, all.functions.find("unroll_offset("));
  for (int number = 0; begin != std::string::npos; ++number) {
    const std::size_t end = source.find(head(number + 1), begin);
    std::string name = "k";
    name += std::to_string(number);
    const std::string text = source.substr(begin, end - begin);
    const std::string plain = renamed(text, name, "kernel");
    std::string symbol = "h";
    const bool calls_others =
        plain.find("unroll_row_") != std::string::npos || plain.find("unroll_wait(") != std::string::npos;
    symbol += std::to_string(std::hash<std::string>()(prelude + (calls_others ? all.functions : first) + plain));
    all.kernels.push_back({name, symbol, renamed(text, name, symbol)});
    begin = end;
  }
  return all;
}

// Kernels with shared memory (products, rows, loops of one kernel) run long enough to be worth optimizing.
bool is_long(const Kernel& kernel) { return kernel.text.find("__shared__") != std::string::npos; }

// Compiles kernels into one library of the cache; a file for each kernel names it.
bool compile_library(const std::string& functions, const std::vector<Kernel>& missing, std::string& log) {
  std::string folder = cache() / "compiling_XXXXXX";
  if (!mkdtemp(folder.data())) return false;
  const std::string path = folder + "/kernels", unique = folder.substr(folder.size() - 6);
  const std::string library = cache() / (missing[0].symbol + "-" + unique + ".so");
  std::string kernels;
  for (const Kernel& kernel : missing) kernels += kernel.text;
  std::ofstream(path + ".cc") << "#include \"" UNROLL_SHIM_PRELUDE "\"\n#line 1 \"kernels.cu\"\n"
                              << functions << kernels << "\n" << launchers(kernels);
  const std::string optimization = is_long(missing[0]) ? "-O1" : "-O0";
  const std::string command = "'" UNROLL_CPP_COMPILER "' " + optimization +
                              " -std=c++17 -w -fsanitize=thread -fPIC -shared -nostdlib -fno-exceptions "
                              "-fno-gnu-unique -ffp-contract=off -o '" +
                              path + ".so' '" + path + ".cc' > '" + path + ".log' 2>&1";
  const bool compiled = std::system(command.c_str()) == 0;
  log = text_in(path + ".log");
  if (compiled) {
    std::filesystem::rename(path + ".so", library);
    for (const Kernel& kernel : missing) {
      std::ofstream(path + ".name") << library;
      std::filesystem::rename(path + ".name", cache() / kernel.symbol);
    }
  }
  std::filesystem::remove_all(folder);
  return compiled;
}

bool compile_missing(const std::string& functions, std::vector<Kernel> missing, std::string& log) {
  constexpr std::ptrdiff_t k_most = 100;  // of a call
  const auto short_ones = std::stable_partition(missing.begin(), missing.end(), is_long);
  for (const auto& [begin, end] : {std::pair(missing.begin(), short_ones), std::pair(short_ones, missing.end())})
    for (auto first = begin; first != end;) {
      const auto last = first + std::min(k_most, end - first);
      if (!compile_library(functions, {first, last}, log)) return false;
      first = last;
    }
  return true;
}

// Kernels that wait to be compiled, by the functions that they call and by their symbols.
std::map<std::string, std::map<std::string, Kernel>>& collected() {
  static std::map<std::string, std::map<std::string, Kernel>> all;
  return all;
}
bool compile_collected(std::string& log) {
  for (const auto& [functions, kernels] : collected()) {
    std::vector<Kernel> missing;
    for (const auto& each : kernels) missing.push_back(each.second);
    if (!compile_missing(functions, std::move(missing), log)) return false;
  }
  collected().clear();
  return true;
}

// The image of a module is a text: for each kernel its name, its symbol and its library, or "later".
nvrtcResult compile(_nvrtcProgram& program) {
  const bool collects = std::getenv("UNROLL_SHIM_COLLECT");
  if (!collects && !compile_collected(program.log)) return NVRTC_ERROR_COMPILATION;
  const Split module = split(program.source);
  std::vector<Kernel> missing;
  for (const Kernel& kernel : module.kernels)
    if (!std::filesystem::exists(cache() / kernel.symbol)) missing.push_back(kernel);
  for (const Kernel& kernel : missing)
    if (collects) collected()[module.functions].try_emplace(kernel.symbol, kernel);
  if (!collects && !missing.empty() && !compile_missing(module.functions, missing, program.log))
    return NVRTC_ERROR_COMPILATION;
  program.image = "cuda shim\n";
  for (const Kernel& kernel : module.kernels) {
    const std::string library = text_in(cache() / kernel.symbol);
    program.image += kernel.name + " " + kernel.symbol + " " + (library.empty() ? "later" : library) + "\n";
  }
  return NVRTC_SUCCESS;
}

}  // namespace

const char* nvrtcGetErrorString(nvrtcResult result) {
  return result == NVRTC_SUCCESS ? "NVRTC_SUCCESS" : "an error of the shim";
}
nvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = 13, *minor = 0;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetNumSupportedArchs(int* n) {
  *n = static_cast<int>(std::size(k_architectures));
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetSupportedArchs(int* list) {
  std::copy(std::begin(k_architectures), std::end(k_architectures), list);
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char*, int n_headers,
                               const char* const*, const char* const*) {
  if (n_headers != 0) return NVRTC_ERROR_INVALID_INPUT;
  *program = new _nvrtcProgram{source, {}, {}};
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  delete *program;
  *program = nullptr;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int n_options, const char* const* options) {
  bool has_architecture = false;
  for (int k = 0; k < n_options; ++k)
    has_architecture = has_architecture || std::strncmp(options[k], "--gpu-architecture=", 19) == 0;
  return has_architecture ? compile(*program) : NVRTC_ERROR_INVALID_OPTION;
}
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* n) {
  *n = program->image.size();
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* to) {
  std::copy(program->image.begin(), program->image.end(), to);
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t* n) { return nvrtcGetCUBINSize(program, n); }
nvrtcResult nvrtcGetPTX(nvrtcProgram program, char* to) { return nvrtcGetCUBIN(program, to); }
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t* n) {
  *n = program->log.size() + 1;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* to) {
  std::memcpy(to, program->log.c_str(), program->log.size() + 1);
  return NVRTC_SUCCESS;
}
