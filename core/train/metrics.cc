// SPDX-License-Identifier: Apache-2.0
#include "core/train/metrics.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace unroll {

namespace {

using Json = nlohmann::ordered_json;

// JSON has no NaN and no infinity.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

void add_metrics(Json& line, const std::string& prefix, const MetricMap& metrics) {
  for (const auto& [name, value] : metrics) line[prefix + name] = number(value);
}

}  // namespace

MetricMap metric_values(std::span<const MetricLayout> layout, std::span<const double> sums) {
  MetricMap values;
  for (std::size_t i = 0; i < layout.size(); ++i) {
    if (sums[2 * i + 1] == 0) continue;
    const double mean = sums[2 * i] / sums[2 * i + 1];
    values[layout[i].name] = layout[i].root ? std::sqrt(mean) : mean;
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

std::string json_line(const RollbackLine& l) {
  return Json{{"update", l.update}, {"rollback_to", l.to}, {"rollback", l.rollback}}.dump();
}

}  // namespace unroll
