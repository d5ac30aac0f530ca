// SPDX-License-Identifier: Apache-2.0
// Options that a forecast leaves to its data: season, horizon, window, differences and scale; and the linear part of a
// model.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/tasks/forecast/form/differencing.h"
#include "core/tasks/forecast/seasons.h"
#include "tests/support/text.h"
#include "tests/training/small_tasks.h"
#include "unroll/model/stream.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"
#include "unroll/tasks/backtest.h"
#include "unroll/tasks/inference.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

std::string column_of(const std::vector<double>& values) {
  std::string text = "v\n";
  for (const double value : values) text += std::to_string(value) + "\n";
  return text;
}
// A level that rises, a season of seven values, and a disturbance that repeats only after 97 values.
std::vector<double> weekly(int n) {
  std::vector<double> values;
  for (int t = 0; t < n; ++t) values.push_back(50 + 0.4 * t + 12 * (t * 3 % 7) + 0.05 * (t * 31 % 97));
  return values;
}
std::string joined(const std::vector<std::string>& lines) {
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  return all;
}

}  // namespace

TEST_CASE("differencing is inverted by integration, and its graph computes both") {
  const std::vector<std::vector<std::int64_t>> all_lags{{1}, {4}, {1, 4}, {4, 1}, {1, 1}, {3, 5}, {2, 3, 4}};
  for (const auto& lags : all_lags)
    for (const std::int64_t H : {1, 3, 4, 9, 14}) {
      CAPTURE(H);
      const Differencing d(lags);
      CAPTURE(d.text());
      const std::int64_t D = d.depth(), n = 3, rows = D + n, B = 2, S = 2;
      Tensor levels(DType::f32, {rows, B, S});
      for (std::int64_t i = 0; i < levels.elements(); ++i) levels.set(i, static_cast<double>(i * i % 23));
      const auto level = [&](std::int64_t t, std::int64_t b, std::int64_t s) { return levels.at((t * B + b) * S + s); };
      Graph graph;
      const Value x = graph.input("x", levels.type());
      graph.output("differences", d.differences(x));
      graph.output("continuation", d.continuation(x, n, H));
      const TensorMap out = evaluate(graph, *make_backend("reference"), {{"x", levels}});
      const Tensor &differences = out.at("differences"), &continuation = out.at("continuation");
      REQUIRE(differences.shape() == Shape{n, B, S});
      const std::int64_t extent = continuation.shape()[2];
      CHECK((extent == H || extent == 1));
      for (std::int64_t k = 0; k < n; ++k)
        for (std::int64_t b = 0; b < B; ++b)
          for (std::int64_t s = 0; s < S; ++s) {
            const std::int64_t t = D + k;
            const double one = d.at([&](std::int64_t back) { return level(t - back, b, s); });
            CHECK(differences.at((k * B + b) * S + s) == one);
            std::vector<double> zeros(H), own{one};
            d.integrate([&](std::int64_t back) { return level(t + 1 - back, b, s); }, zeros);
            for (std::int64_t h = 0; h < H; ++h)
              CHECK(continuation.at(((k * B + b) * extent + std::min(h, extent - 1)) * S + s) == zeros[h]);
            d.integrate([&](std::int64_t back) { return level(t - back, b, s); }, own);
            CHECK(own[0] == level(t, b, s));
          }
    }
}

TEST_CASE("the step of dates has its usual seasons") {
  const auto lengths = [](DateStep step) {
    std::vector<std::int64_t> all;
    for (const Season& season : usual_seasons(step)) all.push_back(season.length);
    return all;
  };
  using Lengths = std::vector<std::int64_t>;
  CHECK(lengths({.months = 1}) == Lengths{12});
  CHECK(lengths({.months = 3}) == Lengths{4});
  CHECK(lengths({.months = 12}) == Lengths{});
  CHECK(lengths({.micros = k_day}) == Lengths{7});
  CHECK(lengths({.micros = 7 * k_day}) == Lengths{52});
  CHECK(lengths({.micros = k_day / 24}) == Lengths{24, 168});
  CHECK(lengths({.micros = k_day / 48}) == Lengths{48, 336});
}

