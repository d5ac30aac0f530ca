// SPDX-License-Identifier: Apache-2.0
// Forecasts of a table from Python: trained, and continued behind the last row of each series.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <vector>

#include "frontends/python/binding/training.h"

namespace unroll::python {

// Trains by the config of the request and forecasts one horizon of each id in data.path. Returns columns in a dict:
//   id, date       names of the columns; "" where the table has none
//   ids, dates     [rows] texts; dates are 1, 2, ... without a date column
//   series         [S] names of the columns that are forecast
//   values         [rows, S * (1 + 2 * levels)] f64: for each series its forecast, and for each level the lower and
//                  the upper bound; NaN if the validation set has too few windows for the level
//   notes          what was found and decided
// `levels` are shares between 0 and 1.
nanobind::dict forecast(const TrainRequest& request, const std::vector<double>& levels);

// Trains by the config of the request and forecasts its test set in `folds` parts, as unroll::backtest. Returns columns
// in a dict, with a row for each value of each forecast:
//   series, origin, at  texts
//   methods             names: the model's, "unroll", and those of the baselines
//   value               f64, NaN where missing
//   forecasts           [rows, methods] f64
//   bounds              [rows, 2 levels] f64: low and high of each level
//   is_dated            whether origin and at are dates
nanobind::dict backtest(const TrainRequest& request, std::int64_t folds, bool refit,
                        const std::vector<double>& levels);

}  // namespace unroll::python
