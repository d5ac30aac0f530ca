// SPDX-License-Identifier: Apache-2.0
// What a model does, as panels: forecasts over a series, a confusion matrix, attention maps, probabilities.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "frontends/cli/report/panel.h"
#include "unroll/tasks/examples.h"
#include "unroll/tasks/predict_tables.h"

namespace unroll::cli {

// The whole example; and its last windows, closer, with the baselines.
std::vector<Panel> forecast_panels(const ForecastExample& example);
// For each series the end of it and what the model predicts to follow; of many series the first ones.
std::vector<Panel> end_panels(const SeriesEnd& end, const std::vector<double>& predicted);
// The labels with most examples where there are too many to draw; the note says so.
Panel confusion_panel(const Confusion& confusion, const std::string& title);
Panel attention_panel(WrittenAttention attention, const std::string& title);  // each target token with its p_gen
// The words of a text, shaded by their weights; a bar before each sentence has the weight of it.
Panel attention_panel(const TextAttention& attention, const std::string& title);
// Bars; the most probable labels come first.
Panel probability_panel(const std::string& title, const std::vector<ScoredLabel>& labels);

inline constexpr std::size_t k_most_series = 8;  // that are drawn

// All pictures of the examples.
std::vector<Panel> panels_of(const Examples& examples);
// Pictures, and what is better read than drawn: predictions right and wrong, translations, a sample of text.
std::string examples_html(const Examples& examples);

}  // namespace unroll::cli
