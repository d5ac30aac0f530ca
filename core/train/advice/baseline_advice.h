// SPDX-License-Identifier: Apache-2.0
// A model beside baselines: the symptoms that only such a comparison shows.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/train/advice/advice.h"
#include "unroll/support/export.h"

namespace unroll {

// Compares the first metric of a table (mase, mae, bleu, accuracy, perplexity, ...) that the model and a baseline have.
// Both must be taken on the same split. Nothing when the model is better than all baselines, or has no such metric.
// `remedy` is the first that the advice names: "a longer `data.window`".
UNROLL_API std::optional<Advice> compare_with_baselines(
    const std::map<std::string, double>& metrics,
    const std::map<std::string, std::map<std::string, double>>& baselines, std::string_view remedy = {});

}  // namespace unroll
