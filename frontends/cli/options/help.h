// SPDX-License-Identifier: Apache-2.0
// What --help prints: purpose, usage, examples, then operands and options with allowed values and defaults.
#pragma once

#include <CLI/CLI.hpp>

#include <span>
#include <string>
#include <vector>

namespace unroll::cli {

// Of one command; no line is wider than `width`, except for a word that is.
std::string command_help(const CLI::App& command, std::size_t width);

struct CommandGroup {
  std::string heading;
  struct Line {
    std::string name, doc;
  };
  std::vector<Line> commands;
};
// Of `unroll` itself.
std::string program_help(std::span<const CommandGroup> groups, std::size_t width);

// "--name" or, of an operand, "NAME".
std::string shown_name(const CLI::Option& option);
// The words that a choice accepts.
std::vector<std::string> choices_of(const CLI::Option& option);

}  // namespace unroll::cli
