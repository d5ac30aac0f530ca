// SPDX-License-Identifier: Apache-2.0
// A run folder is recognized by its config.toml.
#include "frontends/config/run/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "core/support/files/paths.h"
#include "core/support/text/shell_word.h"
#include "frontends/config/run/job.h"
#include "frontends/config/text_file.h"
#include "unroll/support/error.h"
#include "unroll/support/vfs.h"
#include "unroll/train/trainer.h"

namespace unroll::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* k_name_one = "Name a folder that `unroll train --out` wrote";

[[noreturn]] void refuse(const std::string& path, const std::string& what, const std::string& next) {
  throw Error(ErrorKind::input_file, path, what, next);
}

void refuse_other_than_run(const std::string& path) {
  const PathKind kind = kind_of_path(path);
  if (kind == PathKind::none) refuse(path, "there is no such folder", k_name_one);
  if (kind == PathKind::folder) return;
  if (path.ends_with(".toml"))
    refuse(path, "expected a run folder, got a config file",
           fmt::format("Add --weights FILE, or train it first: unroll train {} --out FOLDER", shell_word(path)));
  refuse(path, "expected a run folder, got a file", k_name_one);
}

}  // namespace

RunFolder open_run(const RunArguments& options) {
  if (!options.weights.empty()) {
    const bool in_folder = is_folder(options.config);
    const std::string path = in_folder ? options.config + "/config.toml" : options.config;
    const std::string own = options.config + "/best.safetensors";
    TensorFile weights = load_model(options.weights);
    // Parameters alone, such as those of layer functions in Python, are of the folder's model.
    if (in_folder && !weights.metadata.contains("task") && disk().exists(own))
      weights.metadata = load_model(own).metadata;
    return {load_config(options, path), std::move(weights), folder_of(path)};
  }
  refuse_other_than_run(options.config);
  const std::string config = options.config + "/config.toml";
  const std::string model = fmt::format("{}/{}.safetensors", options.config, options.checkpoint);
  if (!disk().exists(config))
    refuse(options.config, fmt::format("not a run folder: {} is missing", config), k_name_one);
  if (!disk().exists(model))
    refuse(options.config, fmt::format("the run has no checkpoint yet: {} is missing", model),
           fmt::format("Train it: unroll train --resume --out {}", shell_word(options.config)));
  return {load_config(options, config), load_model(model), options.config};
}

void refuse_data_settings(const RunArguments& options, std::string_view command) {
  for (const std::string& setting : options.settings)
    if (setting.starts_with("data."))
      throw Error(ErrorKind::usage, fmt::format("--set {}", setting),
                  fmt::format("{} reads its input as training did, with the settings in the model", command),
                  "Leave it out, or train with this setting");
}

namespace {

// True if the folder has only files that `train` writes before its first report, including the log or empty metrics. A
// config alone may be the user's.
bool is_left_by_failed_start(const std::string& folder) {
  bool is_ours = false;
  for (const std::string& name : disk().list(folder)) {
    if (name == "log.txt" || (name == "metrics.jsonl" && size_of_file(folder + "/" + name) == 0)) is_ours = true;
    else if (name != "config.toml" && !name.starts_with("events.out.tfevents.")) return false;
  }
  return is_ours;
}

}  // namespace

void prepare_run_folder(const std::string& folder, bool resume) {
  const PathKind kind = kind_of_path(folder, ErrorKind::storage);
  if (kind != PathKind::none && kind != PathKind::folder) {
    throw Error(ErrorKind::usage, "unroll", fmt::format("--out {} is a file", folder), "Name a folder");
  }
  if (!resume && !disk().list(folder).empty()) {
    if (!is_left_by_failed_start(folder)) {
      throw Error(ErrorKind::usage, "unroll", fmt::format("--out {} is not empty", folder),
                  "Name another folder, or continue the run in it with train --resume");
    }
    remove_folder(folder);
  }
  disk().make_folder(folder);
}

bool holds_checkpoint(const std::string& folder) {
  const std::vector<std::string> names = disk().list(folder);
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return name == "last.safetensors" || (name.starts_with("checkpoint-") && name.ends_with(".safetensors"));
  });
}

FolderLock::FolderLock(const std::string& folder)
    : folder_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (folder_ < 0 || ::flock(folder_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(folder_);
  throw Error(ErrorKind::usage, "unroll", fmt::format("another process is training in {}", folder),
              "Name another folder, or wait until that run ends");
}
FolderLock::~FolderLock() {
  if (folder_ >= 0) ::close(folder_);
}

StartingRunFolder::StartingRunFolder(std::string folder, bool resume)
    : folder_(std::move(folder)), created_(kind_of_path(folder_, ErrorKind::storage) == PathKind::none) {
  if (!created_) FolderLock{folder_};  // a running start must not be mistaken for a failed one
  prepare_run_folder(folder_, resume);
  lock_.emplace(folder_);
}

StartingRunFolder::~StartingRunFolder() {
  if (!created_) return;
  try {
    if (disk().list(folder_).empty() || is_left_by_failed_start(folder_)) remove_folder(folder_);
  } catch (const Error&) {  // report the error that ended the start
  }
}

void make_data_path_absolute(Config& config, const std::string& config_path) {
  for (const std::string_view key : {"data.path", "data.validation", "data.test"}) {
    const auto* path = std::get_if<std::string>(&config.value(key));
    if (!path || path->empty()) continue;
    config.set(key, absolute_path(data_path(config, key, folder_of(config_path))), config_path);
  }
}

void save_config(const Config& config, const std::string& path) {
  write_text_file(path, config.toml(config.uses()));
}

}  // namespace unroll::cli
