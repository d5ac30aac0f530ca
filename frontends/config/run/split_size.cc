// SPDX-License-Identifier: Apache-2.0
#include "frontends/config/run/split_size.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "core/support/text/counted.h"
#include "core/tasks/common/split_records.h"
#include "frontends/config/run/job.h"

namespace unroll::cli {
namespace {

constexpr std::int64_t k_few = 50;  // a standard error of up to 7 percentage points of an accuracy
// An accuracy p of n independent examples has the standard error sqrt(p (1 - p) / n).
constexpr double k_accuracy_spread = 0.5;

std::string name_of(Split split) {
  return split == Split::train ? "training" : split == Split::validation ? "validation" : "test";
}

// True if a column of the data assigns rows to splits.
bool is_marked(const Config& config) { return config.reads("data.split") && !config.text("data.split").empty(); }

// Returns the standard deviation of |e| divided by its mean, for a normally distributed e.
double absolute_error_spread() { return std::sqrt(std::numbers::pi / 2 - 1); }

}  // namespace

std::string small_split_note(const Task& task, Split split) {
  const auto* examples = dynamic_cast<const SplitExamples*>(&task);
  const std::int64_t n = examples ? examples->n_examples(split) : 0;
  if (n == 0 || n >= k_few) return {};
  const bool numbers = examples->have_numbers();
  const double error =
      100 * (numbers ? absolute_error_spread() : k_accuracy_spread) / std::sqrt(static_cast<double>(n));
  return fmt::format("note: the {} set has only {}: its figures are noisy (standard error of {} {:.0f} {})",
                     name_of(split), counted(n, examples->are_windows() ? "window" : "example"),
                     numbers ? "the mean absolute error: about" : "an accuracy: up to", error,
                     numbers ? "%" : "points");
}

EmptySplit empty_split(const Task& task, const Config& config, Split split) {
  if (task.n_batches(split) > 0) return {};
  const std::string name = name_of(split);
  const std::string key = split == Split::train ? "" : "data." + name;
  EmptySplit empty{fmt::format("the {} set is empty", name), ""};
  if (const auto* sizes = dynamic_cast<const SplitSizes*>(&task)) {
    const auto size = [&](Split of) { return sizes->split_size(of); };
    const std::int64_t all = size(Split::train) + size(Split::validation) + size(Split::test);
    empty.what += fmt::format(": it has {} of {} (training {}, validation {}, test {})", size(split),
                              counted(all, sizes->split_unit()), size(Split::train), size(Split::validation),
                              size(Split::test));
    if (!key.empty()) empty.what += fmt::format(", {} = {}", key, toml_text(config.value(key)));
    const std::string needs = sizes->split_needs(split);
    if (size(split) > 0 && !needs.empty()) empty.what += fmt::format("; a window needs {}", needs);
  }
  empty.next = key.empty()            ? "Lower data.validation, data.test or train.batch, or give more data"
               : is_marked(config)    ? fmt::format("Mark rows with the word {} in the column of data.split", name)
               : config.reads("data.horizon")
                   ? fmt::format("Set {} to a larger share or to a file, or lower data.horizon", key)
                   : fmt::format("Set {} to a larger share or to a file", key);
  return empty;
}

std::vector<std::string> data_warnings(const Task& task, const Config& config) {
  std::vector<std::string> warnings;
  for (const std::string& warning : task.warnings()) warnings.push_back(without_folder(warning));
  for (const Split split : {Split::validation, Split::test})
    if (const EmptySplit empty = empty_split(task, config, split); !empty.none())
      warnings.push_back(empty.sentence());
  if (task.n_batches(Split::validation) > 0) return warnings;
  std::string without;
  const auto add = [&](const std::string& setting) { without += (without.empty() ? "" : " and ") + setting; };
  if (config.integer("train.patience") > 0) add(fmt::format("train.patience = {}", config.integer("train.patience")));
  if (config.text("train.schedule") == "plateau") add("train.schedule = \"plateau\"");
  if (!without.empty()) warnings.push_back(fmt::format("{} does nothing without a validation set", without));
  return warnings;
}

}  // namespace unroll::cli
