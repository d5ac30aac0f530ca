// SPDX-License-Identifier: Apache-2.0
// Forecasting of time series.
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

// Network: x [T,B,S] in the units of the S columns -> forecast [B,H,S] in the same units. A model of differences reads
// the sum of its lags in rows before its window. Stream: x [T,B,S] -> [T,B,H*S]: all columns one step ahead, then two
// steps ahead, ... Training uses windows. The layers of a stream continue without limit; with scale = window they read
// each window anew. Before the first row all earlier rows are equal to it.
//
// Metadata: window, horizon, period, series (number of columns)
//   difference                     the lags: "0" (none), "1", "1,12"
//   non_negative                   "1": forecasts are at least 0
//   distribution                   only with model.distribution: its name
//   scale                          series or window; autoregression: values that the linear part reads, 0: none
//   column, series.1.column, ...   the columns
//   scaler.mean, scaler.deviation, series.1.scaler.mean, ...   standardization; scaler.H of horizon H
//   header, separator, missing, missing_values   as for classify, with the related keys
//   id                             only with an id column: its name
//   covariates                     number of columns; covariate.K.column, covariate.K.known (past, future or static),
//                                  and covariate.K.mean and .deviation, or covariate.K.categories (text index)
//   calendar                       terms of the dates that the model reads
//   date                           the date column, or "none"
//   date_form, date_time, date_step   only with a date column: the date format ("iso", "slashes", "dots", "month",
//                                  "compact", "year", a pattern such as "DD/MM/YYYY", or data.date_format), "1" with a
//                                  time of day, and the step: "1 day", "1 day (Mon Tue Wed Thu Fri)"
//   date_calendar                  only with a date column: days of the week, dates per day and their first time, as
//                                  numbers
//   timezone, date_steps           only with data.timezone: that zone, and "local" if steps lead from one time of its
//                                  clock to another, as days do, or "utc" if clock changes do not interrupt them

