// SPDX-License-Identifier: Apache-2.0
// Prints completion scripts, generated from the option tree. Free-text values complete to file names.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "frontends/cli/commands.h"
#include "frontends/cli/options/command_line.h"

namespace unroll::cli {
namespace {

struct CompletionArguments {
  std::string shell;
};

void add_options(CLI::App& app, CompletionArguments& o) {
  allow_only(add_operand(app, "shell", o.shell, "Shell to complete in."), {"bash", "zsh", "fish"});
  add_examples(app,
               "  source <(unroll completion bash)\n"
               "  unroll completion fish > ~/.config/fish/completions/unroll.fish");
}

std::string names_of(const CommandInfo& command) {
  std::string words;
  for (const OptionInfo& option : command.options) words += fmt::format("{} ", fmt::join(option.names, " "));
  return words;
}

std::string single_quoted(std::string text) {
  std::replace(text.begin(), text.end(), '\'', '"');
  return "'" + text + "'";
}

std::string bash_script(const std::vector<CommandInfo>& commands) {
  std::string names, cases;
  for (const CommandInfo& command : commands) {
    names += command.name + " ";
    cases += fmt::format("    {}) words='{}{}'", command.name, names_of(command), fmt::join(command.choices, " "));
    std::string values;
    for (const OptionInfo& option : command.options) {
      if (option.choices.empty()) continue;
      values += fmt::format(" {}) words='{}' ;;", fmt::join(option.names, "|"), fmt::join(option.choices, " "));
    }
    if (!values.empty()) cases += fmt::format("; case $prev in{} esac", values);
    cases += " ;;\n";
  }
  return fmt::format(
      "_unroll() {{\n"
      "  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} words=''\n"
      "  case ${{COMP_WORDS[1]}} in\n{}    *) words='{}--help --version' ;;\n  esac\n"
      "  [ \"$COMP_CWORD\" -eq 1 ] && words='{}--help --version'\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
      "}}\n"
      "complete -o default -F _unroll unroll\n",
      cases, names, names);
}

std::string zsh_script(const std::vector<CommandInfo>& commands) {
  std::string listed, cases;
  for (const CommandInfo& command : commands) {
    listed += fmt::format("    {}\n", single_quoted(command.name + ":" + command.doc));
    cases += fmt::format("      {}) _arguments", command.name);
    for (const OptionInfo& option : command.options) {
      std::string doc = option.doc;
      for (const char bracket : {'[', ']', ':'}) std::replace(doc.begin(), doc.end(), bracket, ' ');
      const std::string value = !option.takes_value      ? ""
                                : option.choices.empty() ? ":value:_files"
                                                         : fmt::format(":value:({})", fmt::join(option.choices, " "));
      for (const std::string& name : option.names) {
        cases += " " + single_quoted(fmt::format("{}[{}]{}", name, doc, value));
      }
    }
    cases += command.choices.empty()
                 ? " '*:file:_files' ;;\n"
                 : fmt::format(" '1:what:({})' '*:file:_files' ;;\n", fmt::join(command.choices, " "));
  }
  return fmt::format(
      "#compdef unroll\n"
      "_unroll() {{\n  local -a commands=(\n{}  )\n"
      "  if (( CURRENT == 2 )); then _describe command commands; return; fi\n"
      "  local command=$words[2]\n  shift words; (( CURRENT-- ))\n"
      "  case $command in\n{}  esac\n}}\n"
      "compdef _unroll unroll\n",
      listed, cases);
}

std::string fish_script(const std::vector<CommandInfo>& commands) {
  std::string text;
  for (const CommandInfo& command : commands) {
    text += fmt::format("complete -c unroll -n __fish_use_subcommand -f -a {} -d {}\n", command.name,
                        single_quoted(command.doc));
    const std::string seen = fmt::format("'__fish_seen_subcommand_from {}'", command.name);
    for (const OptionInfo& option : command.options) {
      text += fmt::format("complete -c unroll -n {}", seen);
      for (const std::string& name : option.names) {
        text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      if (option.takes_value) text += " -r";
      if (!option.choices.empty()) text += fmt::format(" -f -a '{}'", fmt::join(option.choices, " "));
      text += fmt::format(" -d {}\n", single_quoted(option.doc));
    }
    if (!command.choices.empty()) {
      text += fmt::format("complete -c unroll -n {} -a '{}'\n", seen, fmt::join(command.choices, " "));
    }
  }
  return text;
}

int execute(const CompletionArguments& options) {
  const auto commands = describe_commands(all_commands());
  const std::string text = options.shell == "bash"  ? bash_script(commands)
                           : options.shell == "zsh" ? zsh_script(commands)
                                                    : fish_script(commands);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace

const Command completion_command = command<CompletionArguments>(
    k_machine, "completion", "Print a completion script for a shell.", add_options, execute);

}  // namespace unroll::cli
