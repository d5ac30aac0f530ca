// SPDX-License-Identifier: Apache-2.0
// Forecasts with covariates: columns known up to the present or ahead, categories, terms of the calendar.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/data/series/series_rows.h"
#include "tests/support/refusal.h"
#include "tests/support/text.h"
#include "tests/training/small_tasks.h"
#include "unroll/support/error.h"
#include "unroll/tasks/backtest.h"
#include "unroll/tasks/inference.h"
#include "unroll/tasks/predict_tables.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

constexpr int k_rows = 140;

int noise(int t, int seed) { return (t * t * 31 + t * seed + seed * 17) % 101; }
double price(int t) { return 2 + 0.01 * noise(t, 7); }
const char* weather(int t) { return noise(t, 5) % 3 == 0 ? "rain" : noise(t, 5) % 3 == 1 ? "sun" : ""; }
// The level rises; the weekday, the price and rain change the value of the day.
double value_at(int t) {
  return 100 + 0.2 * t + (t % 7 == 3 ? 25 : 0) - 20 * price(t) + (std::string(weather(t)) == "rain" ? 15 : 0) +
         0.02 * noise(t, 3);
}
std::string hour(int t) {
  return "2024-01-" + std::to_string(t / 24 + 10) + " " + std::to_string(t % 24 + 100).substr(1) + ":00";
}
// Rows [0, n) and, with the covariates alone, the `ahead` rows behind them. From row `from` on, `factor` multiplies
// what a forecast from there must not know.
struct Later {
  int from = k_rows;
  double factor = 1;
};
std::string table(int n = k_rows, int ahead = 0, Later values = {}, Later prices = {}, Later leads = {}) {
  std::string csv = "t,y,price,weather,lead\n";
  const auto cell = [](double value, int t, const Later& later) {
    return std::to_string(value * (t >= later.from ? later.factor : 1));
  };
  for (int t = 0; t < n + ahead; ++t)
    csv += std::to_string(t) + "," + (t < n ? cell(value_at(t), t, values) : "") + "," + cell(price(t), t, prices) +
           "," + weather(t) + "," + cell(noise(t, 11), t, leads) + "\n";
  return csv;
}
ForecastOptions small_forecast() {
  ForecastOptions o;
  o.model.hidden = 4;
  o.window = 8;
  o.horizon = 3;
  o.period = 7;
  o.date = "none";
  o.column = "y";
  o.difference = "first";
  o.future_covariates = {"price", "weather"};
  return o;
}
double test_error(const Trained& m) {
  Trainer trainer(m.task, *m.backend, small_training(1));
  trainer.set_parameters(m.parameters);
  return trainer.evaluate(Split::test).metrics.at("mase");
}
// The forecast of the rows behind a file.
Forecaster::Values forecast_of(const Trained& m, const std::string& csv, std::int64_t steps = 3) {
  Forecaster forecaster(m.metadata, m.parameters, *m.backend);
  const SeriesEnds ends(m.metadata, split_from_text(csv, "h.csv").file, "h.csv", forecaster.history(), steps);
  const SeriesEnd end = ends.at(0);
  return forecaster.predict({&end.values, 1}, steps, {&end.covariates, 1})[0];
}
std::string notes_of(const Task& task) {
  std::string all;
  for (const std::string& note : task.notes()) all += note + "\n";
  return all;
}

}  // namespace

TEST_CASE("known prices and weather explain what the history cannot") {
  for (const ForecastFormCase& form : k_forecast_forms) {
    if (!form.autoregression) continue;  // a network alone needs more updates
    CAPTURE(form.difference);
    CAPTURE(form.scale);
    ForecastOptions with = small_forecast(), without = small_forecast();
    form.set(with);
    form.set(without);
    without.future_covariates = {};
    const double known = test_error(Trained(make_forecast(with, table(), "f.csv"), 60)),
                 unknown = test_error(Trained(make_forecast(without, table(), "f.csv"), 60));
    CHECK(known < 0.7 * unknown);
  }
}

