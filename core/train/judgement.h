// SPDX-License-Identifier: Apache-2.0
// A model beside baselines: the symptoms that only such a comparison shows.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "core/train/advice.h"
#include "unroll/export.h"

namespace unroll {

inline constexpr Symptom k_no_learning{
    "no learning", "the model is no better than a constant prediction (`most_frequent`, `frequency`)",
    "`unroll train CONFIG --find-lr`, a longer run, a larger `model.hidden`, `unroll data check CONFIG` for wrong "
    "labels"};
inline constexpr Symptom k_worse_than_baseline{
    "worse than a baseline", "a baseline has the better metric on the same split",
    "a longer run, `unroll train CONFIG --find-lr`, a larger `model.hidden`, more data, or use the baseline"};

// Compares the first metric of a table (mase, mae, bleu, accuracy, perplexity, ...) that the model and a baseline have.
// Both must be taken on the same split. Nothing when the model is better than all baselines, or has no such metric.
UNROLL_API std::optional<Advice> compare_with_baselines(
    const std::map<std::string, double>& metrics,
    const std::map<std::string, std::map<std::string, double>>& baselines);

}  // namespace unroll
