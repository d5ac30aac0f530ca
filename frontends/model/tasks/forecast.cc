// SPDX-License-Identifier: Apache-2.0
// Forecasting: a window of values of S series in, the next ones of each out, in units of z-scores fitted on the
// training split, each series by itself.
#include "frontends/data/csv.h"
#include "frontends/data/shuffle.h"
#include "frontends/model/tasks/forecast_series.h"
#include "frontends/model/tasks/pooling.h"
#include "frontends/model/tasks/task_parts.h"
#include "unroll/error.h"
#include "unroll/tasks.h"

namespace unroll {

namespace {

// Those at least `stride` behind the last one kept.
std::vector<std::int64_t> every(const std::vector<std::int64_t>& targets, std::int64_t stride) {
  std::vector<std::int64_t> kept;
  for (const std::int64_t t : targets)
    if (kept.empty() || t - kept.back() >= stride) kept.push_back(t);
  return kept;
}

class Forecast : public Task {
 public:
  Forecast(const ForecastOptions& options, std::string_view text, const std::string& name, const Metadata& fitted)
      : options_(options) {
    if (options.window < 1 || options.horizon < 1 || options.stride < 1 || options.period < 1 || options.batch < 1)
      throw Error(ErrorKind::usage, "forecast", "window, horizon, stride, period and batch must be at least 1");
    const std::vector<std::string> names = columns_of(options);
    std::vector<Series> read = read_series(text, name, names);
    const std::int64_t n = read[0].size(), test = n - part_of(n, options.test, "test"),
                       validation = test - part_of(n, options.validation, "validation");
    const auto between = [&](std::int64_t begin, std::int64_t end) {
      return targets_between(read, begin, end, options.window, options.horizon, options.difference ? 1 : 0);
    };
    all_train_targets_ = between(0, validation);
    targets_[0] = every(all_train_targets_, options.stride);
    targets_[1] = between(validation, test);
    targets_[2] = between(test, n);
    if (targets_[0].empty())
      throw Error(ErrorKind::usage, name,
                  std::to_string(n) + " values leave no window of " + std::to_string(options.window) + " to train on",
                  "Shorten window or horizon, or give more data");
    for (std::size_t s = 0; s < names.size(); ++s) {
      series_.emplace_back(names[s], std::move(read[s]), options);
      series_.back().fit_seasonal_error(validation);
      if (fitted.empty()) series_.back().fit(all_train_targets_, validation);
    }
    if (!fitted.empty()) use(get_scales(fitted), name);
  }

  TaskGraph build(Scope& scope, const Batch& like) const override {
    const Value x = scope.graph().input("x", like.inputs.at("x").type());                 // [W,B,S]
    const Value target = scope.graph().input("target", like.inputs.at("target").type());  // [B,H*S]
    const Value y = pooled(scope, recurrent_model(scope.child("recurrent"), x, options_.model).y, "final",
                           options_.model.bidirectional);
    const Value prediction = linear_layer(scope.child("output"), dropout_layer(scope, y, options_.model.dropout),
                                          options_.horizon * n_series());
    const Value observed = scope.graph().input("observed", target.type());
    const Value square = mse(prediction, target) * observed;
    TaskGraph t;
    t.weight = sum(observed);
    t.loss = sum(square) / t.weight;
    add_metrics(t, scope, mae(prediction, target) * observed, square, observed);
    return t;
  }

  std::int64_t n_batches(Split split) const override {
    const auto n = static_cast<std::int64_t>(targets(split).size());
    return (n + options_.batch - 1) / options_.batch;
  }

  Batch batch(Split split, std::uint64_t seed, std::int64_t epoch, std::int64_t index) const override {
    const std::vector<std::int64_t>& from = targets(split);
    const auto n = static_cast<std::int64_t>(from.size()), begin = index * options_.batch;
    const std::int64_t B = std::min(options_.batch, n - begin), W = options_.window;
    const std::int64_t H = options_.horizon, S = n_series();
    Tensor x(DType::f32, {W, B, S}), target(DType::f32, {B, H * S}), observed(DType::f32, {B, H * S});
    const auto xs = x.values<float>(), ys = target.values<float>(), seen = observed.values<float>();
    for (std::int64_t b = 0; b < B; ++b) {
      const std::int64_t k =
          split == Split::train ? shuffle_.order(n, seed, epoch)[static_cast<std::size_t>(begin + b)] : begin + b;
      const std::int64_t t = from[static_cast<std::size_t>(k)];
      for (std::int64_t s = 0; s < S; ++s) {
        const ForecastSeries& series = series_[static_cast<std::size_t>(s)];
        for (std::int64_t w = 0; w < W; ++w)
          xs[static_cast<std::size_t>((w * B + b) * S + s)] = series.read_at(t - W + w);
        for (std::int64_t h = 0; h < H; ++h) {
          const auto at = static_cast<std::size_t>((b * H + h) * S + s);
          ys[at] = series.learnt_at(t, h);
          seen[at] = series.is_observed(t + h) ? 1.0F : 0.0F;
        }
      }
    }
    Batch result;
    result.inputs.emplace("x", std::move(x));
    result.inputs.emplace("target", std::move(target));
    result.inputs.emplace("observed", std::move(observed));
    return result;
  }

