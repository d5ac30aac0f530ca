// SPDX-License-Identifier: Apache-2.0
#include "core/train/update/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string_view>
#include <utility>

namespace unroll {

namespace {

struct Position {
  std::int64_t update;  // from 0, after the warm-up
  std::int64_t span;    // updates between warm-up and cool-down
  std::int64_t plateaus;
  double done() const { return std::min(static_cast<double>(update) / static_cast<double>(span), 1.0); }
};
double falling_cosine(double done) { return 0.5 * (1 + std::cos(std::numbers::pi * done)); }
double between(double from, double to, double share_of_from) { return to + (from - to) * share_of_from; }

using ShapeOfSchedule = double (*)(const ScheduleOptions&, const Position&);
double constant_shape(const ScheduleOptions&, const Position&) { return 1; }
double linear_shape(const ScheduleOptions& s, const Position& p) { return between(1, s.final_fraction, 1 - p.done()); }
double cosine_shape(const ScheduleOptions& s, const Position& p) {
  return between(1, s.final_fraction, falling_cosine(p.done()));
}
double step_shape(const ScheduleOptions& s, const Position& p) {
  return std::pow(s.factor, static_cast<double>(p.update / s.step_every));
}
double plateau_shape(const ScheduleOptions& s, const Position& p) {
  return std::pow(s.factor, static_cast<double>(p.plateaus));
}
// As torch.optim.lr_scheduler.OneCycleLR with pct_start 0.3, div_factor 25, final_div_factor 1 / (25 final_fraction):
// the last update has the final rate. If 30 % of the updates are less than one, the first is part of the fall. A single
// update of a cycle that ends at 0 has the highest rate instead.
double one_cycle_shape(const ScheduleOptions& s, const Position& p) {
  if (p.span == 1 && p.update == 0 && s.final_fraction == 0) return 1;
  constexpr double first = 1.0 / 25;
  const auto update = static_cast<double>(p.update), last = static_cast<double>(p.span - 1);
  const double top = 0.3 * static_cast<double>(p.span) - 1;
  if (update <= top) return between(first, 1, falling_cosine(update / top));
  return between(1, s.final_fraction, falling_cosine(std::min((update - top) / (last - top), 1.0)));
}

constexpr std::array<std::pair<std::string_view, ShapeOfSchedule>, 6> k_shapes{{{"constant", constant_shape},
                                                                      {"linear", linear_shape},
                                                                      {"cosine", cosine_shape},
                                                                      {"step", step_shape},
                                                                      {"plateau", plateau_shape},
                                                                      {"one-cycle", one_cycle_shape}}};

ShapeOfSchedule find_shape(std::string_view name) {
  for (const auto& [known, shape] : k_shapes)
    if (known == name) return shape;
  return nullptr;
}

}  // namespace

double scheduled_lr(const ScheduleOptions& s, double lr, std::int64_t update, std::int64_t max_updates,
                    std::int64_t plateaus) {
  const auto before_cooldown = [&] {
    if (update <= s.warmup) return lr * static_cast<double>(update) / static_cast<double>(s.warmup);
    const auto span = std::max<std::int64_t>(max_updates - s.warmup - s.cooldown, 1);
    const Position at{update - 1 - s.warmup, span, plateaus};
    return std::max(lr * find_shape(s.name)(s, at), std::min(s.min_lr, lr));
  };
  const double shaped = before_cooldown();
  const std::int64_t left = max_updates + 1 - update;
  if (s.cooldown == 0 || left > s.cooldown) return shaped;
  return shaped * between(1, s.final_fraction, static_cast<double>(left) / static_cast<double>(s.cooldown + 1));
}

void after_validation(const ScheduleOptions& s, bool better, PlateauState& state) {
  state.waited = better ? 0 : state.waited + 1;
  if (s.name != "plateau" || state.waited < s.plateau_patience) return;
  state.waited = 0;
  ++state.plateaus;
}

}  // namespace unroll
