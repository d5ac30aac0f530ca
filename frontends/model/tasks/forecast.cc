// SPDX-License-Identifier: Apache-2.0
// Forecasting: a window of values in, the next ones out, everything in units of z-scores fitted on the training split.
#include <cmath>

#include "frontends/data/csv.h"
#include "frontends/data/shuffle.h"
#include "frontends/data/windows.h"
#include "frontends/model/tasks/pooling.h"
#include "frontends/model/tasks/task_parts.h"
#include "unroll/error.h"
#include "unroll/tasks.h"

namespace unroll {

namespace {

Series read_series(const ForecastOptions& options, std::string_view text, const std::string& name) {
  const CsvTable table = CsvTable::parse(text, name);
  const std::size_t column = table.column(options.column);
  std::vector<double> values;
  for (std::size_t r = 0; r < table.n_rows(); ++r) values.push_back(table.number(r, column, CsvTable::Missing::as_nan));
  return Series::from(values, name);
}

using Errors = std::map<std::string, double>;

class Forecast : public Task {
 public:
  Forecast(const ForecastOptions& options, std::string_view text, const std::string& name, const Metadata& fitted)
      : options_(options), series_(read_series(options, text, name)) {
    if (options.window < 1 || options.horizon < 1 || options.stride < 1 || options.period < 1 || options.batch < 1)
      throw Error(ErrorKind::usage, "forecast", "window, horizon, stride, period and batch must be at least 1");
    const std::int64_t n = series_.size();
    const std::int64_t test = n - part_of(n, options.test, "test"),
                       validation = test - part_of(n, options.validation, "validation");
    values_ = options.difference ? differences(series_.level) : series_.level;
    const std::int64_t first = options.difference ? 1 : 0;
    const auto between = [&](std::int64_t begin, std::int64_t end) {
      return targets_between(series_, begin, end, options.window, options.horizon, first);
    };
    targets_[0] = between(0, validation);
    // The linear baseline keeps all of them.
    all_train_targets_ = targets_[0];
    keep_every(targets_[0], options.stride);
    targets_[1] = between(validation, test);
    targets_[2] = between(test, n);
    if (targets_[0].empty())
      throw Error(ErrorKind::usage, name,
                  std::to_string(n) + " values leave no window of " + std::to_string(options.window) + " to train on",
                  "Shorten window or horizon, or give more data");
    const auto train = std::span<const double>(values_).subspan(static_cast<std::size_t>(first),
                                                                static_cast<std::size_t>(validation - first));
    if (fitted.empty()) {
      ahead_.push_back(ZScore::fit(train));
      for (std::int64_t h = 1; h < options.horizon; ++h) ahead_.push_back(scale_ahead(h));
    } else {
      ahead_ = get_scales(fitted);
      if (static_cast<std::int64_t>(ahead_.size()) != options.horizon)
        throw Error(ErrorKind::usage, name,
                    "the model forecasts " + std::to_string(ahead_.size()) + " values ahead; horizon is " +
                        std::to_string(options.horizon));
    }
    seasonal_error_ = seasonal_error(validation);
  }

