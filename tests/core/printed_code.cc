// SPDX-License-Identifier: Apache-2.0
#include "tests/core/printed_code.h"

#include <dlfcn.h>

#include <cstdlib>
#include <fstream>
#include <future>
#include <sstream>

namespace unroll::testing {

namespace {

std::string text_in(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

const Compilers& compilers() {
  static const Compilers found{UNROLL_CPP_COMPILER, UNROLL_CUDA_COMPILER, UNROLL_GLSL_COMPILER};
  return found;
}

std::string failure_of(const std::string& command, const std::string& log) {
  if (std::system((command + " > '" + log + "' 2>&1").c_str()) == 0) return {};
  return command + "\n" + text_in(log);
}

void write_text(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

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