// Predicts the next `horizon` values of each column from a window of all columns. A missing value is never a target.
// Rows before the first value of every column are skipped. With a date column, rows must be in order, the oldest or the
// newest first, and a whole number of steps apart. The most frequent distance of neighbors is the step; rows of missing
// dates are missing values.
// Metrics over all columns: mae and rmse in the units of the data, and mase. mase is mae divided by the training error
// of the one-step seasonal naive forecast (Hyndman & Koehler 2006), per column. With several columns each metric is
// also reported per column as "mae.NAME"; across columns with different units only mase is meaningful. Baselines, per
// column: persistence, seasonal_naive, theta (the Theta method, Assimakopoulos & Nikolopoulos 2000), and linear_ar, an
// autoregression of order `window` fitted by least squares to the differences of the model. It reads its own
// predictions beyond the first step, and is left out with an id column.
struct ForecastOptions {
  RecurrentModelOptions model;
  std::string column;
  std::vector<std::string> columns = {};
  std::string date = {};
  std::string date_format = {};  // like strptime; "": the format that fits all dates of the column
  // IANA name of a time zone, such as "Europe/Berlin", or the path of its TZif file: dates without an offset are on its
  // clock, and steps below a day have no missing or repeated hour where it is changed. "": the dates have one clock.
  std::string timezone = {};
  // The column that names the series of a row, for tables with one series below the other (long format). One model is
  // trained on all of them. Each has rows of its own for validation and test, and dates of its own with a common step.
  // Windows do not cross from one to the next. Each window has its own scale, and the loss is mase.
  std::string id = {};
  // Covariates: columns that are read beside the series, but not forecast. The model reads those of past_covariates up
  // to the last known row, and those of future_covariates in the rows that it forecasts too. A static covariate has one
  // value per series. A column with a text, or one that `categories` names, is a category: each of its values has
  // weights of its own. Others are numbers, standardized by the training set. Rows at the end of a table (or of an id)
  // without values of the series are to be forecast; they hold the future covariates.
  std::vector<std::string> past_covariates = {}, future_covariates = {}, static_covariates = {}, categories = {};
  // Terms of the dates as further covariates: minute, hour, weekday, day, month or quarter, as categories, and
  // fourier(PERIOD,PAIRS): sines and cosines of a period in steps.
  std::vector<std::string> calendar = {};
  std::string header = "auto";
  std::string separator = {};
  std::string decimal = "auto";
  std::string thousands = "auto";
  // Replacement of a missing input value or date. "previous": the last value. "interpolate": linear between its
  // neighbors within the window; after the last value of the window, that value. "error": refuse missing values.
  std::string missing = "previous";
  std::vector<std::string> missing_values = default_missing_values();
  std::int64_t window = 0;
  std::int64_t horizon = 0;
  std::int64_t stride = 1;  // validation and test use every window
  std::int64_t period = 0;
  // The model reads and predicts these instead of levels: none (levels), or differences (Box & Jenkins 1970), applied
  // in turn: first (to the previous value), seasonal (to the value a period earlier), or a lag: "first,seasonal",
  // "336". auto tries each with the windows and scales that are open, as linear models: they are fitted to the first
  // 70 % of the rows before the test set and scored on the others.
  std::string difference = "auto";
  // Standardization: by the training set of each series, or then by each window too.
  std::string scale = "auto";
  // yes: a forecast below 0 is raised to 0, and so are bounds of intervals. auto: yes if all values of the series
  // before the test set are counts, whole numbers from 0 on.
  std::string non_negative = "auto";
  // Adds to the network's forecast a linear one of each series from its own window (the autoregressive component of
  // LSTNet, Lai et al. 2018, section 3.6). It starts at the least-squares solution, and the network's part at zero.
  bool autoregression = true;
  // The distribution of each value. It is trained by its likelihood (Salinas et al. 2020, DeepAR), or by the losses of
  // the quantiles at 2.5, 5, 10, 25, 50, 75, 90, 95 and 97.5 % (Wen et al. 2017, MQ-RNN). A forecast is its mean, with
  // quantiles its median. none: the loss is the error of the forecast.
  std::string distribution = "none";
  std::int64_t batch = 32;
  SplitSource validation = 0.1;    // shares of the series, in time order: train, validation, test
  SplitSource test = 0.2;          // a separate file is a separate series with the same columns
  std::size_t memory_limit = 0;
};
template <>
inline constexpr auto k_options<ForecastOptions> = std::array{
    option<&ForecastOptions::date>(
        {"data.date", any_value,
         "date column: its name or number; empty: the first one that begins with a date; none: no dates, rows are "
         "one step apart"}),
    option<&ForecastOptions::date_format>(
        {"data.date_format", any_value,
         "format of the dates, with the directives of strptime: \"%d/%m/%y %H:%M\"; empty: the one that fits all of "
         "them"}),
    option<&ForecastOptions::timezone>(
        {"data.timezone", any_value,
         "time zone of dates with a time of day, such as Europe/Berlin, whose clock is put forward and back; empty: no "
         "clock changes"}),
    option<&ForecastOptions::column>(
        {"data.column", any_value,
         "column of the series; empty: the last one. Columns of a file without a header are \"1\", \"2\", ..."}),
    option<&ForecastOptions::columns>(keys::columns),
    option<&ForecastOptions::id>(
        {"data.id", any_value,
         "column that names the series of a row, in a table with one series below the other (long format); empty: "
         "unique_id, item_id or series_id, if there is one; none: no such column"}),
    option<&ForecastOptions::past_covariates>(
        {"data.past_covariates", any_value,
         "columns that the model reads, but does not forecast, up to the last known row"}),
    option<&ForecastOptions::future_covariates>(
        {"data.future_covariates", any_value,
         "columns that are also known in the rows to forecast: rows at the end whose series are empty"}),
    option<&ForecastOptions::static_covariates>(
        {"data.static_covariates", any_value, "columns with one value per series (data.id)"}),
    option<&ForecastOptions::categories>(
        {"data.categories", any_value, "covariates whose numbers are categories; columns with texts always are"}),
    option<&ForecastOptions::calendar>(
        {"data.calendar", any_value,
         "covariates from the dates: minute, hour, weekday, day, month, quarter, and fourier(PERIOD,PAIRS) with a "
         "period in steps"}),
    option<&ForecastOptions::header>(keys::header),
    option<&ForecastOptions::separator>(keys::separator),
    option<&ForecastOptions::decimal>(keys::decimal),
    option<&ForecastOptions::thousands>(keys::thousands),
    option<&ForecastOptions::missing>(keys::missing),
    option<&ForecastOptions::missing_values>(keys::missing_values),
    option<&ForecastOptions::window>(
        {"data.window", between(0, 1e6),
         "number of past values that a forecast reads; 0: one season or two (at least 8 values), or the longest "
         "season, whichever predicts better"}),
    option<&ForecastOptions::horizon>(
        {"data.horizon", between(0, 1e5), "number of future values that are predicted at once; 0: a season"}),
    option<&ForecastOptions::stride>(
        {"data.stride", between(1, 1e6), "distance between training windows, in values"}),
    option<&ForecastOptions::period>(
        {"data.period", between(0, 1e6),
         "length of the season for the seasonal-naive baseline, mase and seasonal differences, in values; 0: the usual "
         "one for the step of the dates, else the one that the autocorrelation shows"}),
    option<&ForecastOptions::difference>(
        {"data.difference", any_value,
         "read and predict differences to earlier values: first (the previous value), seasonal (data.period earlier), "
         "a number of values, or several of them: \"first,seasonal\"; none: the values themselves; auto: what predicts "
         "best"}),
    option<&ForecastOptions::scale>(
        {"data.scale", one_of("auto|series|window"),
         "standardize by the mean and deviation of the training set (series), and then of each window (window); auto: "
         "what predicts best"}),
    option<&ForecastOptions::non_negative>(
        {"data.non_negative", one_of("auto|yes|no"),
         "raise forecasts below 0 to 0; auto: if the values are counts, whole numbers from 0 on"}),
    option<&ForecastOptions::autoregression>(
        {"model.autoregression", any_value,
         "add a linear forecast of each series from its own window, which starts at the least-squares solution"}),
    option<&ForecastOptions::distribution>(
        {"model.distribution", one_of("none|quantiles|normal|student_t|normal_mixture|negative_binomial|tweedie"),
         "train the distribution of each value, for intervals: quantiles, a likelihood, negative_binomial for "
         "counts, tweedie for amounts with zeros; none: train the forecast alone"}),
    option<&ForecastOptions::validation>(keys::validation),
    option<&ForecastOptions::test>(keys::test),
    option<&ForecastOptions::batch>(keys::batch),
};
UNROLL_API std::shared_ptr<const Task> make_forecast(const ForecastOptions& options, DataSource data,
                                                     const std::string& name, const Metadata& fitted = {});
