// SPDX-License-Identifier: Apache-2.0
// The unroll command: picks the command and turns errors into messages and exit codes.
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <new>
#include <sstream>
#include <string>
#include <string_view>

#include "frontends/cli/commands/commands.h"
#include "frontends/cli/terminal/activity.h"
#include "frontends/cli/terminal/terminal.h"
#include "unroll/error.h"

namespace {

struct Command {
  std::string_view name;
  int (*run)(const unroll::cli::Options&);
};
constexpr Command k_commands[] = {
    {"doctor", unroll::cli::run_doctor},   {"new", unroll::cli::run_new},
    {"data", unroll::cli::run_data},
    {"train", unroll::cli::run_train},     {"eval", unroll::cli::run_eval},
    {"generate", unroll::cli::run_generate}, {"run", unroll::cli::run_tensors},
    {"inspect", unroll::cli::run_inspect}, {"bench", unroll::cli::run_bench},
    {"stream", unroll::cli::run_stream},   {"predict", unroll::cli::run_predict},
    {"lever", unroll::cli::run_lever},     {"compare", unroll::cli::run_compare},
    {"profile", unroll::cli::run_profile}, {"explain", unroll::cli::run_explain},
    {"report", unroll::cli::run_report},   {"completion", unroll::cli::run_completion},
};

int fail(int code, const char* text) {
  std::fprintf(stderr, "unroll: error: %s\n", text);
  return code;
}

// Wrapped to the terminal, each line of the text on its own; its first word stays beside the prefix.
int fail_with_text(int code, const std::string& text) {
  const auto width = static_cast<std::size_t>(unroll::cli::terminal_width(STDERR_FILENO));
  const std::string prefix = "unroll: error: ";
  std::istringstream lines(std::string(prefix.size(), ' ') + text);
  std::string message;
  for (std::string line; std::getline(lines, line);)
    message += unroll::cli::wrapped(line, width, /*indent=*/2) + "\n";
  message.replace(0, prefix.size(), prefix);
  std::fputs(message.c_str(), stderr);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    int code = 0;
    const auto options = unroll::cli::parse_options(argc, argv, code);
    if (!options) return code;
    if (options->quiet) unroll::cli::hide_progress();
    for (const Command& command : k_commands) {
      if (command.name == options->command) return command.run(*options);
    }
    return fail(1, "this command has no function");
  } catch (const unroll::Error& e) {
    return fail_with_text(unroll::exit_code(e.kind()), e.what());
  } catch (const std::bad_alloc&) {
    return fail(7, "out of memory");
  } catch (const std::exception& e) {
    return fail_with_text(1, e.what());
  }
}
