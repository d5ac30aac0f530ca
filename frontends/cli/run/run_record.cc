// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/run/run_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "core/support/text/counted.h"
#include "frontends/cli/terminal/words.h"
#include "frontends/config/config.h"
#include "frontends/config/text_file.h"
#include "frontends/config/toml_reader.h"
#include "unroll/support/error.h"
#include "unroll/support/vfs.h"

namespace unroll::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t k_most_bytes = std::size_t{256} << 20;
constexpr std::size_t k_most_curves = 1000;

void add_point(RunRecord& run, const std::string& curve, double update, double value) {
  constexpr double k_most = 1e300;  // keeps differences finite
  if (!(std::abs(update) <= k_most && std::abs(value) <= k_most)) return;
  auto at = run.curves.find(curve);
  if (at == run.curves.end()) {
    if (run.curves.size() == k_most_curves) return;
    at = run.curves.emplace(curve, Curve()).first;
    run.order.push_back(curve);
  }
  at->second.emplace_back(update, value);
}

void add_watched(RunRecord& run, double update, const Json& line) {
  double ratio = 0;
  for (const Json& parameter : line["parameters"])
    if (parameter.is_object() && parameter.value("update_ratio", Json()).is_number())
      ratio = std::max(ratio, parameter["update_ratio"].get<double>());
  add_point(run, "update_ratio", update, ratio);
  for (const auto& [loop, shares] : line["loops"].items())
    for (const char* share : {"saturated", "dead"})
      if (shares.is_object() && shares.value(share, Json()).is_number())
        add_point(run, std::string(share) + " " + loop, update, shares[share].get<double>());
}

void read_metrics(RunRecord& run, const std::string& text) {
  std::istringstream lines(text);
  for (std::string row; std::getline(lines, row);) {
    if (row.empty()) continue;
    const Json line = Json::parse(row, nullptr, /*allow_exceptions=*/false);
    if (!line.is_object() || !line.contains("update") || !line["update"].is_number()) {
      ++run.unreadable_lines;
      continue;
    }
    const double update = line["update"].get<double>();
    if (update > run.updates && update <= 1e15) run.updates = update;
    if (const auto loss = line.find("loss"); loss != line.end()) run.not_finite = loss->is_null();
    if (line.contains("parameters") && line.contains("loops")) add_watched(run, update, line);
    for (const auto& [key, value] : line.items())
      if (value.is_number() && key != "update" && key != "epoch") add_point(run, key, update, value.get<double>());
  }
}

double number_after(const std::string& line, const std::string& key) {
  double value = std::nan("");
  const auto at = line.find(key);
  if (at != std::string::npos) std::from_chars(line.data() + at + key.size(), line.data() + line.size(), value);
  return value;
}

// update=120 of=300 ... updates_per_second=17.2
void read_log(RunRecord& run, const std::string& text) {
  std::istringstream lines(text);
  double last = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("update=")) continue;
    const double update = number_after(line, "update="), rate = number_after(line, " updates_per_second="),
                 of = number_after(line, " of=");
    add_point(run, "updates_per_second", update, rate);
    if (of >= 0 && of <= 1e15) run.planned = of;
    const double seconds = (update - last) / rate;
    if (seconds >= 0 && seconds <= 1e12) run.seconds += seconds;
    last = update;
  }
}

// Describes the model of a config in one line.
class ModelText {
 public:
  explicit ModelText(const std::vector<TomlEntry>& entries) : entries_(entries) {}

  std::string text(const std::string& path) const { return value_of<std::string>(path).value_or(""); }

  std::string model() const {
    std::string cell = text("model.cell");
    if (cell.empty()) return "";
    const bool built_in = cell == "rnn" || cell == "gru" || cell == "lstm";
    if (built_in)
      std::transform(cell.begin(), cell.end(), cell.begin(), [](char c) { return static_cast<char>(c - 'a' + 'A'); });
    std::string line = cell;
    if (const auto layers = value_of<std::int64_t>("model.layers"))
      line += ", " + counted(*layers, "layer");
    if (const auto hidden = value_of<std::int64_t>("model.hidden"))
      line += fmt::format(", {} units", number_text(static_cast<double>(*hidden)));
    if (value_of<bool>("model.bidirectional").value_or(false)) line += ", bidirectional";
    for (const auto& [path, format] : k_parts)
      if (const std::string word = text(path); !word.empty() && word != "plain" && word != "final" && word != "softmax")
        line += ", " + fmt::format(fmt::runtime(format), word == "crf" ? "CRF" : word);
    return line;
  }

 private:
  static constexpr std::pair<const char*, std::string_view> k_parts[] = {
      {"model.stack", "{} connections"},
      {"model.attention", "{} attention"},
      {"model.pooling", "{} pooling"},
      {"model.output", "{} output"},
  };
  template <class T>
  std::optional<T> value_of(const std::string& path) const {
    for (const TomlEntry& entry : entries_)
      if (entry.path == path)
        if (const T* value = std::get_if<T>(&entry.value)) return *value;
    return std::nullopt;
  }
  const std::vector<TomlEntry>& entries_;
};

// Does not check the schema, because configs of older versions are still readable.
void read_config(RunRecord& run) {
  try {
    const std::vector<TomlEntry> entries = read_toml(run.config, "config.toml");
    const ModelText config(entries);
    run.kind = config.text("task.kind");
    run.data = std::filesystem::path(config.text("data.path")).filename().string();
    run.model = config.model();
  } catch (const Error&) {  // the page shows the text
  }
}

}  // namespace

RunRecord record_of(const std::string& metrics, const std::string& log, const std::string& config) {
  RunRecord run;
  run.config = config;
  read_metrics(run, metrics);
  read_log(run, log);
  read_config(run);
  return run;
}

RunRecord read_run(const std::string& folder) {
  const auto text_of = [&](const std::string& name) { return read_text_file(folder + "/" + name, k_most_bytes); };
  const auto if_there = [&](const std::string& name) {
    return disk().exists(folder + "/" + name) ? text_of(name) : std::string();
  };
  RunRecord run = record_of(text_of("metrics.jsonl"), if_there("log.txt"), if_there("config.toml"));
  const std::filesystem::path path(folder);
  run.name = (path.has_filename() ? path : path.parent_path()).filename().string();
  return run;
}

std::string unreadable_text(const RunRecord& run) {
  return counted(run.unreadable_lines, "line") + " of metrics.jsonl could not be read";
}

const std::pair<double, double>* best_validation(const RunRecord& run) {
  const auto at = run.curves.find("validation_loss");
  if (at == run.curves.end()) return nullptr;
  const auto lower = [](const auto& a, const auto& b) { return a.second < b.second; };
  return &*std::min_element(at->second.begin(), at->second.end(), lower);
}

std::string status_text(const RunRecord& run) {
  if (run.not_finite) return "diverged: the last loss is not finite";
  if (run.planned <= 0) return "";
  if (run.updates >= run.planned) return "finished";
  return fmt::format("stopped or running, {} of {} updates", number_text(run.updates), number_text(run.planned));
}

std::string task_name(const std::string& word) {
  if (const TaskKind* kind = find_task_kind(word)) return kind->row.title;
  return word.empty() ? "Run" : word;
}

}  // namespace unroll::cli