UNROLL_API DataCheck check_data(const ForecastOptions& options, DataSource data, const std::string& name);

// Predicts the next values of S series with a `forecast` model, in the units of the columns.
class UNROLL_API Forecaster {
 public:
  Forecaster(const Metadata& metadata, const TensorMap& parameters, BackendHandle backend);

  const std::vector<std::string>& columns() const;  // S names; "" for a single unnamed column
  std::int64_t horizon() const;  // forecast steps of one model run
  std::int64_t history() const;  // rows that the model reads: its window, and the lags of its differences
  using Values = std::vector<double>;  // [rows, S], oldest first
  // C columns that the model reads beside the series; those of its calendar last.
  std::vector<std::string> covariates() const;
  // Each history has history() rows or more. The last history() rows are read and must be finite. A model with an id
  // column takes shorter histories of at least one row: earlier rows are equal to the first. Returns `steps` rows,
  // 0: horizon(). Beyond the horizon the model reads its own forecasts, which a model with past covariates cannot.
  // `covariates`, for a model with covariates: for each history the rows of its C columns, followed by those of the
  // rows to forecast. Numbers are as in the table, NaN if missing. A category is its index in the metadata; an unknown
  // one is the number of categories. Throws Error(usage) on fewer rows.
  std::vector<Values> predict(std::span<const Values> histories, std::int64_t steps = 0,
                              std::span<const Values> covariates = {});
  bool has_distribution() const;
  // The bounds of central intervals at the levels, between 0 and 1, by the distribution of the model, for each history:
  // [L,2,H,S], the lower bounds of a level and then the upper ones. Throws Error(usage) without a distribution.
  std::vector<Values> bounds(std::span<const Values> histories, std::span<const double> levels,
                             std::span<const Values> covariates = {});
  // Draws n paths of each history from the distribution of the model: [n,steps,S], one horizon after the other, given
  // the values drawn before. The values of one horizon are drawn independently of each other, so that a model with
  // horizon 1 draws value by value (ancestral sampling; Salinas et al. 2020, DeepAR, section 3.3). Equal seeds draw
  // equal paths. Throws Error(usage) without a distribution.
  std::vector<Values> paths(std::span<const Values> histories, std::int64_t n, std::int64_t steps = 0,
                            std::uint64_t seed = 0, std::span<const Values> covariates = {});

 private:
  struct State;
  HiddenState<State> state_;
};

}  // namespace unroll
