// SPDX-License-Identifier: Apache-2.0
// `unroll new`: writes a commented config for a task and, into a folder, sample data.
#include <fmt/format.h>

#include <filesystem>
#include <variant>

#include "core/support/files/paths.h"
#include "core/support/text/shell_word.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/terminal/activity.h"
#include "frontends/cli/terminal/report.h"
#include "frontends/config/text_file.h"
#include "unroll/support/error.h"
#include "unroll/support/vfs.h"

namespace unroll::cli {
namespace {

struct NewArguments : ConfigArguments {
  std::string kind;  // a word of task_kinds()
  std::string path;
  std::string data;  // use this data file
  bool reference = false;
};

void add_options(CLI::App& app, NewArguments& o) {
  std::vector<std::string> kinds;
  for (const TaskKind& kind : task_kinds()) kinds.emplace_back(kind.word);
  CLI::Option* kind = add_operand(app, "kind", o.kind, "Task to set up.");
  allow_only(kind, std::move(kinds));
  make_required(kind, false);
  make_required(add_operand(app, "path", o.path,
                            "Folder for config.toml and sample data, or a config file that ends in .toml."), false);
  group(app, "Data");
  add_text(app, "--data", o.data, "FILE", "Use this data file instead of sample data.");
  add_set(app, o);
  group(app, "Output");
  add_flag(app, "--reference", o.reference, "Print the reference of all config keys (docs/config.md).");
  add_examples(app,
               "  unroll new language-model demo\n"
               "  unroll new forecast sales.toml --data sales.csv --set data.column=units\n"
               "  unroll train demo/config.toml --out runs/demo\n"
               "\n"
               "docs/data.md describes the data file of each task.");
}

namespace fs = std::filesystem;

void write_new(const std::string& path, const std::string& text) {
  if (kind_of_path(path, ErrorKind::storage) != PathKind::none)
    throw Error(ErrorKind::usage, "new", fmt::format("{} already exists", path), "Choose another path");
  write_text_file(path, text);
  fmt::print("{}\n", path);
}

const TaskKind& kind_of(const std::string& word) {
  if (const TaskKind* kind = find_task_kind(word)) return *kind;
  std::vector<std::string_view> words;
  for (const TaskKind& kind : task_kinds()) words.push_back(kind.word);
  throw Error(ErrorKind::usage, "new", "no task kind given",
              fmt::format("Write unroll new {} PATH", fmt::join(words, "|")));
}

int execute(const NewArguments& options) {
  if (options.reference) {
    fmt::print("{}", config_reference());
    return 0;
  }
  const TaskKind& kind = kind_of(options.kind);
  const SampleData& from = kind.row.sample;
  if (options.path.empty())
    throw Error(ErrorKind::usage, "new", "no path given", "Name a folder, or a file that ends in .toml");
  if (!options.data.empty() && !disk().exists(options.data))
    throw Error(ErrorKind::input_file, options.data, "there is no such file", "Check the path after --data");
  Config config;
  config.set("task.kind", std::string(kind.word), "new");
  if (const char* setting = options.data.empty() ? from.sample_setting : from.own_setting)
    config.apply_setting(setting);
  const bool is_file = fs::path(options.path).extension() == ".toml";
  const std::string folder = is_file ? fs::path(options.path).parent_path().string() : options.path;
  config.set("data.path", options.data.empty() ? std::string(from.file) : absolute_path(options.data), "new");
  for (const std::string& setting : options.settings) config.apply_setting(setting);
  for (const char* key : {"data.validation", "data.test"})  // from the current folder, as --data
    if (const auto* given = std::get_if<std::string>(&config.value(key)); given && !given->empty())
      config.set(key, absolute_path(*given), "new");
  if (!folder.empty()) disk().make_folder(folder);
  const std::string file = is_file ? options.path : folder + "/config.toml";
  write_new(file, fmt::format("# {0}: docs/config.md explains every key, docs/data.md#{0} the data file\n\n{1}",
                              kind.word, config.toml(config.uses())));
  if (!is_file && options.data.empty()) write_new(folder + "/" + from.file, from.make());
  print_progress(fmt::format("Train it: unroll train {} --out {}", shell_word(file),
                             shell_word("runs/" + fs::path(file).parent_path().filename().string())));
  return 0;
}

}  // namespace

const Command new_command =
    command<NewArguments>(k_begin, "new", "Create a commented config and sample data.", add_options, execute);

}  // namespace unroll::cli
