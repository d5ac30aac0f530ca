// SPDX-License-Identifier: Apache-2.0
// The records of a split as in the data file, for example predictions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/series/series_rows.h"
#include "unroll/train/trainer.h"

namespace unroll {

class Covariates;
class SeriesBaselines;

// Interface of all data tasks: the unit that data.validation and data.test divide.
class UNROLL_API SplitSizes {
 public:
  virtual ~SplitSizes() = default;
  virtual std::int64_t split_size(Split split) const = 0;
  virtual std::string split_unit() const = 0;  // "row"
  // Returns the minimum for one example of a split, in words; "" if one unit is enough.
  virtual std::string split_needs(Split) const { return {}; }
};

// Interface of tasks whose metrics are means over examples: rows, sentences, documents, pairs, windows.
class UNROLL_API SplitExamples : public SplitSizes {
 public:
  virtual std::int64_t n_examples(Split split) const = 0;
  virtual bool are_windows() const { return false; }  // of a series
  virtual bool have_numbers() const { return false; }  // numeric answers, scored by their absolute error
  // Explains missing metrics of the task; Task::notes() has these lines too.
  virtual std::vector<std::string> metric_notes() const { return {}; }
  std::int64_t split_size(Split split) const override { return n_examples(split); }
  std::string split_unit() const override { return "row"; }
};

// Interface of tasks on rows of text or sentences.
class SplitRecords {
 public:
  virtual ~SplitRecords() = default;
  virtual void for_each_record(Split split, const std::function<void(std::string_view record)>& take) const = 0;
};

// Interface of tasks on rows of features with targets, such as a label.
class SplitTableRows {
 public:
  virtual ~SplitTableRows() = default;
  // Values as in the file, NaN where missing, and the cells of the targets.
  using TakeRow = std::function<void(std::span<const double> values, std::span<const std::string> targets,
                                     std::string_view record)>;
  virtual void for_each_row(Split split, const TakeRow& take) const = 0;
};

// Interface of the task on series.
class SplitSeries {
 public:
  virtual ~SplitSeries() = default;
  virtual const SeriesRows& series(Split split) const = 0;
  virtual const Runs& windows(Split split) const = 0;  // the first target row of each window
  virtual std::int64_t period() const = 0;             // of the season, in rows
  virtual bool interpolates() const = 0;               // true: interpolate missing values within a window
  virtual const Covariates& covariates() const = 0;
  // The units of mase of the series of a row: [S], 0 where there is none.
  virtual std::span<const double> units_at(Split split, std::int64_t row) const = 0;
  // Fits the baselines to the training windows; linear_ar only with `regresses`.
  virtual std::shared_ptr<const SeriesBaselines> fit_baselines(bool regresses) const = 0;
  // The task with another test set: part `fold`, from 0, of `folds` parts of its test windows. With `refit`, training
  // and validation rows end where that part begins.
  virtual std::shared_ptr<const Task> test_fold(std::int64_t fold, std::int64_t folds, bool refit) const = 0;
};

}  // namespace unroll