  TaskGraph build(Scope& scope, const Batch& like) const override {
    const Value x = scope.graph().input("x", like.inputs.at("x").type());                 // [W, B, 1]
    const Value target = scope.graph().input("target", like.inputs.at("target").type());  // [B, H]
    const Value y = pooled(scope, recurrent_model(scope.child("recurrent"), x, options_.model).y, "final",
                           options_.model.bidirectional);
    const Value prediction =
        linear_layer(scope.child("output"), dropout_layer(scope, y, options_.model.dropout), options_.horizon);  // [B,H]
    const Value observed = scope.graph().input("observed", target.type()), count = sum(observed);
    Tensor deviations(DType::f32, {options_.horizon});
    for (std::int64_t h = 0; h < options_.horizon; ++h) deviations.set(h, ahead(h).deviation);
    const Value unit = constant(scope.graph(), deviations);
    const Value square = mse(prediction, target) * observed;
    const Value absolute = sum(mae(prediction, target) * observed * unit);
    TaskGraph t;
    t.loss = sum(square) / count;
    t.weight = count;
    t.metrics.push_back({"mae", absolute, count});
    if (seasonal_error_ > 0) t.metrics.push_back({"mase", absolute * (1 / seasonal_error_), count});
    t.metrics.push_back({"rmse", sum(square * unit * unit), count, MetricForm::root});
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
    const std::int64_t H = options_.horizon;
    Tensor x(DType::f32, {W, B, 1}), target(DType::f32, {B, H}), observed(DType::f32, {B, H});
    const auto xs = x.values<float>(), ys = target.values<float>(), seen = observed.values<float>();
    for (std::int64_t b = 0; b < B; ++b) {
      const std::int64_t k =
          split == Split::train ? shuffle_.order(n, seed, epoch)[static_cast<std::size_t>(begin + b)] : begin + b;
      const std::int64_t t = from[static_cast<std::size_t>(k)];
      for (std::int64_t w = 0; w < W; ++w) xs[static_cast<std::size_t>(w * B + b)] = scaled(t - W + w);
      for (std::int64_t h = 0; h < H; ++h) {
        const auto at = static_cast<std::size_t>(b * H + h);
        ys[at] = static_cast<float>(ahead(h).apply(target_of(t, h)));
        seen[at] = is_observed(t + h) ? 1.0F : 0.0F;
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
               {"difference", options_.difference ? "1" : "0"},
               {"column", options_.column}};
    put_scales(m, ahead_);
    put_model_options(m, options_.model);
    return m;
  }

  std::map<std::string, std::map<std::string, double>> baselines() const override {
    if (targets_[2].empty()) return {};
    const Autoregression ar = Autoregression::fit(values_, all_train_targets_, options_.window);
    return {{"persistence", errors_of([&](std::int64_t t, std::int64_t) { return level(t - 1); })},
            {"seasonal_naive", errors_of([&](std::int64_t t, std::int64_t h) { return level(season_before(t, h)); })},
            {"linear_ar", errors_of_paths([&](std::int64_t t) {
               std::vector<double> path = ar.predict(values_, t, options_.horizon);
               double last = level(t - 1);
               if (options_.difference)
                 for (double& value : path) value = last += value;
               return path;
             })}};
  }

 private:
  // Those at least `stride` behind the last one kept.
  static void keep_every(std::vector<std::int64_t>& targets, std::int64_t stride) {
    std::vector<std::int64_t> kept;
    for (const std::int64_t t : targets)
      if (kept.empty() || t - kept.back() >= stride) kept.push_back(t);
    targets = std::move(kept);
  }
  const std::vector<std::int64_t>& targets(Split split) const { return targets_[static_cast<std::size_t>(split)]; }
  double level(std::int64_t t) const { return series_.level[static_cast<std::size_t>(std::max<std::int64_t>(t, 0))]; }
  bool is_observed(std::int64_t t) const { return series_.observed[static_cast<std::size_t>(t)]; }
  // What is learnt of the value h steps behind t, seen from t.
  double target_of(std::int64_t t, std::int64_t h) const {
    return options_.difference ? level(t + h) - level(t - 1) : level(t + h);
  }
  // The last value before t that is whole seasons before t + h.
  std::int64_t season_before(std::int64_t t, std::int64_t h) const {
    return t + h - (h / options_.period + 1) * options_.period;
  }

  const ZScore& ahead(std::int64_t h) const { return ahead_[static_cast<std::size_t>(h)]; }
  // Levels have one scale wherever they are; changes grow with their distance.
  ZScore scale_ahead(std::int64_t h) const {
    if (!options_.difference) return ahead_[0];
    std::vector<double> changes;
    for (const std::int64_t t : all_train_targets_) changes.push_back(target_of(t, h));
    return ZScore::fit(changes);
  }
  // Of one value ahead, over what training may see.
  double seasonal_error(std::int64_t end) const {
    double sum = 0, n = 0;
    for (std::int64_t t = options_.period; t < end; ++t) {
      if (!is_observed(t)) continue;
      sum += std::fabs(level(t) - level(t - options_.period));
      ++n;
    }
    return n > 0 ? sum / n : 0;
  }

  // Over all values ahead of all windows of the test split; path(t) gives the values from t on.
  template <class Path>
  Errors errors_of_paths(const Path& path) const {
    double absolute = 0, square = 0, n = 0;
    for (const std::int64_t t : targets_[2]) {
      const std::vector<double> predicted = path(t);
      for (std::int64_t h = 0; h < options_.horizon; ++h) {
        if (!is_observed(t + h)) continue;
        const double error = predicted[static_cast<std::size_t>(h)] - level(t + h);
        absolute += std::fabs(error);
        square += error * error;
        ++n;
      }
    }
    Errors errors{{"mae", absolute / n}, {"rmse", std::sqrt(square / n)}};
    if (seasonal_error_ > 0) errors["mase"] = absolute / n / seasonal_error_;
    return errors;
  }
  template <class Predict>
  Errors errors_of(const Predict& predict) const {
    return errors_of_paths([&](std::int64_t t) {
      std::vector<double> path;
      for (std::int64_t h = 0; h < options_.horizon; ++h) path.push_back(predict(t, h));
      return path;
    });
  }

  float scaled(std::int64_t t) const { return static_cast<float>(ahead_[0].apply(values_[static_cast<std::size_t>(t)])); }

  ForecastOptions options_;
  Series series_;
  std::vector<double> values_;              // what the model reads: levels or differences
  std::vector<std::int64_t> targets_[3];    // by split
  std::vector<std::int64_t> all_train_targets_;
  std::vector<ZScore> ahead_;               // of what is predicted, by distance; the first also of what is read
  double seasonal_error_ = 0;               // what mase counts in
  mutable Shuffle shuffle_;
};

}  // namespace

std::shared_ptr<const Task> make_forecast(const ForecastOptions& options, std::string_view csv, const std::string& name,
                                          const Metadata& fitted) {
  return std::make_shared<Forecast>(options, csv, name, fitted);
}

}  // namespace unroll
