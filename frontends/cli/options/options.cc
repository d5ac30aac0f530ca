// SPDX-License-Identifier: Apache-2.0
// The commands by name, and the way from a command line to Options.
#include "frontends/cli/options/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "frontends/cli/options/command_options.h"
#include "frontends/cli/options/help.h"
#include "frontends/cli/options/mistakes.h"
#include "frontends/cli/terminal/terminal.h"

namespace unroll::cli {
namespace {

struct Row {
  const char* group;
  const char* name;
  const char* doc;
  void (*add)(CLI::App&, Options&);
};
constexpr const char *k_begin = "Start here", *k_understand = "Understand a model", *k_deploy = "Deploy",
                     *k_machine = "Machine";
constexpr Row k_commands[] = {
    {k_begin, "new", "Create a commented config and sample data.", add_new},
    {k_begin, "data", "Check a dataset for common problems.", add_data},
    {k_begin, "train", "Train the model described by a config.", add_train},
    {k_begin, "eval", "Evaluate a trained model on a split of its data.", add_eval},
    {k_begin, "predict", "Predict outputs for new inputs.", add_predict},
    {k_begin, "generate", "Generate text with a trained language model.", add_generate},
    {k_understand, "inspect", "Show the contents of a model file, run folder, config or graph.", add_inspect},
    {k_understand, "explain",
     "Explain the execution plan: passes applied or skipped, kernels chosen, predicted and measured time.",
     add_explain_command},
    {k_understand, "profile", "Measure where the time of a training update goes.", add_profile},
    {k_understand, "compare", "Check that backends agree on a model's outputs, gradients and updates.", add_compare},
    {k_understand, "report", "Write an HTML report that compares runs.", add_report},
    {k_understand, "lever",
     "Run an ablation: change one option at a time and compare speed, memory and loss.", add_lever},
    {k_deploy, "stream", "Run a model step by step on a stream of input vectors.", add_stream},
    {k_deploy, "run", "Run one forward pass, or forward and backward, on tensors from files.", add_run},
    {k_deploy, "bench", "Measure the speed of a layer stack or a matrix product.", add_bench},
    {k_machine, "doctor", "Show what this build and machine support, and test it.", add_doctor},
    {k_machine, "completion", "Print a completion script for a shell.", add_completion},
};

// Other names of commands.
struct Alias {
  std::string_view name, command;
};
constexpr Alias k_aliases[] = {{"ablation", "lever"}, {"ablate", "lever"}};

const Row* find_command(std::string_view name) {
  for (const Alias& alias : k_aliases)
    if (alias.name == name) name = alias.command;
  const auto is_named = [&](const Row& row) { return row.name == name; };
  const auto* at = std::find_if(std::begin(k_commands), std::end(k_commands), is_named);
  return at == std::end(k_commands) ? nullptr : at;
}

const Row& known_command(std::string_view name) {
  if (const Row* row = find_command(name)) return *row;
  std::vector<std::string_view> names;
  for (const Row& row : k_commands) names.emplace_back(row.name);
  for (const Alias& alias : k_aliases) names.push_back(alias.name);
  throw unknown_command(name, names);
}

std::unique_ptr<CLI::App> app_of(const Row& row, Options& options) {
  auto app = std::make_unique<CLI::App>(row.doc, row.name);
  row.add(*app, options);
  group(*app, "Output");
  app->add_flag("-q,--quiet", options.quiet, "Show no progress on stderr.");
  app->set_help_flag("-h,--help", "Print this help.")->group("Output");
  return app;
}

std::string help_of_program() {
  std::vector<CommandGroup> groups;
  for (const Row& row : k_commands) {
    if (groups.empty() || groups.back().heading != row.group) groups.push_back({row.group, {}});
    groups.back().commands.push_back({row.name, row.doc});
  }
  return program_help(groups, static_cast<std::size_t>(output_width()));
}

std::string help_of(const Row& row) {
  Options options;
  return command_help(*app_of(row, options), static_cast<std::size_t>(output_width()));
}

// --help, help COMMAND and --version are answered on stdout.
bool answered(std::span<const char* const> words) {
  const std::string_view first = words[0];
  if (first == "--version" || first == "-V") {
    fmt::print("unroll {}\n", UNROLL_VERSION);
  } else if (first == "help" && words.size() > 1) {
    fmt::print("{}", help_of(known_command(words[1])));
  } else if (first == "help" || first == "--help" || first == "-h") {
    fmt::print("{}", help_of_program());
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::vector<CommandInfo> describe_commands() {
  std::vector<CommandInfo> commands;
  for (const Row& row : k_commands) {
    Options options;
    const auto app = app_of(row, options);
    CommandInfo& command = commands.emplace_back();
    command.name = row.name;
    command.doc = row.doc;
    for (const CLI::Option* option : app->get_options()) {
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
  return commands;
}

std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_code) {
  const std::span<const char* const> words(argv + 1, static_cast<std::size_t>(std::max(argc - 1, 0)));
  if (words.empty()) {
    fmt::print(stderr, "{}", help_of_program());
    exit_code = 2;
    return std::nullopt;
  }
  exit_code = 0;
  if (answered(words)) return std::nullopt;
  const Row& row = known_command(words[0]);
  Options options;
  options.command = row.name;
  const auto app = app_of(row, options);
  try {
    app->parse(argc - 1, argv + 1);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", help_of(row));
    return std::nullopt;
  } catch (const CLI::ParseError& e) {
    throw wrong_options(*app, e);
  }
  return options;
}

std::string backend_or(const Options& options, const std::string& fallback) {
  return options.backend.empty() ? fallback : options.backend;
}

}  // namespace unroll::cli
