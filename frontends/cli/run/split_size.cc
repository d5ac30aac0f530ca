// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/run/split_size.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "core/support/text/counted.h"
#include "frontends/tasks/common/split_records.h"

namespace unroll::cli {
namespace {

constexpr std::int64_t k_few = 50;  // a standard error of up to 7 percentage points of an accuracy
// An accuracy p of n independent examples has the standard error sqrt(p (1 - p) / n).
constexpr double k_accuracy_spread = 0.5;

// The standard deviation of |e| over its mean, of a normally distributed e.
double absolute_error_spread() { return std::sqrt(std::numbers::pi / 2 - 1); }

}  // namespace

std::string small_split_note(const Task& task, Split split) {
  const auto* examples = dynamic_cast<const SplitExamples*>(&task);
  const std::int64_t n = examples ? examples->n_examples(split) : 0;
  if (n == 0 || n >= k_few) return {};
  const bool series = examples->are_windows();
  const double error = 100 * (series ? absolute_error_spread() : k_accuracy_spread) / std::sqrt(static_cast<double>(n));
  const char* name = split == Split::train ? "training" : split == Split::validation ? "validation" : "test";
  return fmt::format("note: the {} set has only {}: its figures are noisy (standard error of {} {:.0f} {})", name,
                     counted(n, series ? "window" : "example"),
                     series ? "the mean absolute error: about" : "an accuracy: up to", error,
                     series ? "%" : "points");
}

}  // namespace unroll::cli
