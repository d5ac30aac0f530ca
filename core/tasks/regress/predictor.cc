// SPDX-License-Identifier: Apache-2.0
// Regression predictions for rows of numbers, read as sequences.
#include "core/support/text/short_number.h"
#include "core/tasks/table/row_predictor.h"

namespace unroll {

namespace {

constexpr std::string_view k_regressor = "Regressor";

}  // namespace

struct Regressor::State {
  State(const Metadata& metadata, const TensorMap& parameters, BackendHandle backend)
      : targets(get_targets(metadata)), mean(get_numbers(metadata, "target_mean", targets.size())),
        deviation(get_numbers(metadata, "target_deviation", targets.size())),
        rows(metadata, parameters, backend, k_regressor, std::ssize(targets),
             [](Value standardized) { return standardized; }) {}
  std::vector<std::string> targets;
  std::vector<double> mean, deviation;  // by target
  RowPredictor rows;
};

Regressor::Regressor(const Metadata& metadata, const TensorMap& parameters, BackendHandle backend) {
  require_task(metadata, "regress", k_regressor);
  state_ = hidden_state<State>(metadata, parameters, backend);
}

const std::vector<std::string>& Regressor::targets() const { return state_->targets; }

std::vector<std::vector<double>> Regressor::predict(std::span<const Row> rows) {
  const State& s = *state_;
  std::vector<std::vector<double>> results(rows.size());
  state_->rows.predict(rows, [&](std::size_t row, std::span<const float> standardized) {
    for (std::size_t k = 0; k < standardized.size(); ++k)
      results[row].push_back(scaled_f32(standardized[k], s.deviation[k], s.mean[k]));
  });
  return results;
}

namespace {

// Returns an array [K] for each row.
std::vector<Prediction> regress_inputs(Regressor& regressor, std::span<const PredictInput> inputs,
                                       const PredictOptions&) {
  std::vector<Prediction> list;
  for (const std::vector<double>& values : regressor.predict(rows_in(inputs)))
    list.emplace_back(Tensor::from<double>({std::ssize(values)}, values));
  return list;
}

}  // namespace

const PredictionRow regress_prediction_row{"rows of numbers -> arrays of the targets in the units of the data",
                                           PredictorWith<Regressor, InputForm::numbers, regress_inputs>::make};

}  // namespace unroll
