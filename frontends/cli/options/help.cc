// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/options/help.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontends/cli/terminal/terminal.h"

namespace unroll::cli {
namespace {

constexpr std::size_t k_name_width = 26;  // of the column with names

// The option kinds store "TYPE:allowed" in CLI11's type name.
std::string placeholder_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.substr(0, type.find(':'));
}

std::string allowed_of(const CLI::Option& option) {
  const std::vector<std::string> choices = choices_of(option);
  if (!choices.empty()) return fmt::format("{}", fmt::join(choices, ", "));
  const std::string type = option.get_type_name();
  const std::size_t colon = type.find(':');
  return colon == std::string::npos ? "" : type.substr(colon + 1);
}

// "[0 to 4096; default: 0]"
std::string limits_of(const CLI::Option& option) {
  std::vector<std::string> parts;
  if (const std::string allowed = allowed_of(option); !allowed.empty()) parts.push_back(allowed);
  if (option.get_required() && !option.get_positional()) parts.emplace_back("required");
  if (!option.get_default_str().empty()) parts.push_back("default: " + option.get_default_str());
  return parts.empty() ? "" : fmt::format(" [{}]", fmt::join(parts, "; "));
}

std::string row(const std::string& name, const std::string& doc, std::size_t width) {
  std::string text = "  " + name;
  const std::size_t column = k_name_width + 2;
  text += text.size() < column ? std::string(column - text.size(), ' ') : "\n" + std::string(column, ' ');
  const std::size_t begin = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  return text.substr(0, begin) + wrapped(text.substr(begin) + doc, width, column) + "\n";
}

std::string option_row(const CLI::Option& option, std::size_t width) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  std::string name = option.get_positional() ? shown_name(option) : fmt::format("{}", fmt::join(names, ", "));
  const bool takes_value = !option.get_positional() && option.get_items_expected_max() > 0;
  if (takes_value) name += " " + placeholder_of(option);
  return row(name, option.get_description() + (takes_value || option.get_positional() ? limits_of(option) : ""),
             width);
}

std::string usage_of(const CLI::App& command) {
  std::string line = "Usage: unroll " + command.get_name();
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = shown_name(*option);
    const std::string more = option->get_items_expected_max() > 1 ? "..." : "";
    if (option->get_positional()) line += option->get_required() ? " " + name + more : " [" + name + "]";
    else if (option->get_required()) line += fmt::format(" {} {}", name, placeholder_of(*option));
  }
  return line + " [OPTIONS]";
}

}  // namespace

std::string shown_name(const CLI::Option& option) {
  if (!option.get_positional()) return "--" + (option.get_lnames().empty() ? "" : option.get_lnames().front());
  std::string name = option.get_name();
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
  return name;
}

std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const auto open = type.find('{'), close = type.find('}');
  if (open == std::string::npos || close == std::string::npos) return {};
  return CLI::detail::split(type.substr(open + 1, close - open - 1), ',');
}

std::string command_help(const CLI::App& command, std::size_t width) {
  std::string text = wrapped(command.get_description(), width, 0) + "\n\n";
  text += wrapped(usage_of(command), width, 7) + "\n\nExamples:\n" + command.get_footer() + "\n";
  std::string operands;
  std::vector<std::string> headings;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) operands += option_row(*option, width);
    else if (std::find(headings.begin(), headings.end(), option->get_group()) == headings.end())
      headings.push_back(option->get_group());
  }
  if (!operands.empty()) text += "\nArguments:\n" + operands;
  for (const std::string& heading : headings) {
    text += fmt::format("\n{}:\n", heading);
    for (const CLI::Option* option : command.get_options())
      if (!option->get_positional() && option->get_group() == heading) text += option_row(*option, width);
  }
  return text;
}

std::string program_help(std::span<const CommandGroup> groups, std::size_t width) {
  std::string text = "Train and run recurrent networks.\n\nUsage: unroll COMMAND [OPTIONS]\n";
  for (const CommandGroup& group : groups) {
    text += fmt::format("\n{}:\n", group.heading);
    for (const auto& [name, doc] : group.commands)
      text += wrapped(fmt::format("  {:<12}{}", name, doc), width, 14) + "\n";
  }
  text +=
      "\nExamples:\n"
      "  unroll new language-model demo\n"
      "  unroll train demo/config.toml --out runs/demo\n"
      "  unroll eval runs/demo\n"
      "  unroll generate runs/demo --prompt \"the \"\n"
      "\n"
      "`unroll help COMMAND` shows the options of a command.\n"
      "`unroll --version` prints the version.\n"
      "\n"
      "Exit codes:\n"
      "  0 success, 1 unexpected error, 2 usage, 3 bad input file, 4 number not finite,\n"
      "  5 device, 6 storage, 7 memory, 9 results differ,\n"
      "  130 and 143 stopped by a signal after saving a checkpoint\n";
  return text;
}

}  // namespace unroll::cli
