// SPDX-License-Identifier: Apache-2.0
// Results of a model as panels: forecasts over a series, a confusion matrix, attention maps, probabilities.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "frontends/cli/report/panel.h"
#include "unroll/tasks/examples.h"
#include "unroll/tasks/predict_tables.h"

namespace unroll::cli {

// The complete example; and its last windows, enlarged, with the baselines.
std::vector<Panel> forecast_panels(const ForecastExample& example);
// Bounds of a forecast: [steps, S], NaN where there are none.
struct ForecastBounds {
  std::string name;  // "80 %"
  std::vector<double> low, high;
};
// For each series its end and the predicted continuation with its bounds; only the first ones of many series.
std::vector<Panel> end_panels(const std::vector<std::string>& columns, const SeriesEnd& end,
                              const std::vector<double>& predicted, const std::vector<ForecastBounds>& bounds);
// If there are too many labels to draw, the most frequent ones; the note says so.
Panel confusion_panel(const Confusion& confusion, const std::string& title);
Panel attention_panel(WrittenAttention attention, const std::string& title);  // each target token with its p_gen
// The words of a text, shaded by their weights; a bar before each sentence has the sentence's weight.
Panel attention_panel(const TextAttention& attention, const std::string& title);
// Bars; the most probable labels come first.
Panel probability_panel(const std::string& title, const std::vector<ScoredLabel>& labels);

inline constexpr std::size_t k_most_series = 8;  // maximum number of drawn series

// All pictures of the examples.
std::vector<Panel> panels_of(const Examples& examples);
// Pictures, and examples as text: correct and wrong predictions, translations, a generated sample.
std::string examples_html(const Examples& examples);

}  // namespace unroll::cli
