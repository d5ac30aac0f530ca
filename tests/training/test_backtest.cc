// SPDX-License-Identifier: Apache-2.0
// Forecasts of the test set in parts, with a rolling origin, and those of the baselines.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/support/refusal.h"
#include "tests/training/small_tasks.h"
#include "unroll/support/error.h"
#include "unroll/tasks/backtest.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

constexpr int k_rows = 80, k_test = 20;  // data.test = 0.25

double level_of(int t) { return 100 + t + 20 * std::sin(t) + t * t * 31 % 17; }
// A series whose rows from `changed` on are others.
std::string one_series(int changed = k_rows) {
  std::string csv = "y\n";
  for (int t = 0; t < k_rows; ++t) csv += std::to_string(level_of(t) * (t < changed ? 1 : 3)) + "\n";
  return csv;
}
// Ids of different lengths, one below the other.
std::string three_series() {
  std::string csv = "unique_id,t,y\n";
  for (int s = 0; s < 3; ++s)
    for (int t = 0; t < 60 + 10 * s; ++t)
      csv += "S" + std::to_string(s) + "," + std::to_string(t) + "," + std::to_string((s + 1) * level_of(t)) + "\n";
  return csv;
}

ForecastOptions backtested() {
  ForecastOptions o = plain_forecast();
  o.model.hidden = 4;
  o.column = "y";
  o.date = "none";
  o.window = 8;
  o.horizon = 3;
  o.period = 6;
  o.difference = "first";
  o.scale = "auto";
  o.autoregression = true;
  o.test = 0.25;
  return o;
}

BacktestOptions backtest_options(std::int64_t folds, bool refit) {
  BacktestOptions o{.folds = folds, .refit = refit};
  o.training.max_updates = 10;
  o.training.validate_every = 5;
  o.training.warn = [](const std::string&) {};
  return o;
}

struct Visited {
  std::int64_t fold;
  PastForecast forecast;
};
std::vector<Visited> visited(const std::shared_ptr<const Task>& task, const BacktestOptions& options) {
  const auto backend = make_backend("reference");
  std::vector<Visited> all;
  backtest(task, *backend, options, [&](std::int64_t fold, const PastForecast& f) { all.push_back({fold, f}); });
  return all;
}

}  // namespace

TEST_CASE("without refit a backtest forecasts each test window once, as the model of its training set") {
  for (const std::string& csv : {one_series(), three_series()}) {
    const auto task = make_forecast(backtested(), csv, "f.csv");
    const BacktestOptions options = backtest_options(3, false);
    const std::vector<Visited> all = visited(task, options);
    const auto backend = make_backend("reference");
    Trainer trainer(task, *backend, options.training);
    TensorMap best;
    trainer.fit([&](const Progress& p) {
      if (p.best) best = trainer.parameters();
    });
    Forecaster forecaster(task->metadata(), best, *backend);
    std::map<std::string, double> wanted;
    const auto key_of = [](const PastForecast& f) { return f.series + " " + f.origin + " " + f.at; };
    for_each_forecast(*task, Split::test, forecaster, [&](const PastForecast& f) { wanted[key_of(f)] = f.forecast; });
    CHECK(all.size() == wanted.size());
    std::int64_t last = 1;
    for (const Visited& v : all) {
      CHECK(wanted.at(key_of(v.forecast)) == v.forecast.forecast);
      CHECK(v.fold >= last);
      last = v.fold;
    }
    CHECK(last == 3);
    // Errors of the baselines are those of the task.
    const std::vector<std::string> names = BaselineForecaster::names(*task);
    CHECK(names.size() == (csv == one_series() ? 4 : 3));
    for (std::size_t b = 0; b < names.size(); ++b) {
      ForecastErrors errors;
      for (const Visited& v : all) errors.add(v.forecast.baselines[b], v.forecast.value, v.forecast.unit);
      std::map<std::string, double> metrics;
      errors.put(metrics, "");
      for (const auto& [name, value] : metrics)
        CHECK(task->baselines(Split::test).at(names[b]).at(name) == doctest::Approx(value).epsilon(1e-6));
    }
  }
}

TEST_CASE("with refit each fold is forecast by a model of the rows before it, and of none behind") {
  const BacktestOptions refit = backtest_options(3, true);
  const std::vector<Visited> all = visited(make_forecast(backtested(), one_series(), "f.csv"), refit);
  // 18 windows in three folds: the second one begins with the target row 66.
  constexpr int k_second = k_rows - k_test + 6;
  const std::vector<Visited> changed = visited(make_forecast(backtested(), one_series(k_second), "f.csv"), refit);
  const std::vector<Visited> once =
      visited(make_forecast(backtested(), one_series(), "f.csv"), backtest_options(3, false));
  REQUIRE(all.size() == 18 * 3);
  REQUIRE(changed.size() == all.size());
  bool differs = false, differs_once = false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const PastForecast &f = all[i].forecast, &other = changed[i].forecast;
    CHECK(all[i].fold == 1 + static_cast<std::int64_t>(i) / 18);
    CHECK(std::stoi(f.at) == std::stoi(f.origin) + f.ahead);
    if (std::stoi(f.origin) < k_second) {
      CHECK(f.forecast == other.forecast);
      CHECK(f.baselines == other.baselines);
    } else {
      differs |= f.forecast != other.forecast;
    }
    if (all[i].fold == 1) CHECK(f.forecast == once[i].forecast.forecast);
    else differs_once |= f.forecast != once[i].forecast.forecast;
  }
  CHECK(differs);
  CHECK(differs_once);
}

TEST_CASE("more folds than windows and a separate test file are refused") {
  const auto task = make_forecast(backtested(), one_series(), "f.csv");
  CHECK(refusal([&] { visited(task, backtest_options(19, false)); }).find("test windows, 18; got 19") !=
        std::string::npos);
  ForecastOptions o = backtested();
  o.test = split_from_text(one_series(), "g.csv");
  const auto apart = make_forecast(o, one_series(), "f.csv");
  CHECK(refusal([&] { visited(apart, backtest_options(2, false)); }).find("the test set is a separate file") !=
        std::string::npos);
}

TEST_CASE("a baseline continues histories of any length, and an unknown one is refused with the names") {
  const auto task = make_forecast(backtested(), one_series(), "f.csv");
  using Values = std::vector<double>;
  const std::vector<Values> histories{{1, 2, 3, 4, 5, 6, 7}, {9}};
  CHECK(BaselineForecaster(*task, "persistence").predict(histories, 2) == std::vector<Values>{{7, 7}, {9, 9}});
  CHECK(BaselineForecaster(*task, "seasonal_naive").predict(histories, 7) ==
        std::vector<Values>{{2, 3, 4, 5, 6, 7, 2}, {9, 9, 9, 9, 9, 9, 9}});
  CHECK(BaselineForecaster(*task, "linear_ar").predict(histories)[0].size() == 3);
  CHECK(refusal([&] { BaselineForecaster(*task, "ets"); }).find("persistence, seasonal_naive, theta, linear_ar") !=
        std::string::npos);
  const auto many = make_forecast(backtested(), three_series(), "f.csv");
  CHECK(refusal([&] { BaselineForecaster(*many, "linear_ar"); }).find("persistence, seasonal_naive, theta") !=
        std::string::npos);
}
