// SPDX-License-Identifier: Apache-2.0
// Forecasts of many series in long format: one below the other, named by an id column.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/data/series/series_rows.h"
#include "tests/support/refusal.h"
#include "tests/support/text.h"
#include "tests/training/small_tasks.h"
#include "unroll/model/stream.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"
#include "unroll/tasks/backtest.h"
#include "unroll/tasks/inference.h"
#include "unroll/tasks/predict_tables.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

SeriesRows rows_of(const std::string& csv, bool hold, const std::string& id = "") {
  return SeriesRows(RecordFile(csv, "f.csv"), {.columns = {"y"}, .date = {}, .csv = {}, .id = id}, hold);
}
// All rows as text: "A 2024-01-01 1, A 2024-01-02 2 (missing), ...".
std::string text_of(const SeriesRows& rows) {
  std::string all;
  SeriesPiece piece;
  for (const SeriesSegment& segment : rows.segments()) {
    rows.read(segment.begin, segment.end, piece);
    for (std::int64_t t = segment.begin; t < segment.end; ++t)
      all += segment.id + " " + rows.place(segment, t) + " " + std::to_string(static_cast<int>(piece.level(t, 0))) +
             (piece.is_observed(t, 0) ? ", " : " (missing), ");
  }
  return all;
}

double value_at(int series, int t) {
  return (100 + t + 20 * std::sin(2 * 3.14159265 * t / 6 + series) + (t * 31 + series * 7) % 5) * std::pow(10, series);
}
int length_of(int series) { return 40 + 9 * series; }
// Four series of different lengths and orders of magnitude, with the season 6.
std::string four_series(double later = 1) {
  std::string csv = "unique_id,ds,y\n";
  for (int s = 0; s < 4; ++s)
    for (int t = 0; t < length_of(s); ++t)  // `later` multiplies the test rows
      csv += "S" + std::to_string(s) + "," + std::to_string(t) + "," +
             std::to_string(value_at(s, t) * (5 * t >= 4 * length_of(s) ? later : 1)) + "\n";
  return csv;
}
ForecastOptions small_forecast() {
  ForecastOptions o;
  o.model.hidden = 4;
  o.window = 8;
  o.horizon = 3;
  o.period = 6;
  o.date = "none";
  o.difference = "first";
  return o;
}
std::vector<double> history_of(int series, int n, double factor = 1) {
  std::vector<double> values;
  for (int t = 0; t < n; ++t) values.push_back(factor * value_at(series, t));
  return values;
}

}  // namespace

TEST_CASE("rows of an id are a table of their own, with dates and gaps of their own, together or not") {
  const std::string header = "unique_id,ds,y\n";
  const std::vector<std::string> a{"A,2024-01-03,1\n", "A,2024-01-04,2\n", "A,2024-01-06,4\n"},
      b{"B,2023-12-31,\n", "B,2024-01-01,7\n", "B,2024-01-02,\n", "B,2024-01-03,9\n"};
  const std::string wanted =
      "A 2024-01-03 1, A 2024-01-04 2, A 2024-01-05 2 (missing), A 2024-01-06 4, "
      "B 2024-01-01 7, B 2024-01-02 7 (missing), B 2024-01-03 9, ";
  const std::string together = header + a[0] + a[1] + a[2] + b[0] + b[1] + b[2] + b[3];
  for (const bool hold : {true, false}) CHECK(text_of(rows_of(together, hold)) == wanted);
  const std::string mixed = header + a[0] + b[0] + b[1] + a[1] + b[2] + a[2] + "\n" + b[3];
  CHECK(text_of(rows_of(mixed, true)) == wanted);
  CHECK(mentions(rows_of(mixed, true).notes()[2], "the rows of a series are not together; they are sorted by series"));
  CHECK(refusal([&] { rows_of(mixed, false); }).find("Sort it by 'unique_id'") != std::string::npos);
  const SeriesRows rows = rows_of(together, true);
  CHECK(mentions(rows.notes()[0], "2 series, named in 'unique_id' (data.id = \"none\" reads one)"));
  CHECK(rows.place(rows.segments()[0], rows.segments()[0].end) == "2024-01-07");
  CHECK(rows.place(rows.segments()[1], rows.segments()[1].end) == "2024-01-04");
}

