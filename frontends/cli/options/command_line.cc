// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/options/command_line.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "frontends/cli/options/help.h"
#include "frontends/cli/options/mistakes.h"
#include "frontends/cli/terminal/activity.h"
#include "frontends/cli/terminal/terminal.h"

namespace unroll::cli {
namespace {

const Command* find_command(Commands commands, std::string_view name) {
  for (const Command* command : commands) {
    const auto& aliases = command->aliases;
    if (command->name == name || std::find(aliases.begin(), aliases.end(), name) != aliases.end()) return command;
  }
  return nullptr;
}

const Command& known_command(Commands commands, std::string_view name) {
  if (const Command* command = find_command(commands, name)) return *command;
  std::vector<std::string_view> names;
  for (const Command* command : commands) names.emplace_back(command->name);
  for (const Command* command : commands) names.insert(names.end(), command->aliases.begin(), command->aliases.end());
  throw unknown_command(name, names);
}

// The parser of one command, and the destination of its values.
struct Parser {
  explicit Parser(const Command& command) : app(command.doc, command.name), run(command.add(app)) {
    group(app, "Output");
    app.add_flag("-q,--quiet", quiet, "Show no progress on stderr.");
    app.set_help_flag("-h,--help", "Print this help.")->group("Output");
  }
  CLI::App app;
  std::function<int()> run;
  bool quiet = false;
};

std::string help_of_program(Commands commands) {
  std::vector<CommandGroup> groups;
  for (const Command* command : commands) {
    if (groups.empty() || groups.back().heading != command->group) groups.push_back({command->group, {}});
    groups.back().commands.push_back({command->name, command->doc});
  }
  return program_help(groups, output_width());
}

std::string help_of(const Command& command) {
  return command_help(Parser(command).app, output_width());
}

// Answers --help, help COMMAND and --version on stdout.
bool answered(Commands commands, std::span<const char* const> words) {
  const std::string_view first = words[0];
  if (first == "--version" || first == "-V") {
    fmt::print("unroll {}\n", UNROLL_VERSION);
  } else if (first == "help" && words.size() > 1) {
    fmt::print("{}", help_of(known_command(commands, words[1])));
  } else if (first == "help" || first == "--help" || first == "-h") {
    fmt::print("{}", help_of_program(commands));
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::vector<CommandInfo> describe_commands(Commands commands) {
  std::vector<CommandInfo> list;
  for (const Command* row : commands) {
    const Parser parser(*row);
    CommandInfo& command = list.emplace_back();
    command.name = row->name;
    command.doc = row->doc;
    for (const CLI::Option* option : parser.app.get_options()) {
      if (option->get_positional()) {
        if (command.choices.empty()) command.choices = choices_of(*option);
        continue;
      }
      OptionInfo info;
      for (const auto& name : option->get_lnames()) info.names.push_back("--" + name);
      for (const auto& name : option->get_snames()) info.names.push_back("-" + name);
      info.doc = option->get_description();
      info.takes_value = option->get_items_expected_max() > 0;
      info.choices = choices_of(*option);
      command.options.push_back(std::move(info));
    }
  }
  return list;
}

int run_command_line(Commands commands, int argc, const char* const* argv) {
  const std::span<const char* const> words(argv + 1, std::max(argc - 1, 0));
  if (words.empty()) {
    fmt::print(stderr, "{}", help_of_program(commands));
    return 2;
  }
  if (answered(commands, words)) return 0;
  const Command& command = known_command(commands, words[0]);
  Parser parser(command);
  try {
    parser.app.parse(argc - 1, argv + 1);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", help_of(command));
    return 0;
  } catch (const CLI::ParseError& e) {
    throw wrong_options(parser.app, e);
  }
  if (parser.quiet) hide_progress();
  return parser.run();
}

}  // namespace unroll::cli
