// SPDX-License-Identifier: Apache-2.0
// Recognizes symptoms in the reports of a run and suggests remedies. docs/training.md has the same table; a test
// compares them.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unroll/train/trainer.h"

namespace unroll {

struct Symptom {
  std::string_view name;      // "overfitting"
  std::string_view seen;      // how it is recognized
  std::string_view remedies;  // config keys in backticks
};
// Those that only a comparison with baselines shows (baseline_advice.h).
inline constexpr Symptom k_no_learning{
    "no learning", "the model is no better than a constant prediction (`most_frequent`, `frequency`, `mean`)",
    "`unroll train CONFIG --find-lr`, a longer run, a larger `model.hidden`, `unroll data check CONFIG` for wrong "
    "labels"};
inline constexpr Symptom k_worse_than_baseline{
    "worse than a baseline", "a baseline has the better metric on the same split",
    "a longer run, `unroll train CONFIG --find-lr`, a larger `model.hidden`, more data, or use the baseline"};
// All of them.
std::span<const Symptom> symptoms();

// Looks at the reports of a run, in order, and names each symptom once. For a resumed run it first reads the
// reports in metrics.jsonl. No checkpoint holds earlier advice, because some of it depends on time.
class Advisor {
 public:
  // from_start: the reports are those of a run from its first update on.
  explicit Advisor(bool from_start) { seen_.from_start = from_start; }
  std::vector<Advice> look(const Progress& progress);

  // A validation: its loss, and the mean training loss since the one before.
  struct Validated {
    double training, validation;
  };
  struct Seen {
    std::vector<double> gradient_norms;  // of reports
    std::vector<double> data_waits;
    double waited = 0;        // seconds
    std::int64_t update = 0;  // of the last report
    std::vector<Validated> validations;
    double first_loss = 0, last_loss = 0;
    bool infinite_metric = false;
    bool from_start = false;
    const TrainingStatistics* statistics = nullptr;
    std::int64_t skipped = 0;
  };

 private:
  void remember(const Progress& progress);
  Seen seen_;
  double loss_sum_ = 0;  // since the last validation
  std::int64_t n_losses_ = 0;
  std::set<std::string_view> said_;
};

}  // namespace unroll
