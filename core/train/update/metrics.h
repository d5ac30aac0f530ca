// SPDX-License-Identifier: Apache-2.0
// Sums of loss and metrics over batches, and the lines of metrics.jsonl. They do not depend on time or machine.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/train/update/update_graph.h"
#include "unroll/train/trainer.h"

namespace unroll {

using MetricMap = std::map<std::string, double>;

// `sums` are total and count of each metric side by side, each of as many elements as the metric has parts. A metric
// without count is left out.
std::size_t n_sums(std::span<const MetricLayout> layout);
MetricMap metric_values(std::span<const MetricLayout> layout, std::span<const double> sums);

struct TrainLine {
  std::int64_t update, epoch;
  double loss, lr, gradient_norm;
  std::int64_t skipped;
  std::optional<double> loss_scale;
  MetricMap metrics;
};
std::string json_line(const TrainLine& line);

struct ValidationLine {
  std::int64_t update;
  double loss;
  bool best;
  MetricMap metrics;
};
std::string json_line(const ValidationLine& line);

std::string json_line(const TrainingStatistics& statistics);

// From `update` the run went back to `to`, the rollback-th time.
struct RollbackLine {
  std::int64_t update, to, rollback;
};
std::string json_line(const RollbackLine& line);

// The reports in metrics.jsonl, in order, without the fields that depend on time. Statistics belong to the report after
// them. Other lines are ignored.
std::vector<Progress> reports_of(std::string_view lines);

}  // namespace unroll
