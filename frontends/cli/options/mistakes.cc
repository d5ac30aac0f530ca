// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/options/mistakes.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/support/text/nearest_name.h"
#include "core/support/text/shell_word.h"
#include "frontends/cli/options/help.h"
#include "frontends/config/config_schema.h"

namespace unroll::cli {
namespace {

constexpr const char* k_unroll = "unroll";

// Names that other tools use. A hint without a command is complete.
struct OtherWord {
  std::string_view word, command, hint;
};
constexpr OtherWord k_other_words[] = {
    {"fit", "train", ""},
    {"learn", "train", ""},
    {"resume", "", "To continue a run, write: unroll train --resume --out RUN"},
    {"test", "eval", ""},
    {"evaluate", "eval", ""},
    {"validate", "eval", ""},
    {"score", "eval", ""},
    {"metrics", "eval", ""},
    {"cross-validation", "backtest", ""},
    {"sample", "generate", ""},
    {"run-model", "generate", ""},
    {"write", "generate", ""},
    {"complete", "generate", ""},
    {"infer", "predict", ""},
    {"inference", "predict", ""},
    {"forecast", "predict", ""},
    {"classify", "predict", ""},
    {"label", "predict", ""},
    {"tag", "predict", ""},
    {"translate", "predict", ""},
    {"init", "new", ""},
    {"create", "new", ""},
    {"start", "new", ""},
    {"check", "", "To check a dataset, write: unroll data check CONFIG"},
    {"sweep", "ablation", ""},
    {"search", "ablation", ""},
    {"tune", "ablation", ""},
    {"benchmark", "bench", ""},
    {"time", "bench", ""},
    {"show", "inspect", ""},
    {"info", "inspect", ""},
    {"summary", "inspect", ""},
    {"describe", "inspect", ""},
    {"print", "inspect", ""},
    {"plot", "report", ""},
    {"visualize", "report", ""},
    {"html", "report", ""},
    {"diff", "compare", ""},
    {"trace", "profile", ""},
    {"serve", "stream", ""},
    {"version", "", "To print the version, write: unroll --version"},
    {"convert", "export", ""},
    {"onnx", "export", ""},
    {"save", "",
     "A trained model is saved already: RUN/best.safetensors holds its parameters and metadata; docs/embedding.md "
     "shows how to load it"},
};

std::string lower(std::string_view text) {
  std::string word(text);
  std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return std::tolower(c); });
  return word;
}

// "--temp" is a unique prefix; otherwise the nearest option by spelling.
std::string nearest_option(const CLI::App& command, std::string_view name) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& known : option->get_lnames()) names.push_back(known);
  std::vector<std::string_view> begins;
  for (const std::string& known : names)
    if (name.size() > 1 && known.starts_with(name)) begins.push_back(known);
  if (begins.size() == 1) return std::string(begins.front());
  const std::vector<std::string_view> all(names.begin(), names.end());
  return std::string(nearest_name(name, all));
}

std::string help_of(const CLI::App& command) { return fmt::format("`unroll {} --help` lists all", command.get_name()); }

Error unknown_option(const CLI::App& command, const std::string& given) {
  const std::string name = given.substr(given.find_first_not_of('-'), given.find('=') - given.find_first_not_of('-'));
  const std::string dashes = given.substr(0, given.find_first_not_of('-'));
  const std::string near = nearest_option(command, name);
  // "--batch-size" and "--lr" are config keys: train.batch, train.lr.
  const std::string_view key = command.get_option_no_throw("--set") ? key_named(name) : "";
  std::string next = help_of(command);
  if (!key.empty()) next = fmt::format("It is a key of the config; write: --set {}=VALUE", key);
  else if (!near.empty()) next = fmt::format("Did you mean --{}? {}", near, next);
  return {ErrorKind::usage, command.get_name(), fmt::format("there is no option {}{}", dashes, name), next};
}

