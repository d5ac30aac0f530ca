// SPDX-License-Identifier: Apache-2.0
// A command is one row: its name and purpose in --help, its options, and its function. The row is in the command's
// file, and commands.def lists the commands.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "frontends/cli/options/command_options.h"

namespace unroll::cli {

// Headings of `unroll help`.
inline constexpr const char *k_begin = "Start here", *k_understand = "Understand a model", *k_deploy = "Deploy",
                            *k_machine = "Machine";

struct Command {
  const char* group;
  const char* name;
  const char* doc;
  // Adds the options to the parser. The returned function runs the command with the parsed values. It prints the result
  // to stdout, everything else to stderr, and returns the exit code.
  std::function<std::function<int()>(CLI::App&)> add;
  std::vector<std::string_view> aliases;
};

template <class Arguments>
Command command(const char* group, const char* name, const char* doc, void (*add)(CLI::App&, Arguments&),
                int (*run)(const Arguments&), std::vector<std::string_view> aliases = {}) {
  const auto start = [=](CLI::App& app) -> std::function<int()> {
    auto arguments = std::make_shared<Arguments>();
    add(app, *arguments);
    return [=] { return run(*arguments); };
  };
  return {group, name, doc, start, std::move(aliases)};
}

}  // namespace unroll::cli
