// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/bench/scripts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "core/support/files/paths.h"
#include "unroll/support/error.h"
#include "unroll/support/vfs.h"

namespace unroll::cli {

namespace fs = std::filesystem;

fs::path folder_of_scripts(const std::string& who) {
  std::error_code error;  // without /proc the folder is unknown
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* way : {"../share/unroll/peers", "../../../bench/peers"})
    if (!error && disk().exists((here / way / "protocol.py").string())) return (here / way).lexically_normal();
  throw Error(ErrorKind::unsupported, who, "the scripts that run other libraries are not installed",
              "`meson install` writes them to share/unroll/peers, beside the folder bin of the command; in the sources "
              "they are bench/peers");
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

ScratchFolder::ScratchFolder(const std::string& who) : path(make_temporary_folder(who)) {}
ScratchFolder::~ScratchFolder() {
  if (is_kept) return;
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

}  // namespace unroll::cli
