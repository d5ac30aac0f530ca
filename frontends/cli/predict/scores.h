// SPDX-License-Identifier: Apache-2.0
// Scores of a model on a split, compared with baselines and by class.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "frontends/cli/terminal/report.h"
#include "unroll/support/tensor.h"

namespace unroll::cli {

std::string words_of(std::string name);  // "exact match" for exact_match
using Metrics = std::map<std::string, double>;  // of one method; "mae.promo": of one series

// For programs: `metrics` and, if there are any, `baselines`.
void add_metrics(Report& report, const Metrics& model, const std::map<std::string, Metrics>& baselines);
// For people: methods as columns, the model first, and metrics as rows. With several series: a table for each metric,
// with series as rows.
void add_metric_tables(Report& report, const Metrics& model, const std::map<std::string, Metrics>& baselines);

// `confusion` [K,K] counts labels by predictions. For people: precision, recall, F1 and support of the largest classes,
// and their confusion matrix. For programs: `classes` and `confusion`, the non-zero counts.
void add_class_tables(Report& report, const Tensor& confusion, const std::vector<std::string>& names, bool as_json);

}  // namespace unroll::cli