Error extra_words(const CLI::App& command, const std::vector<std::string>& words) {
  return {ErrorKind::usage, command.get_name(), fmt::format("unexpected argument \"{}\"", words.front()),
          fmt::format("Quote values that have spaces; {}", help_of(command))};
}

bool is_option(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && word.find_first_not_of('-') != std::string::npos &&
         std::string_view("0123456789.").find(word[1]) == std::string_view::npos;
}

// Includes the first example of the help.
Error missing(const CLI::App& command, const CLI::Option& option) {
  const std::string name = shown_name(option), examples = command.get_footer();
  const std::size_t begin = examples.find_first_not_of(' ');
  const std::string example = examples.substr(begin, examples.find('\n') - begin);
  const bool is_whole = !example.ends_with('\\');
  return {ErrorKind::usage, command.get_name(), name + " is missing",
          (is_whole ? fmt::format("Write for example: {}. ", example) : "") +
              fmt::format("`unroll {} --help` describes {}", command.get_name(), name)};
}

// A value that a validator refused: "--batch: expected ..., got "0". Write for example: --batch 32".
Error wrong_value(const CLI::App& command, std::string text) {
  const std::size_t colon = text.find(':');
  const CLI::Option* option = command.get_option_no_throw(text.substr(0, colon));
  if (option && option->get_positional()) text.replace(0, colon, shown_name(*option));
  const std::size_t hint = text.rfind("\". ");
  if (text.ends_with('.')) text.pop_back();
  if (hint == std::string::npos) return {ErrorKind::usage, command.get_name(), text, help_of(command)};
  const std::string next = text.substr(hint + 3);
  return {ErrorKind::usage, command.get_name(), text.substr(0, hint + 1),
          next + (next.ends_with('?') ? " " : ". ") + help_of(command)};
}

}  // namespace

Error unknown_command(std::string_view word, std::span<const std::string_view> commands) {
  const auto error = [](std::string what, std::string next) { return Error(ErrorKind::usage, k_unroll, what, next); };
  if (word.starts_with('-'))
    return error(fmt::format("expected a command, got the option {}", word),
                 "Options follow the command, as in: unroll doctor --json");
  const std::string what = fmt::format("there is no command \"{}\"", word);
  const std::string list = "`unroll help` lists the commands";
  const std::string small = lower(word);
  for (const OtherWord& other : k_other_words) {
    if (other.word != small) continue;
    if (!other.hint.empty()) return error(what, fmt::format("{}. {}", other.hint, list));
    return error(what, fmt::format("Did you mean `unroll {}`? {}", other.command, list));
  }
  const std::string_view near = nearest_name(small, commands);
  if (near.empty()) {
    const bool is_config = word.ends_with(".toml");
    return error(what,
                 is_config ? "To train a config, write: unroll train " + shell_word(word) + " --out FOLDER" : list);
  }
  return error(what, fmt::format("Did you mean `unroll {}`? {}", near, list));
}

Error wrong_options(const CLI::App& command, const CLI::ParseError& found) {
  // Reports an unknown option first: it explains a missing or extra operand.
  const std::vector<std::string> extra = command.remaining();
  const auto unknown = std::find_if(extra.begin(), extra.end(), is_option);
  if (unknown != extra.end()) return unknown_option(command, *unknown);
  if (dynamic_cast<const CLI::RequiredError*>(&found)) {
    for (const CLI::Option* option : command.get_options())
      if (option->get_required() && option->count() == 0) return missing(command, *option);
  }
  if (!extra.empty()) return extra_words(command, extra);
  if (dynamic_cast<const CLI::ValidationError*>(&found)) return wrong_value(command, found.what());
  std::string text = found.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&found)) {
    const std::string name = text.substr(0, text.find(':'));
    const CLI::Option* option = command.get_option_no_throw(name);
    if (option && option->count() > 1) text = fmt::format("{} is given more than once", name);
    else if (option) text = fmt::format("{} needs a value", name);
  }
  return {ErrorKind::usage, command.get_name(), text, help_of(command)};
}

}  // namespace unroll::cli
