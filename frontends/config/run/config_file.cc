// SPDX-License-Identifier: Apache-2.0
#include "frontends/config/run/config_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/data/text/encoding.h"
#include "core/support/files/paths.h"
#include "core/support/text/shell_word.h"
#include "frontends/config/text_file.h"
#include "unroll/support/error.h"
#include "unroll/support/vfs.h"

namespace unroll::cli {
namespace {

constexpr const char* k_write_one = "`unroll new KIND PATH` writes a config";

void refuse_folder(const std::string& path) {
  if (!is_folder(path)) return;
  const std::string inside = path + "/config.toml";
  throw Error(ErrorKind::input_file, path, "expected a config file, got a folder",
              disk().exists(inside) ? fmt::format("Name its config: {}", inside) : k_write_one);
}

// A safetensors file begins with its header size, so one of the first eight bytes is zero.
void refuse_other_kinds(const std::string& path, const std::string& text) {
  const auto refuse = [&](const char* what, const std::string& next) {
    throw Error(ErrorKind::input_file, path, what, next);
  };
  if (text.empty()) refuse("the config is empty", k_write_one);
  if (path.ends_with(".safetensors"))
    refuse("expected a config file, got a safetensors file",
           fmt::format("To list its tensors, write: unroll inspect {}", shell_word(path)));
  if (path.ends_with(".toml")) require_start_of_text(text, /*is_whole=*/true, path);
  if (text.find('\0') != std::string::npos) refuse("expected a config file, got a binary file", k_write_one);
}

}  // namespace

Config load_config(const ConfigArguments& options, const std::string& path) {
  constexpr std::size_t k_max_config_bytes = std::size_t{1} << 20;
  refuse_folder(path);
  const std::string text = read_text_file(path, k_max_config_bytes);
  refuse_other_kinds(path, text);
  Config config;
  config.apply_toml(text, path);
  for (const std::string& setting : options.settings) config.apply_setting(setting);
  if (!options.backend.empty()) config.set("run.backend", options.backend, "--backend");
  if (options.threads) config.set("run.threads", *options.threads, "--threads");
  if (!options.memory_limit.empty()) config.set("run.memory_limit", options.memory_limit, "--memory-limit");
  if (options.seed) config.set("train.seed", *options.seed, "--seed");
  return config;
}

std::string backend_or(const ConfigArguments& arguments, const std::string& fallback) {
  return arguments.backend.empty() ? fallback : arguments.backend;
}

std::string read_graph_text(const std::string& path) {
  constexpr std::size_t k_max_graph_bytes = std::size_t{64} << 20;
  std::string text = read_text_file(path, k_max_graph_bytes);
  const bool is_graph = text.starts_with("graph") || text.starts_with("//");  // a comment
  if (!is_graph)
    throw Error(ErrorKind::input_file, path, "is neither a run folder nor a config file (.toml) nor graph text",
                "Name what `unroll train` wrote or reads");
  return text;
}

}  // namespace unroll::cli