TEST_CASE("a forecast is that of the task, of the file and of the network, in every form") {
  for (const ForecastFormCase& form : k_forecast_forms) {
    CAPTURE(form.difference);
    CAPTURE(form.scale);
    ForecastOptions o = small_forecast();
    o.past_covariates = {"lead"};
    form.set(o);
    const Trained m(make_forecast(o, table(), "f.csv"), 20);
    Forecaster forecaster(m.metadata, m.parameters, *m.backend);
    double sum = 0, n = 0;
    for_each_forecast(*m.task, Split::test, forecaster, [&](const PastForecast& f) {
      sum += std::fabs(f.forecast - f.value);
      ++n;
    });
    Trainer trainer(m.task, *m.backend, small_training(1));
    trainer.set_parameters(m.parameters);
    CHECK(sum / n == doctest::Approx(trainer.evaluate(Split::test).metrics.at("mae")).epsilon(1e-4));

    const auto T = static_cast<int>(forecaster.history());
    const Forecaster::Values wanted = forecast_of(m, table(90, 3));
    Tensor x(DType::f32, {T, 1, 1}), covariates(DType::f32, {T + 3, 1, 3});
    for (int t = 0; t < T + 3; ++t) {
      const int at = 90 - T + t;
      if (t < T) x.set(t, value_at(at));
      const std::string sky = weather(at);
      covariates.set(t * 3, price(at));
      covariates.set(t * 3 + 1, sky == "rain" ? 0 : sky == "sun" ? 1 : 2);
      covariates.set(t * 3 + 2, t < T ? noise(at, 11) : -1e6);  // unknown ahead, and not read there
    }
    Model network(*m.backend, task_inference(m.metadata).network, m.parameters);
    const TensorMap y = network.run({{"x", x}, {"covariates", covariates}});
    for (std::int64_t h = 0; h < 3; ++h) CHECK(y.at("forecast").at(h) == doctest::Approx(wanted[h]).epsilon(1e-4));
  }
}

TEST_CASE("no forecast knows the later values of a series or of a past covariate, or a price behind its horizon") {
  ForecastOptions o = small_forecast();
  o.past_covariates = {"lead"};
  const auto metadata_of = [&](const std::string& csv) { return make_forecast(o, csv, "f.csv")->metadata(); };
  const int test = k_rows - k_rows / 5;  // the first row of the test set
  CHECK(metadata_of(table()) == metadata_of(table(k_rows, 0, {test, 1000}, {test, 1000}, {test, 1000})));
  const Trained m(make_forecast(o, table(), "f.csv"), 20);
  Forecaster forecaster(m.metadata, m.parameters, *m.backend);
  // The first forecast of the test set, from files that change what follows its first or last row.
  const auto first = [&](Later values, Later prices, Later leads) {
    const auto task = make_forecast(o, table(k_rows, 0, values, prices, leads), "f.csv", m.metadata);
    std::vector<double> forecast;
    for_each_forecast(*task, Split::test, forecaster, [&](const PastForecast& f) {
      if (forecast.size() < 3) forecast.push_back(f.forecast);
    });
    return forecast;
  };
  const std::vector<double> wanted = first({}, {}, {});
  CHECK(first({test, 1000}, {test + 3, 1000}, {test, 1000}) == wanted);
  CHECK(first({}, {test + 2, 2}, {}) != wanted);
  CHECK(first({}, {}, {test - 1, 1000}) != wanted);
}

TEST_CASE("a longer forecast reads the covariates of its rows; with past covariates there is none") {
  const Trained m(make_forecast(small_forecast(), table(), "f.csv"), 20);
  const Forecaster::Values seven = forecast_of(m, table(90, 7), 7);
  REQUIRE(seven.size() == 7);
  const Forecaster::Values three = forecast_of(m, table(90, 7), 3);
  CHECK(std::vector<double>(seven.begin(), seven.begin() + 3) == three);
  CHECK(forecast_of(m, table(90, 7, {}, {95, 2}), 7)[6] != seven[6]);
  ForecastOptions o = small_forecast();
  o.past_covariates = {"lead"};
  const Trained past(make_forecast(o, table(), "f.csv"), 2);
  CHECK(mentions(refusal([&] { forecast_of(past, table(90, 7), 7); }), "past covariates are unknown beyond the 3"));
}

