// SPDX-License-Identifier: Apache-2.0
// Classification of sequences.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unroll/support/hidden_state.h"
#include "unroll/tasks/shared.h"

namespace unroll {

// Network: x [T,B,I] as in the data, without missing values -> probabilities [B,K]. Stream: x [T,B,I] -> logits [T,B,K]
// after each step.
//
// Metadata (lists have one entry per line; a newline in an entry is \n, a backslash \\):
//   columns, label      list of feature columns in order; label column. Names, or numbers without a header
//   labels              list, by class number
//   header, separator, file_columns   "1" or "0"; a character; a number. data.header, data.separator: the settings;
//                       data.decimal, data.thousands: the marks in the numbers of the training file
//   steps, width        of a row: steps * width features
//   missing, missing_values   see TableRowsOptions; a list
//   divide, normalize   a number; "1" or "0"
//   mean, deviation     lists of numbers by feature: standardization, and the fill values for missing numbers; only if
//                       one of the two needs them

// Classifies each row of a table as a sequence: its feature columns, in `steps` steps of equal width. The label is a
// text or a number. Classes are numbered in sorted order: numbers by value, texts by bytes. Metrics: accuracy,
// f1_micro, f1_macro. Baselines: most_frequent and logistic_regression. Rows are assigned to the splits by split_seed.
struct ClassifyOptions : TableRowsOptions {
  std::string label = {};  // a missing label is an error
  double label_smoothing = 0;
};
template <>
inline constexpr auto k_options<ClassifyOptions> = std::array{
    option<&ClassifyOptions::label>(keys::label),
    option<&ClassifyOptions::label_smoothing>(keys::label_smoothing),
};
UNROLL_API std::shared_ptr<const Task> make_classify(const ClassifyOptions& options, DataSource data,
                                                     const std::string& name, const Metadata& fitted = {});
UNROLL_API DataCheck check_data(const ClassifyOptions& options, DataSource data, const std::string& name);

// Predicts classes of sequences with a `classify` model. Bidirectional models and every pooling are supported.
class UNROLL_API Classifier {
 public:
  Classifier(const Metadata& metadata, const TensorMap& parameters, BackendHandle backend);

  const std::vector<std::string>& labels() const;
  std::int64_t steps() const;  // T
  std::int64_t width() const;  // I, values per step
  // T * I values as in the data, step by step. NaN is a missing value, which is filled as in training; a model trained
  // with missing = "error" refuses it.
  using Row = std::vector<double>;
  // Returns at most `top_k` labels per row, the most probable first; 0: all. Throws Error(usage) on a wrong number of
  // values and on infinite ones.
  std::vector<std::vector<ScoredLabel>> predict(std::span<const Row> rows, std::int64_t top_k = 1);

 private:
  struct State;
  HiddenState<State> state_;
};

}  // namespace unroll
