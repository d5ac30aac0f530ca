// SPDX-License-Identifier: Apache-2.0
// The unroll command: dispatches commands and converts errors to messages and exit codes.
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <new>
#include <sstream>
#include <string>

#include "core/support/text/printable.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/options/command_line.h"
#include "frontends/cli/terminal/signals.h"
#include "frontends/cli/terminal/standard_files.h"
#include "frontends/cli/terminal/terminal.h"
#include "unroll/support/error.h"

namespace {

int fail(int code, const char* text) {
  std::fprintf(stderr, "unroll: error: %s\n", text);
  return code;
}

// Wraps each line of the text to the terminal; the first word stays beside the prefix.
int fail_with_text(int code, const std::string& text) {
  const auto width = static_cast<std::size_t>(unroll::cli::terminal_width(STDERR_FILENO));
  const std::string prefix = "unroll: error: ";
  std::istringstream lines(std::string(prefix.size(), ' ') + unroll::printable(text, "\n"));
  std::string message;
  for (std::string line; std::getline(lines, line);)
    message += unroll::cli::wrapped(line, width, /*indent=*/2) + "\n";
  message.replace(0, prefix.size(), prefix);
  std::fputs(message.c_str(), stderr);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  unroll::cli::secure_standard_files();
  unroll::cli::remove_temporary_files_at_end();
  try {
    const int code = unroll::cli::run_command_line(unroll::cli::all_commands(), argc, argv);
    unroll::cli::flush_output();
    return code;
  } catch (const unroll::Error& e) {
    return fail_with_text(unroll::exit_code(e.kind()), e.what());
  } catch (const std::bad_alloc&) {
    return fail(7, "out of memory");
  } catch (const std::exception& e) {
    return fail_with_text(1, e.what());
  }
}
