// SPDX-License-Identifier: Apache-2.0
#include "core/train/update/metrics.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace unroll {

namespace {

using Json = nlohmann::ordered_json;

// JSON has no NaN and no infinity.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

void add_metrics(Json& line, const std::string& prefix, const MetricMap& metrics) {
  for (const auto& [name, value] : metrics) line[prefix + name] = number(value);
}

double formed(MetricForm form, double ratio) {
  switch (form) {
    case MetricForm::ratio: break;
    case MetricForm::root: return std::sqrt(ratio);
    case MetricForm::exponential: return std::exp(ratio);
  }
  return ratio;
}

}  // namespace

std::size_t n_sums(std::span<const MetricLayout> layout) {
  std::int64_t n = 0;
  for (const MetricLayout& m : layout) n += 2 * m.parts;
  return static_cast<std::size_t>(n);
}

MetricMap metric_values(std::span<const MetricLayout> layout, std::span<const double> sums) {
  MetricMap values;
  for (const MetricLayout& m : layout) {
    const auto parts = static_cast<std::size_t>(m.parts);
    double sum = 0, n = 0;
    for (std::size_t k = 0; k < parts; ++k) {
      if (sums[parts + k] == 0) continue;
      sum += sums[k] / sums[parts + k];
      ++n;
    }
    sums = sums.subspan(2 * parts);
    if (n > 0) values[m.name] = m.scale * formed(m.form, sum / n);
  }
  return values;
}

std::string json_line(const TrainLine& l) {
  Json line{{"update", l.update}, {"epoch", l.epoch}, {"loss", number(l.loss)}, {"lr", number(l.lr)},
            {"gradient_norm", number(l.gradient_norm)}, {"skipped", l.skipped}};
  if (l.loss_scale) line["loss_scale"] = *l.loss_scale;
  add_metrics(line, "", l.metrics);
  return line.dump();
}

std::string json_line(const ValidationLine& l) {
  Json line{{"update", l.update}, {"validation_loss", number(l.loss)}, {"best", l.best}};
  add_metrics(line, "validation_", l.metrics);
  return line.dump();
}

std::string json_line(const TrainingStatistics& w) {
  Json parameters = Json::object(), loops = Json::object();
  for (const auto& [name, p] : w.parameters)
    parameters[name] = {{"gradient_norm", number(p.gradient_norm)}, {"update_ratio", number(p.update_ratio)}};
  for (const auto& [name, l] : w.loops) loops[name] = {{"saturated", number(l.saturated)}, {"dead", number(l.dead)}};
  return Json{{"update", w.update}, {"parameters", parameters}, {"loops", loops}}.dump();
}

std::string json_line(const RollbackLine& l) {
  return Json{{"update", l.update}, {"rollback_to", l.to}, {"rollback", l.rollback}}.dump();
}

namespace {

double number_of(const Json& line, const char* key) {
  const auto at = line.find(key);
  return at != line.end() && at->is_number() ? at->get<double>() : std::nan("");
}

TrainingStatistics statistics_of(const Json& line) {
  TrainingStatistics w{.update = static_cast<std::int64_t>(number_of(line, "update")), .parameters = {}, .loops = {}};
  for (const auto& [name, p] : line["parameters"].items())
    w.parameters[name] = {number_of(p, "gradient_norm"), number_of(p, "update_ratio")};
  for (const auto& [name, l] : line["loops"].items()) w.loops[name] = {number_of(l, "saturated"), number_of(l, "dead")};
  return w;
}

// A line has null for a metric that is not finite; the loss itself is NaN then.
MetricMap infinite_metrics(const Json& line) {
  MetricMap metrics;
  for (const auto& [name, value] : line.items())
    if (value.is_null() && name != "loss" && name != "gradient_norm") metrics[name] = HUGE_VAL;
  return metrics;
}

}  // namespace

std::vector<Progress> reports_of(std::string_view lines) {
  std::vector<Progress> reports;
  std::optional<TrainingStatistics> statistics;
  for (std::size_t end; !lines.empty(); lines.remove_prefix(std::min(end + 1, lines.size()))) {
    end = std::min(lines.find('\n'), lines.size());
    const Json line = Json::parse(lines.substr(0, end), nullptr, /*allow_exceptions=*/false);
    if (!line.is_object() || !line.contains("update")) continue;
    if (line.contains("loops") && line.contains("parameters")) statistics = statistics_of(line);
    Progress p{};
    p.update = static_cast<std::int64_t>(number_of(line, "update"));
    if (line.contains("validation_loss")) {
      p.validation_loss = number_of(line, "validation_loss");
      p.skipped_updates = reports.empty() ? 0 : reports.back().skipped_updates;
    } else if (line.contains("loss")) {
      p.loss = number_of(line, "loss");
      p.gradient_norm = number_of(line, "gradient_norm");
      p.skipped_updates = static_cast<std::int64_t>(number_of(line, "skipped"));
      p.metrics = infinite_metrics(line);
      p.statistics = std::exchange(statistics, std::nullopt);
    } else {
      continue;
    }
    reports.push_back(std::move(p));
  }
  return reports;
}

}  // namespace unroll