TEST_CASE("rows to forecast are no rows of a split, and too few of them are named") {
  const auto o = small_forecast();
  const auto task = make_forecast(o, table(), "f.csv"), longer = make_forecast(o, table(k_rows, 3), "f.csv");
  CHECK(task->metadata() == longer->metadata());
  for (const Split split : {Split::train, Split::validation, Split::test})
    CHECK(task->n_batches(split) == longer->n_batches(split));
  CHECK(!contains(notes_of(*longer), "missing"));
  const Trained m(task, 2);
  const std::string few = refusal([&] { forecast_of(m, table(90, 2)); });
  CHECK(mentions(few, "[h.csv] 2 rows follow the last value of 'y', which ends at 89; a forecast of 3 steps reads"));
  CHECK(mentions(few, "Add 1 row with the covariates and an empty 'y'"));
}

TEST_CASE("an unknown category and an empty cell have no effect of their own, numbers may be categories") {
  ForecastOptions o = small_forecast();
  const auto task = make_forecast(o, table(), "f.csv");
  CHECK(mentions(notes_of(*task), "covariate 'weather': 2 categories"));
  const Trained m(task, 20);
  const auto rain_as = [](const std::string& cell) {
    std::string csv = table(90, 3);
    for (std::size_t at = 0; (at = csv.find("rain", at)) != std::string::npos; at += cell.size())
      csv.replace(at, 4, cell);
    return csv;
  };
  const auto notes_on = [&](const std::string& csv) {
    std::string all;
    const SeriesEnds ends(m.metadata, split_from_text(csv, "h.csv").file, "h.csv", 9, 3);
    for (const std::string& note : ends.notes()) all += note + "\n";
    return all;
  };
  CHECK(mentions(notes_on(rain_as("fog")), "with a category that training lacked: no category"));
  CHECK(mentions(notes_on(table(90, 3)), "covariate 'weather': "));
  CHECK(mentions(notes_on(table(90, 3)), " empty: no category"));
  CHECK(mentions(notes_on(table(90, 3)), "h.csv: 3 rows at the end without a value of the series: to be forecast"));
  CHECK(!contains(notes_on(table(90, 3)), "training lacked"));
  CHECK(forecast_of(m, rain_as("fog")) == forecast_of(m, rain_as("")));
  CHECK(forecast_of(m, rain_as("fog")) != forecast_of(m, rain_as("rain")));
  o.categories = {"price"};
  CHECK(mentions(notes_of(*make_forecast(o, table(), "f.csv")), "covariate 'price': "));
}

TEST_CASE("an hour of the calendar is the category of a column with the hour, and needs no rows ahead") {
  std::string csv = "ds,y,hours,none\n";
  for (int t = 0; t < 160; ++t) {
    const double value = 50 + 0.3 * t + (t % 24 == 9 ? 30 : 0) + 0.02 * noise(t, 3);
    csv += hour(t) + "," + std::to_string(value) + "," + std::to_string(t % 24) + ",\n";
  }
  ForecastOptions none = small_forecast();
  none.date = "";
  none.future_covariates = {};
  ForecastOptions term = none, column = none;
  term.calendar = {"hour"};
  column.future_covariates = {"hours"};
  column.categories = {"hours"};
  const Trained by_term(make_forecast(term, csv, "f.csv"), 30), by_column(make_forecast(column, csv, "f.csv"), 30);
  CHECK(test_error(by_term) < 0.5 * test_error(Trained(make_forecast(none, csv, "f.csv"), 30)));
  const std::string rows_ahead = hour(160) + ",,16,\n" + hour(161) + ",,17,\n" + hour(162) + ",,18,\n";
  const Forecaster::Values next = forecast_of(by_term, csv), other = forecast_of(by_column, csv + rows_ahead);
  for (std::size_t h = 0; h < 3; ++h) CHECK(next[h] == doctest::Approx(other[h]).epsilon(0.02));
  term.calendar = {"fourier(24,3)", "weekday"};
  CHECK(forecast_of(Trained(make_forecast(term, csv, "f.csv"), 2), csv).size() == 3);
}