TEST_CASE("without dates the season is the one that the values show, and a walk has none") {
  ForecastOptions o;
  const auto period = [&](const std::vector<double>& values) {
    return make_forecast(o, column_of(values), "v.csv")->metadata().at("period");
  };
  CHECK(period(weekly(300)) == "7");
  std::vector<double> cycle, walk{0};
  for (int t = 0; t < 200; ++t) cycle.push_back(std::sin(t * 2 * 3.14159265 / 11) + 0.2 * (t * 31 % 97) / 97);
  CHECK(period(cycle) == "11");
  for (unsigned t = 0, draw = 1; t < 400; ++t) {
    draw = draw * 1664525u + 1013904223u;
    walk.push_back(walk.back() + (draw >> 16) / 65536.0 - 0.5);
  }
  CHECK(period(walk) == "1");
}

TEST_CASE("what the data decide is said, is kept by a trained model, and never reads the test set") {
  const ForecastOptions open;
  const std::vector<double> values = weekly(300);
  const auto task = make_forecast(open, column_of(values), "v.csv");
  const std::string notes = joined(task->notes());
  CAPTURE(notes);
  CHECK(contains(notes, "v.csv: data.period = 7 (autocorrelation "));
  CHECK(contains(notes, "v.csv: data.horizon = 7"));
  CHECK(contains(notes, "data.window = "));
  CHECK(contains(notes, "(mase of linear trials: none "));
  const Metadata m = task->metadata();
  CHECK(make_forecast(open, column_of(values), "v.csv", m)->metadata() == m);
  std::vector<double> changed = values;
  for (std::size_t t = 240; t < 300; ++t) changed[t] *= 1000;
  CHECK(make_forecast(open, column_of(changed), "v.csv")->metadata() == m);
  ForecastOptions other = open;
  other.window = std::stoi(m.at("window")) + 1;
  CHECK_THROWS_WITH_AS((void)make_forecast(other, column_of(values), "v.csv", m), doctest::Contains("window"), Error);
}

TEST_CASE("a setting that is given is kept, and words that are none are refused with what to write") {
  ForecastOptions o;
  o.period = 5;
  o.horizon = 3;
  o.window = 9;
  o.difference = "first,seasonal";
  o.scale = "window";
  const Metadata m = make_forecast(o, column_of(weekly(200)), "v.csv")->metadata();
  CHECK(m.at("period") == "5");
  CHECK(m.at("horizon") == "3");
  CHECK(m.at("window") == "9");
  CHECK(m.at("difference") == "1,5");
  CHECK(m.at("scale") == "window");
  for (const auto& wrong : {std::pair("true", "Write first"), {"false", "Write none"}, {"weekly", ""}, {"first,", ""},
                            {"0,1", ""}, {"2000000", ""}, {"", ""}}) {
    CAPTURE(wrong.first);
    o.difference = wrong.first;
    CHECK_THROWS_WITH_AS((void)make_forecast(o, column_of(weekly(200)), "v.csv"), doctest::Contains(wrong.second),
                         Error);
  }
}

