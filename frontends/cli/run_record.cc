// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/run_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "frontends/cli/config.h"
#include "unroll/vfs.h"

namespace unroll::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t k_most_bytes = std::size_t{256} << 20;
constexpr std::size_t k_most_curves = 1000;

void add_point(RunRecord& run, const std::string& curve, double update, double value) {
  constexpr double k_most = 1e300;  // differences stay finite
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
    if (line.contains("parameters") && line.contains("loops")) add_watched(run, update, line);
    for (const auto& [key, value] : line.items())
      if (value.is_number() && key != "update" && key != "epoch") add_point(run, key, update, value.get<double>());
  }
}

// update=120 ... updates_per_second=17.2
void read_speed(RunRecord& run, const std::string& text) {
  std::istringstream lines(text);
  const auto number_after = [](const std::string& line, const std::string& key) {
    double value = std::nan("");
    const auto at = line.find(key);
    if (at != std::string::npos) std::from_chars(line.data() + at + key.size(), line.data() + line.size(), value);
    return value;
  };
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("update="))
      add_point(run, "updates_per_second", number_after(line, "update="), number_after(line, " updates_per_second="));
}

}  // namespace

RunRecord record_of(const std::string& metrics, const std::string& log) {
  RunRecord run;
  read_metrics(run, metrics);
  read_speed(run, log);
  return run;
}

RunRecord read_run(const std::string& folder) {
  const auto text_of = [&](const std::string& name) { return read_text_file(folder + "/" + name, k_most_bytes); };
  const auto if_there = [&](const std::string& name) {
    return disk().exists(folder + "/" + name) ? text_of(name) : std::string();
  };
  RunRecord run = record_of(text_of("metrics.jsonl"), if_there("log.txt"));
  run.config = if_there("config.toml");
  const std::filesystem::path path(folder);
  run.name = (path.has_filename() ? path : path.parent_path()).filename().string();
  return run;
}

std::string unreadable_text(const RunRecord& run) {
  return fmt::format("{} line{} of metrics.jsonl could not be read", run.unreadable_lines,
                     run.unreadable_lines == 1 ? "" : "s");
}

}  // namespace unroll::cli
