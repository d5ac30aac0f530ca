// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/measure/scripts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "unroll/error.h"

namespace unroll::cli {

namespace fs = std::filesystem;

fs::path folder_of_scripts(const std::string& who) {
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  for (const char* way : {"../share/unroll/peers", "../../../bench/peers"})
    if (fs::exists(here / way / "protocol.py")) return (here / way).lexically_normal();
  throw Error(ErrorKind::unsupported, who, "the scripts that run other libraries are not installed",
              "They are bench/peers in the sources");
}

std::string shell_word(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return {};
  char part[4096];
  while (const std::size_t n = std::fread(part, 1, sizeof part, pipe)) text.append(part, n);
  return pclose(pipe) == 0 ? text : std::string();
}

bool can_import(const std::string& python, const std::string& modules) {
  return std::system(fmt::format("{} -c 'import {}' 2>/dev/null", shell_word(python), modules).c_str()) == 0;
}

ScratchFolder::ScratchFolder(const std::string& who)
    : path(fs::temp_directory_path() / fmt::format("unroll-{}-{}", who, getpid())) {
  fs::create_directories(path);
}
ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

}  // namespace unroll::cli
