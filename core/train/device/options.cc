// SPDX-License-Identifier: Apache-2.0
#include "core/train/device/options.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "unroll/support/error.h"

namespace unroll {

void check_training(const TrainerOptions& o) {
  constexpr std::string_view k_where = "trainer";
  check_options(o, k_where);
  check_options(o.optimizer, k_where);
  check_options(o.schedule, k_where);
  check_options(o.clip, k_where);
  check_options(o.average, k_where);
  check_options(o.loss_scale, k_where);
  const auto require = [&](bool ok, const std::string& rule) {
    if (!ok) throw Error(ErrorKind::usage, std::string(k_where), rule);
  };
  require(
      std::exp2(std::round(std::log2(o.loss_scale.initial))) == o.loss_scale.initial &&
          std::exp2(std::round(std::log2(o.loss_scale.lowest))) == o.loss_scale.lowest &&
          o.loss_scale.lowest <= o.loss_scale.initial,
      "loss_scale.initial and loss_scale.lowest must be powers of two, the lowest not above the initial");
  require(o.accumulate <= INT32_MAX / std::max<std::int64_t>(o.max_updates, 1),
          "accumulate * max_updates must be below 2^31");
  require(o.stop_at >= 0, "stop_at must not be negative");
  require(!(o.resume && o.overwrite), "resume and overwrite exclude each other");
}

TrainerOptions updates_alone(TrainerOptions o) {
  o.folder.clear();
  o.resume = o.overwrite = false;
  o.validate_every = o.checkpoint_every = o.keep = o.watch_every = o.patience = 0;
  o.max_minutes = o.estimate_seconds = 0;
  return o;
}

PlanOptions plan_options(const TrainerOptions& o) {
  return {.precision = o.precision, .memory_limit = o.memory_limit, .chunk_steps = o.chunk_steps};
}

}  // namespace unroll
