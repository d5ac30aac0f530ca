// SPDX-License-Identifier: Apache-2.0
// Text of --help: purpose, usage, examples, then operands and options with allowed values and defaults.
#pragma once

#include <CLI/CLI.hpp>

#include <span>
#include <string>
#include <vector>

namespace unroll::cli {

// Returns the help of one command; no line is wider than `width`, except for a longer word.
std::string command_help(const CLI::App& command, std::size_t width);

struct CommandGroup {
  std::string heading;
  struct Line {
    std::string name, doc;
  };
  std::vector<Line> commands;
};
// Returns the help of `unroll` without a command.
std::string program_help(std::span<const CommandGroup> groups, std::size_t width);

// Returns "--name" or, for an operand, "NAME".
std::string shown_name(const CLI::Option& option);
// Returns the words that a choice accepts.
std::vector<std::string> choices_of(const CLI::Option& option);

}  // namespace unroll::cli
