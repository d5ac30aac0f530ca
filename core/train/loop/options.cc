// SPDX-License-Identifier: Apache-2.0
#include "core/train/loop/options.h"

#include <cmath>
#include <string>

#include "core/train/update/clip.h"
#include "core/train/update/schedule.h"
#include "unroll/error.h"

namespace unroll {

void check_options(const TrainerOptions& o) {
  const auto require = [](bool ok, const std::string& rule) {
    if (!ok) throw Error(ErrorKind::usage, "trainer", rule);
  };
  check_schedule(o.schedule);
  check_clip(o.clip);
  require(o.average.decay >= 0 && o.average.decay < 1,
          "average.decay must be in [0,1); got " + std::to_string(o.average.decay));
  require(o.average.start >= 0, "average.start must not be negative; got " + std::to_string(o.average.start));
  require(
      std::exp2(std::round(std::log2(o.loss_scale.initial))) == o.loss_scale.initial &&
          std::exp2(std::round(std::log2(o.loss_scale.lowest))) == o.loss_scale.lowest &&
          o.loss_scale.lowest <= o.loss_scale.initial && o.loss_scale.initial <= 16777216,
      "loss_scale.initial and loss_scale.lowest must be powers of two, at most 2^24, the lowest not above the initial");
  require(o.loss_scale.growth_every >= 1, "loss_scale.growth_every must be positive");
  require(o.chunk_steps >= 0, "chunk_steps must not be negative; got " + std::to_string(o.chunk_steps));
  require(o.accumulate >= 1, "accumulate must be positive; got " + std::to_string(o.accumulate));
  require(o.accumulate <= INT32_MAX / std::max<std::int64_t>(o.max_updates, 1),
          "accumulate * max_updates must be below 2^31");
  require(o.max_updates >= 0 && o.max_updates < INT32_MAX,
          "max_updates must be in [0, 2^31 - 1); got " + std::to_string(o.max_updates));
  require(o.epochs >= 0 && o.stop_at >= 0, "epochs and stop_at must not be negative");
  require(o.validate_every >= 0 && o.checkpoint_every >= 0 && o.log_every >= 0 && o.watch_every >= 0,
          "validate_every, checkpoint_every, log_every and watch_every must not be negative (0 is never)");
  require(o.estimate_seconds >= 0 && std::isfinite(o.estimate_seconds), "estimate_seconds must not be negative");
  require(o.keep >= 0, "keep must not be negative");
  require(o.max_minutes >= 0 && std::isfinite(o.max_minutes), "max_minutes must not be negative (0 is no limit)");
  require(o.validation_batches >= 0 && o.patience >= 0 && o.max_bad_updates >= 0 && o.max_rollbacks >= 0,
          "validation_batches, patience, max_bad_updates and max_rollbacks must not be negative");
  require(o.prefetch >= 0 && o.prefetch <= 1024, "prefetch must be in [0, 1024]; got " + std::to_string(o.prefetch));
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