TEST_CASE("static covariates tell series apart") {
  std::string csv = "unique_id,ds,y,region,size\n";
  for (int s = 0; s < 4; ++s)
    for (int t = 0; t < 60; ++t)
      csv += "S" + std::to_string(s) + "," + std::to_string(t) + "," +
             std::to_string(50 + value_at(t) * (s % 2 == 0 ? 1 : -1)) + "," + (s % 2 == 0 ? "north" : "south") + "," +
             std::to_string(s) + "\n";
  ForecastOptions o = small_forecast();
  o.future_covariates = {};
  o.static_covariates = {"region", "size"};
  const Trained m(make_forecast(o, csv, "f.csv"), 20);
  CHECK(forecast_of(m, csv).size() == 3);  // the rows to forecast need no static covariates
  o.static_covariates = {"region", "y"};
  CHECK(mentions(refusal([&] { make_forecast(o, csv, "f.csv"); }), "covariate 'y' is also a series to forecast"));
  csv += "S3,60,1,north,3\n";
  o.static_covariates = {"region"};
  o.test = 0;
  o.validation = 0;
  CHECK(mentions(refusal([&] { make_forecast(o, csv, "f.csv"); }), "static covariate 'region' changes at 60"));
}

TEST_CASE("covariates read again from the file are those in memory") {
  SeriesFormat format{.columns = {"y"}, .date = {"none", ""}, .csv = {}};
  format.covariates = {{"price"}, {"weather"}};
  const std::string csv = table(700, 5);
  const SeriesRows held(RecordFile(csv, "f.csv"), format, true), read(RecordFile(csv, "f.csv"), format, false);
  REQUIRE(held.segments()[0].end == 700);
  REQUIRE(held.segments()[0].n_ahead == 5);
  SeriesPiece one, other;
  for (const auto& [begin, end] : {std::pair{0, 705}, {250, 300}, {690, 705}}) {
    held.read(begin, end, one);
    read.read(begin, end, other);
    CHECK(one.covariates == other.covariates);
    CHECK(one.levels == other.levels);
  }
  CHECK(one.covariates_at(704)[0] == doctest::Approx(price(704)));
}

TEST_CASE("faults of covariates are named") {
  const auto refused = [](auto set) {
    ForecastOptions o = small_forecast();
    set(o);
    return refusal([&] { make_forecast(o, table(), "f.csv"); });
  };
  CHECK(mentions(refused([](auto& o) { o.past_covariates = {"price"}; }), "covariate 'price' is listed twice"));
  CHECK(mentions(refused([](auto& o) { o.past_covariates = {"prize"}; }), "prize"));
  CHECK(mentions(refused([](auto& o) { o.categories = {"lead"}; }), "data.categories has 'lead', which is no"));
  CHECK(mentions(refused([](auto& o) { o.calendar = {"hour"}; }), "data.calendar needs a column of dates"));
  for (const char* term : {"hours", "fourier", "fourier(24)", "fourier(1,2)", "fourier(24,0)", "fourier(24,3"})
    CHECK(mentions(refused([&](auto& o) { o.calendar = {term}; }), "data.calendar has no term '" + std::string(term)));
  const Trained m(make_forecast(small_forecast(), table(), "f.csv"), 2);
  CHECK(mentions(refusal([&] { task_stream(m.metadata); }), "a model with covariates has no stream"));
  ForecastOptions other = small_forecast();
  const auto evaluated = [&] { make_forecast(other, table(), "f.csv", m.metadata); };
  CHECK(refusal(evaluated) == "nothing was refused");
  other.non_negative = "yes";
  CHECK(mentions(refusal(evaluated), "the model was trained with data.non_negative = 'no'; got 'yes'"));
  other = small_forecast();
  other.future_covariates = {"price"};
  CHECK(mentions(refusal(evaluated), "the model was trained with data.future_covariates = 'price, weather'"));
  Forecaster forecaster(m.metadata, m.parameters, *m.backend);
  const Forecaster::Values history(9, 1.0);
  CHECK(mentions(refusal([&] { forecaster.predict({&history, 1}); }), "reads 2 covariates in 12 rows; got 0 values"));
}
