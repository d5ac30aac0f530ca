// SPDX-License-Identifier: Apache-2.0
// Learning rate range test (Smith 2017, "Cyclical Learning Rates for Training Neural Networks", section 3.3).
#include <algorithm>
#include <cmath>

#include "core/train/loop/device_model.h"
#include "unroll/error.h"

namespace unroll {

namespace {

constexpr double k_smoothing = 0.9;  // share of the mean so far that an update keeps
constexpr double k_diverged = 4;     // times the best smoothed loss

void check(const LrSearchOptions& o) {
  if (!(o.from > 0 && o.to > o.from && std::isfinite(o.to)))
    throw Error(ErrorKind::usage, "find_lr", "from and to must be positive, and from < to");
  if (o.updates < 10 || o.updates > 100000)
    throw Error(ErrorKind::usage, "find_lr", "updates must be in [10, 100000]; got " + std::to_string(o.updates));
}

double loss_since(DeviceModel& model) {
  const std::vector<double> t = model.totals();
  model.clear_totals();
  return t[1] > 0 ? t[0] / t[1] : std::nan("");
}

// Where the smoothed loss falls fastest over the logarithm of lr, before its lowest point; earlier by the updates that
// smoothing lags behind.
double steepest(const std::vector<LrPoint>& points) {
  constexpr auto lag = static_cast<std::ptrdiff_t>(k_smoothing / (1 - k_smoothing) + 0.5);
  const auto lowest = std::min_element(points.begin(), points.end(),
                                       [](const LrPoint& a, const LrPoint& b) { return a.smoothed < b.smoothed; });
  double best = 0;
  auto at = points.begin();
  for (auto p = points.begin(); p != lowest; ++p) {
    const double slope = ((p + 1)->smoothed - p->smoothed) / std::log((p + 1)->lr / p->lr);
    if (slope >= best) continue;
    best = slope;
    at = p;
  }
  return (at - std::min(lag, at - points.begin()))->lr;
}

}  // namespace

LrSearch find_lr(std::shared_ptr<const Task> task, Backend& backend, const TrainerOptions& options,
                 const LrSearchOptions& search, const std::function<void(const LrPoint&)>& report) {
  check(search);
  const std::int64_t n = task->n_batches(Split::train);
  if (n < 1) throw Error(ErrorKind::usage, "find_lr", "the training set has no complete batch");
  TrainerOptions one = options;
  one.accumulate = 1;
  DeviceModel model(task, backend, one);
  model.prepare(task->batch(Split::train, one.seed, 0, 0));
  LrSearch result;
  double mean = 0, best = HUGE_VAL;
  for (std::int64_t i = 0; i < search.updates; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(search.updates - 1);
    const double lr = search.from * std::pow(search.to / search.from, share);
    model.update(task->batch(Split::train, one.seed, i / n, i % n), {lr, i + 1});
    const double loss = loss_since(model);
    if (!std::isfinite(loss)) break;
    mean = k_smoothing * mean + (1 - k_smoothing) * loss;
    const double smoothed = mean / (1 - std::pow(k_smoothing, static_cast<double>(i + 1)));
    best = std::min(best, smoothed);
    if (i > 0 && smoothed > k_diverged * best) break;
    result.points.push_back({lr, loss, smoothed});
    if (report) report(result.points.back());
  }
  if (result.points.size() < 2)
    throw Error(ErrorKind::numeric, "find_lr", "the loss is not finite in the first updates",
                "Start from a lower rate, or check the data");
  result.suggested = steepest(result.points);
  return result;
}

}  // namespace unroll
