// SPDX-License-Identifier: Apache-2.0
// Warnings about updates that are not finite, and about options without the effect that their user may expect.
#include <cmath>

#include "core/support/text/counted.h"
#include "core/support/text/exact_text.h"
#include "core/train/loop/trainer_state.h"

namespace unroll {

namespace {

constexpr double k_largest_f16 = 65504;
constexpr const char* k_beyond_f16 = ", beyond 65504, the largest number of f16";

std::string in_text(double value) { return short_text(value, 6); }

// "input 'x' has 70000", or nothing.
std::string input_beyond_f16(std::span<const Batch> batches) {
  for (const Batch& batch : batches)
    for (const auto& [name, tensor] : batch.inputs)
      for (std::int64_t i = 0; is_float(tensor.dtype()) && i < tensor.elements(); ++i)
        if (const double value = tensor.at(i); std::isfinite(value) && std::fabs(value) > k_largest_f16)
          return "input '" + name + "' has " + in_text(value) + k_beyond_f16;
  return {};
}

}  // namespace

std::string Trainer::State::first_nonfinite(std::int64_t update, std::span<const Batch> batches) {
  std::string found;
  if (options.precision == Precision::f16) found = input_beyond_f16(batches);
  if (found.empty()) found = model.first_nonfinite(batches, update, ranks ? micro_batches_in(update) : 0);
  if (ranks) found = first_text(*ranks, found);
  return found.empty() ? "the gradients are finite, but their squares are too large for f32" : found;
}

std::string Trainer::State::remedy_of(const std::string& found) const {
  if (found.ends_with(k_beyond_f16))
    return "Scale the inputs (data.normalize = true, or data.divide), or set train.precision = bf16, which has the "
           "range of f32";
  const std::string f16 =
      options.precision == Precision::f16 ? "; f16 ends at 65504, and train.precision = bf16 has the range of f32" : "";
  return "If it is an input, clean the data; otherwise divide lr by 10 (it is " + in_text(lr_of(run.update)) + "), " +
         (options.clip.norm > 0 ? "lower" : "set") + " train.clip_norm, or shorten the sequences" + f16;
}

void Trainer::State::warn_of_schedule() const {
  const std::int64_t n = options.max_updates;
  const ScheduleOptions& s = options.schedule;
  const AverageOptions& a = options.average;
  struct Row {
    const char* key;
    std::int64_t value;
    bool is_without_effect;
    std::string then;
  };
  const Row rows[] = {
      {"train.warmup", s.warmup, s.warmup >= n,
       "the learning rate rises to " + in_text(lr_of(n)) + " in its last update"},
      {"train.cooldown", s.cooldown, s.cooldown > n, "the learning rate begins at " + in_text(lr_of(1))},
      {"train.step_every", s.step_every, s.name == "step" && s.step_every >= n, "the learning rate does not change"},
      {"train.average_start", a.start, a.kind != Average::none && a.start >= n, "nothing is averaged"},
  };
  for (const Row& row : rows)
    if (row.is_without_effect)
      warn(std::string(row.key) + " = " + std::to_string(row.value) + " does not fit a run of " + counted(n, "update") +
           ": " + row.then);
}

void Trainer::State::warn_of_new_rate() const {
  if (!run.lr || run.update == 0 || lr_of(run.update) == *run.lr) return;
  warn("the learning rate was " + in_text(*run.lr) + " in update " + std::to_string(run.update) + " and is " +
       in_text(lr_of(run.update + 1)) + " in the next one, because the schedule, its length or train.lr has changed. " +
       "To continue at the old rate, set train.schedule = constant, train.warmup = 0 and train.lr = " +
       in_text(*run.lr));
}

}  // namespace unroll
