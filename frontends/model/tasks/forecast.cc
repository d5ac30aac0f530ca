// SPDX-License-Identifier: Apache-2.0
// One-step forecasting: a window of values in, the next value out, everything in units of a z-score fitted on the
// training split.
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

// Mean absolute and root mean square error of predictions for some positions.
template <class Predict>
std::map<std::string, double> errors_of(const std::vector<std::int64_t>& targets, std::span<const double> truth,
                                        const Predict& predict) {
  double absolute = 0, square = 0;
  for (const std::int64_t t : targets) {
    const double error = predict(t) - truth[static_cast<std::size_t>(t)];
    absolute += std::fabs(error);
    square += error * error;
  }
  const double n = static_cast<double>(targets.size());
  return {{"mae", absolute / n}, {"rmse", std::sqrt(square / n)}};
}

class Forecast : public Task {
 public:
  Forecast(const ForecastOptions& options, std::string_view text, const std::string& name, const Metadata& fitted)
      : options_(options), series_(read_series(options, text, name)) {
    if (options.window < 1 || options.stride < 1 || options.period < 1 || options.batch < 1)
      throw Error(ErrorKind::usage, "forecast", "window, stride, period and batch must be at least 1");
    const std::int64_t n = series_.size();
    const std::int64_t test = n - part_of(n, options.test, "test"),
                       validation = test - part_of(n, options.validation, "validation");
    values_ = options.difference ? differences(series_.level) : series_.level;
    const std::int64_t first = options.difference ? 1 : 0;
    targets_[0] = targets_between(series_, 0, validation, options.window, first);
    // The linear baseline keeps all of them.
    all_train_targets_ = targets_[0];
    keep_every(targets_[0], options.stride);
    targets_[1] = targets_between(series_, validation, test, options.window, first);
    targets_[2] = targets_between(series_, test, n, options.window, first);
    if (targets_[0].empty())
      throw Error(ErrorKind::usage, name,
                  std::to_string(n) + " values leave no window of " + std::to_string(options.window) + " to train on",
                  "Shorten window, or give more data");
    const auto train = std::span<const double>(values_).subspan(static_cast<std::size_t>(first),
                                                                static_cast<std::size_t>(validation - first));
    scale_ = fitted.empty() ? ZScore::fit(train)
                            : ZScore{get_double(fitted, "scaler.mean"), get_double(fitted, "scaler.deviation")};
    if (!(scale_.deviation > 0))
      throw Error(ErrorKind::input_file, name, "the model's scaler has no positive deviation");
  }

  TaskGraph build(Scope& scope, const Batch& like) const override {
    const Value x = scope.graph().input("x", like.inputs.at("x").type());                 // [W, B, 1]
    const Value target = scope.graph().input("target", like.inputs.at("target").type());  // [B, 1]
    const Value y = pooled(scope, recurrent_model(scope.child("recurrent"), x, options_.model).y, "final",
                           options_.model.bidirectional);
    const Value prediction = linear_layer(scope.child("output"), dropout_layer(scope, y, options_.model.dropout), 1);
    const Value count = scalar_like(prediction, static_cast<double>(target.shape()[0])),
                square_sum = sum(mse(prediction, target));
    TaskGraph t;
    t.loss = square_sum / count;
    t.weight = count;
    t.metrics.push_back({"mae", sum(mae(prediction, target)) * scale_.deviation, count});
    t.metrics.push_back({"rmse", square_sum * (scale_.deviation * scale_.deviation), count, MetricForm::root});
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
    Tensor x(DType::f32, {W, B, 1}), target(DType::f32, {B, 1});
    const auto xs = x.values<float>(), ys = target.values<float>();
    for (std::int64_t b = 0; b < B; ++b) {
      const std::int64_t k =
          split == Split::train ? shuffle_.order(n, seed, epoch)[static_cast<std::size_t>(begin + b)] : begin + b;
      const std::int64_t t = from[static_cast<std::size_t>(k)];
      for (std::int64_t w = 0; w < W; ++w) xs[static_cast<std::size_t>(w * B + b)] = scaled(t - W + w);
      ys[static_cast<std::size_t>(b)] = scaled(t);
    }
    Batch result;
    result.inputs.emplace("x", std::move(x));
    result.inputs.emplace("target", std::move(target));
    return result;
  }

  Metadata metadata() const override {
    Metadata m{{"task", "forecast"},
               {"scaler.mean", number_text(scale_.mean)},
               {"scaler.deviation", number_text(scale_.deviation)},
               {"window", std::to_string(options_.window)},
               {"difference", options_.difference ? "1" : "0"},
               {"column", options_.column}};
    put_model_options(m, options_.model);
    return m;
  }

  std::map<std::string, std::map<std::string, double>> baselines() const override {
    const std::vector<std::int64_t>& test = targets_[2];
    if (test.empty()) return {};
    const auto level = [&](std::int64_t t) {
      return series_.level[static_cast<std::size_t>(std::max<std::int64_t>(t, 0))];
    };
    const Autoregression ar = Autoregression::fit(values_, all_train_targets_, options_.window);
    return {
        {"persistence", errors_of(test, series_.level, [&](std::int64_t t) { return level(t - 1); })},
        {"seasonal_naive", errors_of(test, series_.level, [&](std::int64_t t) { return level(t - options_.period); })},
        {"linear_ar", errors_of(test, values_, [&](std::int64_t t) { return ar.predict(values_, t); })}};
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
  float scaled(std::int64_t t) const { return static_cast<float>(scale_.apply(values_[static_cast<std::size_t>(t)])); }

  ForecastOptions options_;
  Series series_;
  std::vector<double> values_;              // what the model reads: levels or differences
  std::vector<std::int64_t> targets_[3];    // by split
  std::vector<std::int64_t> all_train_targets_;
  ZScore scale_;
  mutable Shuffle shuffle_;
};

}  // namespace

std::shared_ptr<const Task> make_forecast(const ForecastOptions& options, std::string_view csv, const std::string& name,
                                          const Metadata& fitted) {
  return std::make_shared<Forecast>(options, csv, name, fitted);
}

}  // namespace unroll