TEST_CASE("blocks of rows that are read again are those of their id") {
  std::string csv = "unique_id,ds,y\n";
  for (int s = 0; s < 5; ++s)
    for (int t = 0; t < (s == 2 ? 1 : 300 * s + 5); ++t)
      if (t % 11 != 3) csv += "S" + std::to_string(s) + "," + std::to_string(2000 + t) + "," + std::to_string(t) + "\n";
  const SeriesFormat format{.columns = {"y"}, .date = {"ds", ""}, .csv = {}, .id = "unique_id"};
  const SeriesRows held(RecordFile(csv, "f.csv"), format, true), read(RecordFile(csv, "f.csv"), format, false);
  REQUIRE(held.size() == read.size());
  SeriesPiece one, other;
  for (std::int64_t t = 0; t < held.size(); t += 7) {
    held.read(t, std::min<std::int64_t>(t + 40, held.size()), one);
    read.read(t, std::min<std::int64_t>(t + 40, held.size()), other);
    CHECK(one.levels == other.levels);
    CHECK(one.observed == other.observed);
  }
}

TEST_CASE("faults of ids are named") {
  const auto says = [](const std::string& csv, const std::string& id, const char* what) {
    CHECK(mentions(refusal([&] { rows_of(csv, true, id); }), what));
  };
  says("unique_id,y\nA,1\n,2\n", "", "line 3, column 1 ('unique_id'): the name of the series is missing");
  says("a,y\nA,1\nB,2\n", "b", "'b'");
  says("a,y\nA,1\nB,2\n", "y", "column 'y' names the series and cannot be one");
  says("unique_id,ds,y\nA,2024-01-02,1\nA,2024-01-01,2\nA,2024-01-03,2\n", "", "is before the date of line 2");
  says("unique_id,ds,y\nA,2024-01-01,x\n", "", "line 2");
  const SeriesRows rows = rows_of("unique_id,y\nA,1\nB,\nA,2\nC,3\n", true);
  CHECK(rows.segments().size() == 2);
  CHECK(mentions(rows.notes()[2], "1 series without values: not used"));
  CHECK(rows_of("unique_id,y\n1,1\n1,2\n2,3\n", true, "none").segments().size() == 1);
}

TEST_CASE("windows of a series know neither its future nor another series") {
  const auto o = small_forecast();
  const auto task = make_forecast(o, four_series(), "f.csv"), later = make_forecast(o, four_series(1000), "f.csv");
  CHECK(task->metadata() == later->metadata());
  for (const Split split : {Split::train, Split::validation}) {
    REQUIRE(task->n_batches(split) == later->n_batches(split));
    for (std::int64_t i = 0; i < task->n_batches(split); ++i)
      for (const auto& [name, tensor] : task->batch(split, 1, 0, i).inputs) {
        const Tensor other = later->batch(split, 1, 0, i).inputs.at(name);
        for (std::int64_t k = 0; k < tensor.elements(); ++k) REQUIRE(tensor.at(k) == other.at(k));
      }
  }
  // Each target is three rows of one series: in the units of a season its values are alike for all series.
  const Batch batch = task->batch(Split::test, 1, 0, 0);
  const Tensor &target = batch.inputs.at("target"), &weight = batch.inputs.at("weight");
  for (std::int64_t k = 0; k < target.elements(); ++k) CHECK(std::fabs(target.at(k) * weight.at(k)) < 12);
}

TEST_CASE("a forecast of many series is as exact for small and large values, and its errors are those of the task") {
  const auto o = small_forecast();
  for (const char* difference : {"first", "none", "seasonal"}) {
    CAPTURE(difference);
    ForecastOptions each = o;
    each.difference = difference;
    const Trained m(make_forecast(each, four_series(), "f.csv"), 20);
    Forecaster forecaster(m.metadata, m.parameters, *m.backend);
    const std::vector<Forecaster::Values> histories{history_of(1, 30), history_of(1, 30, 1e-6), history_of(1, 30, 1e9)};
    const auto forecasts = forecaster.predict(histories);
    for (std::size_t h = 0; h < 3; ++h)
      for (const auto& [k, factor] : {std::pair<std::size_t, double>{1, 1e-6}, {2, 1e9}})
        CHECK(forecasts[k][h] == doctest::Approx(factor * forecasts[0][h]).epsilon(1e-4));
    Trainer trainer(m.task, *m.backend, small_training(1));
    trainer.set_parameters(m.parameters);
    double sum = 0, n = 0;
    std::string series;
    for_each_forecast(*m.task, Split::test, forecaster, [&](const PastForecast& f) {
      sum += std::fabs(f.forecast - f.value);
      ++n;
      if (!series.ends_with(f.series)) series += f.series;
    });
    CHECK(series == "S0S1S2S3");
    CHECK(sum / n == doctest::Approx(trainer.evaluate(Split::test).metrics.at("mae")).epsilon(1e-4));
    CHECK(trainer.evaluate(Split::test).metrics.at("mase") < 2);
    const auto baselines = m.task->baselines(Split::test);
    CHECK(baselines.at("seasonal_naive").at("mase") > 0.5);
    CHECK(!baselines.contains("linear_ar"));
  }
}

