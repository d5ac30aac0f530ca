// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/terminal/standard_files.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "unroll/support/error.h"

namespace unroll::cli {

namespace {

[[noreturn]] void fail(int reason) {
  throw Error(ErrorKind::storage, "stdout",
              std::string("writing failed") + (reason != 0 ? std::string(": ") + std::strerror(reason) : ""),
              "Free space, or write the output elsewhere");
}

}  // namespace

void secure_standard_files() {
  for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(file, F_GETFD) == -1) open("/dev/null", file == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  signal(SIGXFSZ, SIG_IGN);
}

void write_output(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) fail(errno);
}

void flush_output() {
  errno = 0;
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) fail(errno);
}

}  // namespace unroll::cli
