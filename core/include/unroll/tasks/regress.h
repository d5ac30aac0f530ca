// SPDX-License-Identifier: Apache-2.0
// Regression on sequences.
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

// Network: x [T,B,I] as in the data, without missing values -> values [B,K] in the units of the K targets. Stream: x
// [T,B,I] -> values [T,B,K] after each step.
//
// Metadata: the table keys of classify, and `targets`, `target_mean` and `target_deviation`, lists by target.

// Predicts one or several numbers for each row of a table, which is read as a sequence. The loss is the mean squared
// error of the standardized targets. Metrics: mae, rmse and r2. mae and rmse are over all targets in the units of the
// data; evaluations also report several targets separately as "mae.NAME". r2 is 1 - squared error / squared error of
// the training mean, averaged over the targets. Baseline: mean, the mean of the training set.
struct RegressOptions : TableRowsOptions {
  std::vector<std::string> targets = {};  // a missing target is an error
};
template <>
inline constexpr auto k_options<RegressOptions> = std::array{
    option<&RegressOptions::targets>(
        {"data.targets", any_value, "target columns by name or number; empty: the last column"}),
};
UNROLL_API std::shared_ptr<const Task> make_regress(const RegressOptions& options, DataSource data,
                                                    const std::string& name, const Metadata& fitted = {});
UNROLL_API DataCheck check_data(const RegressOptions& options, DataSource data, const std::string& name);

// Predicts numbers for rows with a `regress` model.
class UNROLL_API Regressor {
 public:
  Regressor(const Metadata& metadata, const TensorMap& parameters, BackendHandle backend);

  const std::vector<std::string>& targets() const;  // K column names
  using Row = std::vector<double>;  // as for Classifier
  // Returns the K targets of each row, in the units of the data. Throws Error(usage) on a wrong number of values and on
  // infinite ones.
  std::vector<std::vector<double>> predict(std::span<const Row> rows);

 private:
  struct State;
  HiddenState<State> state_;
};

}  // namespace unroll
