// SPDX-License-Identifier: Apache-2.0
// Options that combine several keys, and the objects made from options.
#include "frontends/config/run/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "unroll/support/result.h"
#include "unroll/support/vfs.h"

namespace unroll::cli {
RecurrentModelOptions model_options(const Config& c) {
  RecurrentModelOptions options;
  c.fill(options);
  options.cells = c.cells();
  return options;
}

namespace {

DataPlace data_place(const Config& config, const std::string& folder) {
  if (config.text("task.kind").empty()) {
    std::vector<std::string_view> words;
    for (const TaskKind& kind : task_kinds()) words.push_back(kind.word);
    config.refuse("task.kind", "nothing to learn", fmt::format("Set it to one of {}", fmt::join(words, ", ")));
  }
  config.refuse_unread();
  if (config.text("data.path").empty()) config.refuse("data.path", "no data file", "Set data.path");
  return {data_path(config, "data.path", folder), folder};
}

// Appends a link to the description of the file format to an error of a data file.
Error with_data_page(const Error& e, const std::string& kind) {
  return {e.kind(), where_of(e), message_of(e),
          fmt::format("See docs/data.md#{}{}{}", kind, e.next().empty() ? "" : ". ", e.next())};
}

const TaskRow& row_of(const Config& config) {
  const TaskKind* kind = find_task_kind(config.uses());
  if (kind) return kind->row;
  throw Error(ErrorKind::internal, "make_task", "no row for task.kind = " + config.text("task.kind"));
}

}  // namespace

std::shared_ptr<const Task> make_task(const Config& config, const std::string& folder, const Metadata& fitted) {
  const DataPlace place = data_place(config, folder);
  try {
    return row_of(config).make(config, place, fitted);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::input_file) throw;
    throw with_data_page(e, config.text("task.kind"));
  }
}

std::string without_folder(const std::string& line) {
  const std::size_t slash = line.rfind('/', line.find(": "));
  return line.substr(slash == std::string::npos ? 0 : slash + 1);
}

DataCheck check_task_data(const Config& config, const std::string& folder) {
  return row_of(config).check(config, data_place(config, folder));
}

TrainerOptions trainer_options(const Config& c) {
  TrainerOptions t;
  c.fill(t.optimizer);
  c.fill(t.schedule);
  c.fill(t.clip);
  c.fill(t.average);
  c.fill(t.loss_scale);
  c.fill(t);
  t.groups = c.groups();
  t.memory_limit = bytes_of("run.memory_limit", c.text("run.memory_limit"));
  return t;
}

std::size_t bytes_of(const std::string& who, const std::string& text) {
  constexpr std::pair<std::string_view, double> units[] = {
      {"", 1}, {"B", 1}, {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0}};
  if (text.empty()) return 0;
  double number = 0;
  const char *begin = text.data(), *stop = begin + text.size();
  const char* end = std::from_chars(begin, stop, number).ptr;
  const std::string_view given(std::find_if(end, stop, [](char c) { return c != ' '; }), stop);
  for (const auto& [unit, factor] : units)
    if (end != begin && unit == given && number > 0 && number * factor >= 1 && number * factor <= 1e18)
      return static_cast<std::size_t>(number * factor);
  throw Error(ErrorKind::usage, who, "must be a positive number of bytes; got '" + text + "'", "Write 800MiB or 2GiB");
}

std::string kernel_folder() {
  const auto variable = [](const char* name) {
    const char* text = std::getenv(name);
    return std::string(text ? text : "");
  };
  // Relative paths are ignored (XDG Base Directory Specification).
  if (const std::string folder = variable("XDG_CACHE_HOME"); folder.starts_with('/')) return folder + "/unroll";
  const std::string home = variable("HOME");
  return home.starts_with('/') ? home + "/.cache/unroll" : "";
}

std::unique_ptr<Backend> open_backend(const std::string& name, std::int64_t threads, bool predict, Trace* trace,
                                      Communicator* ranks) {
  BackendOptions options{
      .threads = static_cast<int>(threads), .cache = kernel_folder(), .trace = trace, .communicator = ranks};
  for (const BackendOption& option : backend_options(name))
    if (predict && option.name == "predict") options.specific["predict"] = "true";
  return make_backend(name, options);
}

std::unique_ptr<Backend> open_backend(const Config& config, bool predict, Trace* trace, Communicator* ranks) {
  return open_backend(config.text("run.backend"), config.integer("run.threads"), predict, trace, ranks);
}

RecurrentSizes recurrent_sizes(const Config& config) {
  constexpr std::int64_t k_open_window = 52;  // where the data decide
  if (config.reads("data.window"))
    return {.steps = config.integer("data.window") > 0 ? config.integer("data.window") : k_open_window,
            .batch = config.integer("train.batch"),
            .input = std::max<std::int64_t>(static_cast<std::int64_t>(config.texts("data.columns").size()), 1)};
  const bool embedded = config.reads("model.embedding");
  return {.steps = std::max<std::int64_t>(config.integer("data.steps"), 1),
          .batch = config.integer("train.batch"),
          .input = config.integer(embedded ? "model.embedding" : "model.input")};
}

RecurrentJob build_recurrent(const RecurrentModelOptions& options, const RecurrentSizes& sizes) {
  RecurrentJob job;
  job.graph = std::make_shared<Graph>();
  Scope scope(*job.graph, /*training=*/false, sizes.dtype);
  job.x = job.graph->input("x", {sizes.dtype, {sizes.steps, sizes.batch, sizes.input}});
  job.state_names = recurrent_state_names(options);
  for (const Shape& shape : recurrent_state_shapes(options, sizes.batch, sizes.input))
    job.initial.push_back(job.graph->input(job.state_names[job.initial.size()] + "0", {sizes.dtype, shape}));
  const Value lengths = sizes.lengths ? job.graph->input("lengths", {DType::i32, {sizes.batch}}) : Value{};
  CellLayerResult result = recurrent_model(scope, job.x, options, job.initial, lengths);
  job.y = result.y;
  job.final = std::move(result.states);
  job.parameters = scope.parameters();
  return job;
}

std::string data_path(const Config& config, std::string_view key, const std::string& folder) {
  const std::string& given = std::get<std::string>(config.value(key));
  const std::string path = at_folder(given, folder);
  if (disk().exists(path)) return path;
  std::string next = "Check the path";
  if (!std::filesystem::path(given).is_absolute()) {
    next = fmt::format("A relative path in {} starts at the folder of the config, {}", key, folder);
    if (disk().exists(given))
      next += fmt::format(". For the file in the current folder, write {}", std::filesystem::absolute(given).string());
  }
  throw Error(ErrorKind::input_file, path, fmt::format("there is no such file ({} = {})", key, toml_text(given)), next);
}

std::string at_folder(const std::string& path, const std::string& folder) {
  return (std::filesystem::path(folder) / path).lexically_normal().string();
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace unroll::cli
