// SPDX-License-Identifier: Apache-2.0
// Parses the command line: dispatches the command, and describes commands for --help, shell completion and docs/cli.md.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "frontends/cli/options/command.h"

namespace unroll::cli {

using Commands = std::span<const Command* const>;

struct OptionInfo {
  std::vector<std::string> names;  // "--json", "-h"
  std::string doc;
  bool takes_value = false;
  std::vector<std::string> choices;
};
struct CommandInfo {
  std::string name;
  std::string doc;
  std::vector<OptionInfo> options;
  std::vector<std::string> choices;  // of the first positional
};
std::vector<CommandInfo> describe_commands(Commands commands);

// Answers --help and --version, or runs the named command. Returns the exit code; throws Error(usage).
int run_command_line(Commands commands, int argc, const char* const* argv);

}  // namespace unroll::cli
