// SPDX-License-Identifier: Apache-2.0
// Compares a run in a reduced precision with the same run in f32.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/train/device/options.h"
#include "unroll/support/error.h"
#include "unroll/train/trainer.h"

namespace unroll {

namespace {

constexpr double k_smoothing = 0.9;  // share of the mean so far that an update keeps

struct Curve {
  std::vector<double> smoothed;  // by update; a skipped one repeats the value before it
  std::int64_t skipped = 0;
  std::string failure;
};

Curve curve_of(const std::shared_ptr<const Task>& task, Backend& backend, TrainerOptions options,
               std::int64_t updates) {
  options = updates_alone(std::move(options));
  options.log_every = 1;
  if (options.epochs == 0) options.max_updates = std::max(options.max_updates, updates);
  options.stop_at = updates;
  options.warn = [](const std::string&) {};  // skipped updates are counted
  Curve curve;
  double mean = 0, weight = 0;
  try {
    curve.skipped = Trainer(task, backend, options).fit([&](const Progress& p) {
      if (std::isfinite(p.loss)) {
        mean = k_smoothing * mean + (1 - k_smoothing) * p.loss;
        weight = k_smoothing * weight + (1 - k_smoothing);
      }
      curve.smoothed.push_back(weight > 0 ? mean / weight : std::numeric_limits<double>::quiet_NaN());
    }).skipped_updates;
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::numeric) throw;
    curve.failure = e.what();
  }
  return curve;
}

}  // namespace

PrecisionCheck check_precision(const std::shared_ptr<const Task>& task, Backend& backend, const TrainerOptions& options,
                               std::int64_t updates, double tolerance) {
  if (options.precision == Precision::f32)
    throw Error(ErrorKind::usage, "check_precision", "the precision is f32, which is the reference of this check",
                "Set precision to tf32, bf16 or f16");
  if (updates < 1 || !(tolerance > 0))
    throw Error(ErrorKind::usage, "check_precision", "updates must be at least 1 and the tolerance above 0");
  TrainerOptions full = options;
  full.precision = Precision::f32;
  const Curve own = curve_of(task, backend, options, updates), f32 = curve_of(task, backend, full, updates);
  if (!f32.failure.empty())
    throw Error(ErrorKind::numeric, "check_precision", "the f32 run failed: " + f32.failure);
  PrecisionCheck check;
  check.skipped_updates = own.skipped;
  check.failure = own.failure;
  for (std::size_t i = 0; i < f32.smoothed.size(); ++i) {
    const auto update = static_cast<std::int64_t>(i) + 1;
    const double of_own = i < own.smoothed.size() ? own.smoothed[i] : std::numeric_limits<double>::quiet_NaN();
    check.points.push_back({update, f32.smoothed[i], of_own});
    const double difference = std::fabs(of_own - f32.smoothed[i]) / std::fabs(f32.smoothed[i]);
    if (!(difference > check.largest)) continue;
    check.largest = difference;
    check.largest_at = update;
  }
  check.agrees = check.failure.empty() && check.largest <= tolerance;
  return check;
}

}  // namespace unroll