TEST_CASE("counts are never forecast below zero, and the errors are those of such forecasts") {
  // Mostly zero, and falling: a line through them is below zero.
  std::string csv = "v\n";
  for (int t = 0; t < 160; ++t) csv += std::to_string(t % 7 == 3 ? std::max(60 - t, 0) / 4 + t % 3 : 0) + "\n";
  ForecastOptions o;
  o.model.hidden = 4;
  o.window = 14;
  o.horizon = 7;
  o.period = 7;
  for (const char* difference : {"none", "first", "seasonal"}) {
    CAPTURE(difference);
    o.difference = difference;
    const auto task = make_forecast(o, csv, "f.csv");
    CHECK(mentions(joined(task->notes()), "f.csv: the values are counts: forecasts below 0 are raised to 0"));
    const Trained m(task, 5);
    Forecaster forecaster(m.metadata, m.parameters, *m.backend);
    CHECK(m.metadata.contains("non_negative"));
    double sum = 0, n = 0, raised = 0;
    for_each_forecast(*m.task, Split::test, forecaster, [&](const PastForecast& f) {
      CHECK(f.forecast >= 0);
      raised += f.forecast == 0;
      sum += std::fabs(f.forecast - f.value);
      ++n;
    });
    CHECK(raised > 0);
    Trainer trainer(m.task, *m.backend, small_training(1));
    trainer.set_parameters(m.parameters);
    CHECK(sum / n == doctest::Approx(trainer.evaluate(Split::test).metrics.at("mae")).epsilon(1e-4));
    const ForecastIntervals intervals(*m.task, forecaster, {0.8});
    const std::vector<double> bounds = intervals.bounds(std::vector<double>(7, 0.01), {});
    bool is_wide = false;
    for (std::size_t ahead = 0; ahead < 7; ++ahead) {
      CHECK(bounds[ahead] >= 0);
      is_wide = is_wide || bounds[7 + ahead] > 0.02;
    }
    CHECK(is_wide);
  }
  o.non_negative = "no";
  CHECK(!make_forecast(o, csv, "f.csv")->metadata().contains("non_negative"));
  o.non_negative = "auto";
  CHECK(!make_forecast(o, csv + "-1\n1\n2\n" + csv.substr(2), "f.csv")->metadata().contains("non_negative"));
}

TEST_CASE("a model with a linear part begins as the least-squares forecast") {
  std::vector<double> exact{1, -2};
  while (exact.size() < 300)
    exact.push_back(1.2 * exact.back() - 0.9 * exact[exact.size() - 2] + (exact.size() % 5 == 0));
  ForecastOptions o;
  o.model.hidden = 4;
  o.horizon = 5;
  o.window = 10;
  o.period = 5;
  o.difference = "none";
  o.scale = "series";
  const auto backend = make_backend("cpu");
  Trainer trainer(make_forecast(o, column_of(exact), "v.csv"), *backend, small_training(1));
  // The ridge of a hundredth moves the answers by about that share of them.
  CHECK(trainer.evaluate(Split::test).metrics.at("mase") < 0.05);
}

TEST_CASE("a stream forecasts at each step what its window gives") {
  const auto backend = make_backend("cpu", {.threads = 1});
  std::vector<double> values = weekly(80);
  for (const ForecastFormCase& form : k_forecast_forms) {
    if (!form.autoregression && std::string(form.scale) == "series") continue;  // its layers go on from their states
    CAPTURE(form.difference);
    ForecastOptions o;
    o.model.hidden = 4;
    o.window = 6;
    o.horizon = 3;
    o.period = 4;
    form.set(o);
    const auto task = make_forecast(o, column_of(values), "v.csv");
    Trainer trainer(task, *backend, small_training(1));  // untrained: beside a linear part the layers answer zero
    const TensorMap parameters = trainer.parameters();
    Forecaster forecaster(task->metadata(), parameters, *backend);
    for (const std::int64_t chunk : {1, 4}) {
      Stream stream(*backend, task_stream(task->metadata()), parameters, {.chunk = chunk});
      std::vector<float> y(static_cast<std::size_t>(3 * chunk));
      for (std::int64_t t = 0; t + chunk <= 40; t += chunk) {
        const std::vector<float> x(values.begin() + t, values.begin() + t + chunk);
        REQUIRE(stream.step(x, y));
        for (std::int64_t k = 0; k < chunk; ++k) {
          const auto end = static_cast<std::ptrdiff_t>(t + k + 1);
          if (end < forecaster.history()) continue;
          const std::vector<double> history(values.begin(), values.begin() + end);
          const auto wanted = forecaster.predict({&history, 1})[0];
          for (std::size_t h = 0; h < 3; ++h)
            CHECK(y[static_cast<std::size_t>(k) * 3 + h] == doctest::Approx(wanted[h]).epsilon(1e-5));
        }
      }
    }
  }
}
