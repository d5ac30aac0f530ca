// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/run/baseline_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/train/advice/baseline_advice.h"
#include "frontends/cli/terminal/activity.h"

namespace unroll::cli {
namespace {

constexpr std::uintmax_t k_most_data = std::uintmax_t{64} << 20;  // bytes of a file that baselines read

bool is_large(const Config& config) {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(config.text("data.path"), error);
  return !error && bytes > k_most_data;
}

bool any_infinite(const std::map<std::string, double>& metrics) {
  return std::any_of(metrics.begin(), metrics.end(), [](const auto& m) { return std::isinf(m.second); });
}

}  // namespace

void LossTrace::add(const Progress& progress) {
  if (progress.validation_loss) return;
  if (!first_) first_ = progress.loss;
  last_ = progress.loss;
  infinite_ = any_infinite(progress.metrics);
}

bool LossTrace::diverged(const TrainResult& result, const std::vector<Advice>& advice) const {
  if (infinite_ || (last_ && !std::isfinite(*last_))) return true;
  if (!result.validation_metrics.empty() && !std::isfinite(result.last_validation_loss)) return true;
  const auto is_divergence = [](const Advice& a) { return a.symptom == "divergence"; };
  const bool seen = std::any_of(advice.begin(), advice.end(), is_divergence);
  return seen && !(last_ && *last_ < *first_);
}

std::optional<Advice> baseline_advice(const Task& task, const std::map<std::string, double>& metrics,
                                      const std::map<std::string, std::map<std::string, double>>& baselines) {
  constexpr std::int64_t k_many_steps = 50;
  const Metadata metadata = task.metadata();
  const bool is_row = metadata.contains("steps") && metadata.contains("width");  // of a table
  const std::int64_t steps = is_row ? std::stoll(metadata.at("steps")) : 0;
  return compare_with_baselines(metrics, baselines, steps <= k_many_steps ? "" : fmt::format(
      "fewer, wider steps than {} (`data.steps = 1` reads a row at once)", steps));
}

void note_baselines(const Task& task, const Config& config, const TrainResult& result, ProgressDisplay& display) {
  if (result.interrupted) return;
  // A partial validation is another set than the baselines'.
  if (result.validation_metrics.empty() || config.integer("train.validation_batches") > 0) return;
  if (is_large(config)) {
    display.line("note: not compared with baselines: the data file is larger than 64 MiB; `unroll eval` compares");
    return;
  }
  Activity busy("comparing with baselines");
  const std::optional<Advice> advice =
      baseline_advice(task, result.validation_metrics, task.baselines(Split::validation));
  busy.finish();
  if (advice) display.note({*advice});
}

}  // namespace unroll::cli