TEST_CASE("the network and the stream of many series give the forecasts of the file") {
  auto o = small_forecast();
  const auto task = make_forecast(o, four_series(), "f.csv");
  const Trained m(task, 20);
  Forecaster forecaster(m.metadata, m.parameters, *m.backend);
  const std::int64_t T = forecaster.history();
  REQUIRE(T == 9);
  const Inference inference = task_inference(m.metadata);
  Stream stream(*m.backend, task_stream(m.metadata), m.parameters);
  for (const int series : {0, 3}) {
    const std::vector<double> history = history_of(series, 25);
    const auto wanted = forecaster.predict({&history, 1})[0];
    std::vector<float> y(3);
    stream.reset();
    for (const double value : history) {
      const auto x = static_cast<float>(value);
      REQUIRE(stream.step({&x, 1}, y));
    }
    for (std::size_t h = 0; h < 3; ++h) CHECK(y[h] == doctest::Approx(wanted[h]).epsilon(1e-4));
  }
}

TEST_CASE("each id of a file is continued by its own dates, and a short one as if its first value came before") {
  auto o = small_forecast();
  o.date = "";
  std::string csv = "unique_id,ds,y\n", history = "unique_id,ds,y\n";
  for (int s = 0; s < 4; ++s)
    for (int t = 0; t < length_of(s); ++t)
      csv += "S" + std::to_string(s) + "," + std::to_string(1900 + 3 * s + t) + "," +
             std::to_string(value_at(s, t)) + "\n";
  const Trained m(make_forecast(o, csv, "f.csv"), 10);
  for (int t = 0; t < 12; ++t) history += "new," + std::to_string(1950 + t) + "," + std::to_string(t * t % 7) + "\n";
  history += "short,2001,5\nshort,2002,6\n";
  const SeriesEnds ends(m.metadata, split_from_text(history, "h.csv").file, "h.csv", 9, 2);
  REQUIRE(ends.size() == 2);
  CHECK(ends.id() == "unique_id");
  CHECK(ends.at(0).id == "new");
  CHECK(ends.at(0).next == std::vector<std::string>{"1962", "1963"});
  CHECK(ends.at(1).next == std::vector<std::string>{"2003", "2004"});
  CHECK(ends.at(1).values == std::vector<double>{5, 6});
  CHECK(mentions(ends.notes().back(), "1 series is shorter than the 9 rows that the model reads"));
  Forecaster forecaster(m.metadata, m.parameters, *m.backend);
  const std::vector<Forecaster::Values> both{{5, 6}, {5, 5, 5, 5, 5, 5, 5, 5, 6}};
  const auto forecasts = forecaster.predict(both);
  CHECK(forecasts[0] == forecasts[1]);
}

TEST_CASE("a series without validation and test rows is counted") {
  std::string csv = four_series();
  for (int t = 0; t < 5; ++t) csv += "tiny," + std::to_string(t) + "," + std::to_string(t) + "\n";
  std::string notes;
  for (const std::string& note : make_forecast(small_forecast(), csv, "f.csv")->notes()) notes += note + "\n";
  CHECK(mentions(notes, "f.csv: 1 series is too short for validation and test rows"));
}

TEST_CASE("a constant series is named, and so is a scale that cannot fit all series") {
  std::string csv = four_series();
  for (int t = 0; t < 40; ++t) csv += "flat," + std::to_string(t) + ",3\n";
  std::string notes;
  for (const std::string& note : make_forecast(small_forecast(), csv, "f.csv")->notes()) notes += note + "\n";
  CHECK(mentions(notes, "f.csv: 1 series is without a change over data.period"));
  const std::string flat = "unique_id,t,y\n" + csv.substr(csv.find("flat,"));
  const auto refused = refusal([&] { make_forecast(small_forecast(), flat, "f.csv"); });
  CHECK(mentions(refused, "none has a change over data.period"));
  auto o = small_forecast();
  o.scale = "series";
  CHECK(mentions(refusal([&] { make_forecast(o, csv, "f.csv"); }), "data.scale"));
}