  Metadata metadata() const override {
    Metadata m{{"task", "forecast"},
               {"window", std::to_string(options_.window)},
               {"difference", options_.difference ? "1" : "0"}};
    std::vector<SeriesScales> scales;
    for (const ForecastSeries& s : series_) scales.push_back({s.name(), s.ahead()});
    put_scales(m, scales);
    put_model_options(m, options_.model);
    return m;
  }

  std::map<std::string, std::map<std::string, double>> baselines() const override {
    std::map<std::string_view, ForecastErrors> in_all;
    std::map<std::string, std::map<std::string, double>> metrics;
    for (const ForecastSeries& s : series_)
      for (const auto& [method, errors] : s.errors(targets_[2], all_train_targets_)) {
        if (n_series() > 1) errors.put(metrics[std::string(method)], "." + s.name());
        in_all[method] += errors;
      }
    for (const auto& [method, errors] : in_all) errors.put(metrics[std::string(method)], "");
    return targets_[2].empty() ? decltype(metrics){} : metrics;
  }

 private:
  static std::vector<Series> read_series(std::string_view text, const std::string& file,
                                         const std::vector<std::string>& names) {
    const CsvTable table = CsvTable::parse(text, file);
    std::vector<NamedColumn> columns;
    for (const std::string& name : names) {
      const std::size_t c = table.column(name);
      NamedColumn& column = columns.emplace_back(NamedColumn{"column '" + table.column_name(c) + "'", {}});
      for (std::size_t r = 0; r < table.n_rows(); ++r)
        column.values.push_back(table.number(r, c, CsvTable::Missing::as_nan));
    }
    return series_of(columns, file);
  }

  // What a model was trained with must be what is read now.
  void use(const std::vector<SeriesScales>& scales, const std::string& file) {
    const auto refuse = [&](const std::string& of_model, const std::string& given) {
      throw Error(ErrorKind::usage, file, "the model forecasts " + of_model + "; " + given);
    };
    const std::size_t horizon = scales[0].ahead.size();
    if (static_cast<std::int64_t>(horizon) != options_.horizon)
      refuse(std::to_string(horizon) + " values ahead", "horizon is " + std::to_string(options_.horizon));
    if (scales.size() != series_.size())
      refuse(std::to_string(scales.size()) + " series", "columns names " + std::to_string(series_.size()));
    for (std::size_t s = 0; s < scales.size(); ++s) {
      if (scales.size() > 1 && scales[s].column != series_[s].name())
        refuse("'" + scales[s].column.substr(0, 40) + "'", "column " + std::to_string(s + 1) + " of columns is '" +
                                                               series_[s].name() + "'");
      series_[s].use(scales[s].ahead);
    }
  }

  // In the columns' units, from errors in units of what is learnt, all [B,H*S]. Of each series in evaluations only: a
  // training report with those of a hundred series would bury the rest.
  void add_metrics(TaskGraph& t, const Scope& scope, Value absolute, Value square, Value observed) const {
    const std::int64_t H = options_.horizon, S = n_series();
    Tensor units(DType::f32, {H * S}), per_season = units, has_season = units;
    bool scaled = false;
    for (std::int64_t i = 0; i < H * S; ++i) {
      const ForecastSeries& series = series_[static_cast<std::size_t>(i % S)];
      units.set(i, series.ahead()[static_cast<std::size_t>(i / S)].deviation);
      if (series.seasonal_error() <= 0) continue;
      per_season.set(i, 1 / series.seasonal_error());
      has_season.set(i, 1);
      scaled = true;
    }
    const Value unit = constant(scope.graph(), units);
    absolute = absolute * unit;
    square = square * unit * unit;
    t.metrics.push_back({"mae", sum(absolute), sum(observed)});
    if (scaled)
      t.metrics.push_back({"mase", sum(absolute * constant(scope.graph(), per_season)),
                           sum(observed * constant(scope.graph(), has_season))});
    t.metrics.push_back({"rmse", sum(square), sum(observed), MetricForm::root});
    if (S == 1 || scope.training()) return;
    const auto by_series = [&](Value values) { return reduce_sum(reshape(values, {values.shape()[0] * H, S}), {0}); };
    const Value absolutes = by_series(absolute), squares = by_series(square), counts = by_series(observed);
    for (std::int64_t s = 0; s < S; ++s) {
      const ForecastSeries& series = series_[static_cast<std::size_t>(s)];
      const auto of = [&](Value values) { return row(values, s); };
      t.metrics.push_back({"mae." + series.name(), of(absolutes), of(counts)});
      if (series.seasonal_error() > 0)
        t.metrics.push_back({"mase." + series.name(), of(absolutes) * (1 / series.seasonal_error()), of(counts)});
      t.metrics.push_back({"rmse." + series.name(), of(squares), of(counts), MetricForm::root});
    }
  }

  const std::vector<std::int64_t>& targets(Split split) const { return targets_[static_cast<std::size_t>(split)]; }
  std::int64_t n_series() const { return static_cast<std::int64_t>(series_.size()); }

  ForecastOptions options_;
  std::vector<ForecastSeries> series_;
  std::vector<std::int64_t> targets_[3];  // by split
  std::vector<std::int64_t> all_train_targets_;
  mutable Shuffle shuffle_;
};

}  // namespace

std::shared_ptr<const Task> make_forecast(const ForecastOptions& options, std::string_view csv, const std::string& name,
                                          const Metadata& fitted) {
  return std::make_shared<Forecast>(options, csv, name, fitted);
}

}  // namespace unroll
