// SPDX-License-Identifier: Apache-2.0
// Forecasts of several series at once: each in units of its own, none with anything of the others' or of the future.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/tasks/common/task_parts.h"
#include "tests/support/gradient_outputs.h"
#include "tests/training/small_tasks.h"
#include "unroll/data/data_check.h"
#include "unroll/model/stream.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"
#include "unroll/tasks/predict_tables.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

ForecastOptions two_series() {
  ForecastOptions o = plain_forecast();
  o.model.hidden = 4;
  o.columns = {"fast", "slow"};
  o.window = 3;
  o.horizon = 2;
  o.period = 2;
  o.batch = 4;
  o.validation = 0.2;
  o.test = 0.2;
  return o;
}

double fast(int t) { return t * t; }
double slow(int t) { return 5 - 0.25 * t + (t % 3); }

// 20 rows, training is t < 12; `fast` has a gap at 7, and `fast_at`, when given, another value at `at`.
std::string table(int at = -1, double fast_at = 0) {
  std::string csv = "day,slow,word,fast\n";
  for (int t = 0; t < 20; ++t)
    csv += std::to_string(t) + "," + exact_text(slow(t)) + ",w," +
           (t == 7 ? "" : exact_text(t == at ? fast_at : fast(t))) + "\n";
  return csv;
}

ForecastOptions alone(const std::string& column) {
  ForecastOptions o = two_series();
  o.columns = {};
  o.column = column;
  return o;
}

double number(const Metadata& m, const std::string& key) { return std::stod(m.at(key)); }

}  // namespace

TEST_CASE("each of several series is scaled by its own training part, and by nothing behind it") {
  for (const bool difference : {false, true}) {
    ForecastOptions o = two_series();
    o.difference = difference ? "first" : "none";
    const Metadata both = make_forecast(o, table(), "t.csv")->metadata();
    CHECK(both.at("series") == "2");
    for (const auto& [prefix, column] : {std::pair("", "fast"), std::pair("series.1.", "slow")}) {
      ForecastOptions one = alone(column);
      one.difference = difference ? "first" : "none";
      const Metadata single = make_forecast(one, table(), "t.csv")->metadata();
      CHECK(both.at(std::string(prefix) + "column") == column);
      for (const char* key : {"scaler.mean", "scaler.deviation", "scaler.1.mean", "scaler.1.deviation"})
        CHECK(both.at(std::string(prefix) + key) == single.at(key));
    }
    // A value of validation or test changes nothing that is learnt from, one of training does, in its own series alone.
    CHECK(make_forecast(o, table(12, 1e6), "t.csv")->metadata() == both);
    CHECK(make_forecast(o, table(19, -1e6), "t.csv")->metadata() == both);
    const Metadata other = make_forecast(o, table(11, 1e6), "t.csv")->metadata();
    CHECK(other.at("scaler.mean") != both.at("scaler.mean"));
    CHECK(other.at("series.1.scaler.mean") == both.at("series.1.scaler.mean"));
  }
}

TEST_CASE(
    "windows hold all series side by side, targets all series of a distance, and a gap is one of its own series") {
  for (const bool difference : {false, true}) {
    ForecastOptions o = two_series();
    o.difference = difference ? "first" : "none";
    const auto task = make_forecast(o, table(), "t.csv");
    const Metadata m = task->metadata();
    const Batch b = task->batch(Split::test, 0, 0, 0);
    const Tensor &x = b.inputs.at("x"), &y = b.inputs.at("target");
    REQUIRE(x.shape() == Shape{3, 3, 2});
    REQUIRE(y.shape() == Shape{3, 4});
    const auto value = [](int s, int t) { return s == 0 ? fast(t) : slow(t); };
    for (int k = 0; k < 3; ++k)
      for (int s = 0; s < 2; ++s) {
        const std::string prefix = s == 0 ? "" : "series.1.";
        const auto back = [&](double z, const std::string& key) {
          return z * number(m, prefix + key + ".deviation") + number(m, prefix + key + ".mean");
        };
        for (int w = 0; w < 3; ++w) {
          const int t = 13 + k + w;
          CHECK(back(x.at((w * 3 + k) * 2 + s), "scaler") ==
                doctest::Approx(value(s, t) - (difference ? value(s, t - 1) : 0)).epsilon(1e-5));
        }
        for (int h = 0; h < 2; ++h) {
          const double learnt = back(y.at(k * 4 + h * 2 + s), h == 0 ? "scaler" : "scaler.1");
          CHECK(learnt + (difference ? value(s, 15 + k) : 0) == doctest::Approx(value(s, 16 + k + h)).epsilon(1e-5));
        }
      }
    double missing[2] = {0, 0};
    for (std::int64_t i = 0; i < task->n_batches(Split::train); ++i) {
      const Tensor seen = task->batch(Split::train, 5, 0, i).inputs.at("observed");
      for (std::int64_t k = 0; k < seen.elements(); ++k) missing[k % 2] += 1 - seen.at(k);
    }
    CHECK(missing[0] == 2);  // the gap at 7 of `fast` is one of two values in two windows
    CHECK(missing[1] == 0);
  }
}

TEST_CASE("metrics and baselines are those of each series in its own units, and those of all values together") {
  const auto backend = make_backend("reference");
  const auto metrics_of = [&](const ForecastOptions& o) {
    const auto task = make_forecast(o, table(), "t.csv");
    Trainer trainer(task, *backend, small_training(1));
    TensorMap zeros = trainer.parameters();
    for (auto& [name, tensor] : zeros) tensor = Tensor(tensor.type());
    trainer.set_parameters(zeros);  // always predicts the mean
    return std::pair(trainer.evaluate(Split::test).metrics, task->baselines(Split::test));
  };
  const auto [both, both_baselines] = metrics_of(two_series());
  const auto [of_fast, fast_baselines] = metrics_of(alone("fast"));
  const auto [of_slow, slow_baselines] = metrics_of(alone("slow"));
  const auto check = [](const std::map<std::string, double>& all, const std::map<std::string, double>& a,
                        const std::map<std::string, double>& b) {
    CHECK(all.size() == 12);
    CHECK(a.size() == 4);
    for (const char* name : {"mae", "rmse", "mase", "smape"}) {
      CAPTURE(name);
      CHECK(all.at(std::string(name) + ".fast") == doctest::Approx(a.at(name)).epsilon(1e-5));
      CHECK(all.at(std::string(name) + ".slow") == doctest::Approx(b.at(name)).epsilon(1e-5));
      const double x = a.at(name), y = b.at(name);  // of as many values
      CHECK(all.at(name) ==
            doctest::Approx(std::string(name) == "rmse" ? std::sqrt((x * x + y * y) / 2) : (x + y) / 2).epsilon(1e-5));
    }
  };
  check(both, of_fast, of_slow);
  for (const char* method : {"persistence", "seasonal_naive", "theta", "linear_ar"}) {
    CAPTURE(method);
    check(both_baselines.at(method), fast_baselines.at(method), slow_baselines.at(method));
  }
  // By hand: at 16 17 17 18 18 19, of the value before each window.
  CHECK(both_baselines.at("persistence").at("mae.fast") == doctest::Approx((31 + 64 + 33 + 68 + 35 + 72) / 6.0));
  double absolute = 0;
  for (int t = 16; t < 19; ++t) absolute += std::fabs(slow(t) - slow(t - 1)) + std::fabs(slow(t + 1) - slow(t - 1));
  CHECK(both_baselines.at("persistence").at("mae.slow") == doctest::Approx(absolute / 6));
}

TEST_CASE("NaN in the place of a missing target changes neither loss, metrics nor gradients") {
  const auto task = make_forecast(two_series(), table(), "t.csv");
  const auto backend = make_backend("cpu", {.threads = 1});
  std::int64_t n_missing = 0;
  for (std::int64_t index = 0; index < task->n_batches(Split::train); ++index) {
    const Batch batch = task->batch(Split::train, 1, 0, index);
    Graph graph;
    Scope scope(graph, /*training=*/true);
    const TaskGraph built = task->build(scope, batch);
    graph.output("loss", built.loss);
    for (const MetricValue& metric : built.metrics) graph.output(metric.name, metric.total);
    output_gradients(scope, built.loss);
    TensorMap inputs = initialize(scope.parameters(), 1);
    for (const auto& [name, tensor] : batch.inputs) inputs.insert_or_assign(name, tensor);
    const TensorMap wanted = evaluate(graph, *backend, inputs);
    Tensor& target = inputs.at("target");
    for (std::int64_t i = 0; i < target.elements(); ++i) {
      if (inputs.at("observed").at(i) != 0) continue;
      target.set(i, std::nan(""));
      ++n_missing;
    }
    for (const auto& [key, tensor] : evaluate(graph, *backend, inputs)) {
      const std::string& name = key;  // clang 14 captures no structured binding
      CAPTURE(name);
      for (std::int64_t i = 0; i < tensor.elements(); ++i) CHECK(tensor.at(i) == wanted.at(name).at(i));
    }
  }
  CHECK(n_missing > 0);
}

TEST_CASE("errors of series whose squares are beyond f32 are those of small series, scaled") {
  const auto metrics_at = [](double scale) {
    std::string csv = "slow,fast\n";
    for (int t = 0; t < 20; ++t) csv += exact_text(scale * slow(t)) + "," + exact_text(scale * fast(t)) + "\n";
    const Trained m(make_forecast(two_series(), csv, "scaled.csv"), 3);
    Trainer trainer(m.task, *m.backend, small_training(1));
    trainer.set_parameters(m.parameters);
    return trainer.evaluate(Split::test).metrics;
  };
  const auto wanted = metrics_at(1);
  for (const double scale : {0x1p110, 0x1p-110})  // powers of two: standardized numbers are the same
    for (const auto& metric : metrics_at(scale)) {
      const std::string& name = metric.first;
      CAPTURE(scale);
      CAPTURE(name);
      const double unit = name.starts_with("mae") || name.starts_with("rmse") ? scale : 1;
      // The scale of an error in double: a few roundings of 2^-53.
      CHECK(metric.second == doctest::Approx(unit * wanted.at(name)).epsilon(1e-14).scale(0));
    }
}

TEST_CASE("reports of training have the metrics of all series together, validations those of each too") {
  const auto backend = make_backend("cpu", {.threads = 1});
  const auto reports_of = [&] {
    TrainerOptions t = small_training(6);
    t.log_every = 2;
    t.validate_every = 3;
    std::vector<std::map<std::string, double>> all;
    Trainer(make_forecast(two_series(), table(), "t.csv"), *backend, t).fit([&](const Progress& p) {
      all.push_back(p.validation_loss ? p.validation_metrics : p.metrics);
      CHECK(all.back().size() == (p.validation_loss ? 12 : 4));
    });
    return all;
  };
  const auto reports = reports_of();
  CHECK(reports.size() == 5);
  CHECK(reports == reports_of());
  for (const auto& metrics : reports) {
    CHECK(metrics.at("mae") > 0.1);
    CHECK(metrics.at("rmse") >= metrics.at("mae"));
    CHECK(metrics.at("rmse") < 1000);
    if (metrics.size() == 9)
      CHECK(metrics.at("mae") == doctest::Approx((metrics.at("mae.fast") + metrics.at("mae.slow")) / 2));
  }
}

TEST_CASE("a task whose metrics change from batch to batch is refused") {
  class Changing : public TinyTask {
   public:
    TaskGraph build(Scope& scope, const Batch& like) const override {
      TaskGraph t = TinyTask::build(scope, like);
      const Value one = filled(scope.graph(), {DType::f32, {}}, 1);
      if (like.inputs.at("x").elements() == 3) t.metrics.push_back({"more", one, one});
      return t;
    }
    Batch batch(Split split, std::uint64_t, std::int64_t, std::int64_t index) const override {
      Batch b;
      b.inputs.emplace("x", Tensor(DType::f32, {split == Split::train || index == 0 ? 2 : 3}));
      return b;
    }
  };
  const auto backend = make_backend("cpu", {.threads = 1});
  Trainer trainer(std::make_shared<Changing>(), *backend, small_training(2));
  CHECK_THROWS_WITH_AS(trainer.evaluate(Split::test),
                       doctest::Contains("the task's metrics differ between batches"), Error);
}

TEST_CASE("a stream of several series gives each series' values ahead in its own units") {
  const auto backend = make_backend("cpu", {.threads = 1});
  for (const bool difference : {false, true}) {
    ForecastOptions o = two_series();
    o.difference = difference ? "first" : "none";
    o.test = 0.1;  // 18 and 19: one window
    const auto task = make_forecast(o, table(), "t.csv");
    Trainer trainer(task, *backend, small_training(5));
    trainer.fit();
    const auto metrics = trainer.evaluate(Split::test).metrics;
    Stream stream(*backend, task_stream(task->metadata()), trainer.parameters());
    REQUIRE(stream.inputs() == 2);
    REQUIRE(stream.outputs() == 4);
    std::vector<float> y(4);
    for (int t = difference ? 14 : 15; t < 18; ++t) {
      const std::vector<float> x{static_cast<float>(fast(t)), static_cast<float>(slow(t))};
      REQUIRE(stream.step(x, y));
      if (difference && t == 14) {  // the first window of training begins with a change: 14 gives it, and is not read
        stream.reset();
        TensorMap state = stream.save();
        std::string last, seen;
        for (const auto& [name, tensor] : state) {
          if (tensor.elements() == 2) last = name;
          if (tensor.elements() == 1) seen = name;
        }
        for (int s = 0; s < 2; ++s) state.at(last).set(s, x[static_cast<std::size_t>(s)]);
        state.at(seen).set(0, 1);
        stream.restore(state);
      }
    }
    const auto error = [&](double (*of)(int), std::size_t s) {
      return (std::fabs(y[s] - of(18)) + std::fabs(y[2 + s] - of(19))) / 2;
    };
    CHECK(error(fast, 0) == doctest::Approx(metrics.at("mae.fast")).epsilon(1e-4));
    CHECK(error(slow, 1) == doctest::Approx(metrics.at("mae.slow")).epsilon(1e-4));
  }
}

TEST_CASE("a list of one column is that column, and a file without a header has numbers for names") {
  ForecastOptions one = two_series();
  one.columns = {"slow"};
  CHECK(make_forecast(one, table(), "t.csv")->metadata() == make_forecast(alone("slow"), table(), "t.csv")->metadata());
  std::string plain;
  for (int t = 0; t < 20; ++t) plain += std::to_string(t) + "," + exact_text(slow(t)) + "\n";
  one.columns = {"2", "1"};
  CHECK(make_forecast(one, plain, "t.csv")->metadata().at("series.1.column") == "1");
  one.columns = {"3"};
  CHECK_THROWS_WITH_AS(make_forecast(one, plain, "t.csv"), doctest::Contains("a column's number, 1 to 2"), Error);
}

TEST_CASE("rows before each series has begun are left out, so that all of them begin on one day") {
  ForecastOptions o = two_series();
  std::string late = "fast,slow\n";
  for (int t = 0; t < 40; ++t) late += std::to_string(t) + "," + (t < 10 ? "" : std::to_string(100 + t)) + "\n";
  const auto task = make_forecast(o, late, "t.csv");
  const Metadata m = task->metadata();
  CHECK(number(m, "scaler.mean") == doctest::Approx((10 + 27) / 2.0));  // training is 18 of 30 rows
  CHECK(number(m, "series.1.scaler.mean") == doctest::Approx((110 + 127) / 2.0));
  o.columns = {"fast", "none"};
  std::string empty = "fast,none\n";
  for (int t = 0; t < 40; ++t) empty += std::to_string(t) + ",\n";
  CHECK_THROWS_WITH_AS(make_forecast(o, empty, "t.csv"), doctest::Contains("column 'none' has no numbers"), Error);
}

TEST_CASE("columns that are missing, repeated or of text are refused with what they are and what there is") {
  const auto refused = [](std::vector<std::string> columns, const std::string& csv, const char* says) {
    ForecastOptions o = two_series();
    o.columns = std::move(columns);
    CAPTURE(says);
    CHECK_THROWS_WITH_AS(make_forecast(o, csv, "t.csv"), doctest::Contains(says), Error);
  };
  refused({"fast", "quick"}, table(), "has no column 'quick'. Columns: day, slow, word, fast");
  refused({"fast", "slow", "fast"}, table(), "columns lists 'fast' twice");
  refused({"fast", ""}, table(), "columns has an empty name");
  refused({"fast", "word"}, table(), "line 2, column 3 ('word'): 'w' is not a number. "
          "Name the columns of numbers in data.columns");
  refused({"fast", "slow"}, "fast,slow,fast\n1,2,3\n", "columns 1 and 3 are both 'fast'");
  ForecastOptions o = two_series();
  o.column = "fast";
  CHECK_THROWS_WITH_AS(make_forecast(o, table(), "t.csv"), doctest::Contains("column and columns are both set"), Error);
}

TEST_CASE("a model of some series is not used for others") {
  const Metadata fitted = make_forecast(two_series(), table(), "t.csv")->metadata();
  CHECK(make_forecast(two_series(), table(3, 7), "t.csv", fitted)->metadata() == fitted);
  const auto refused = [&](const ForecastOptions& o, const char* says) {
    CHECK_THROWS_WITH_AS(make_forecast(o, table(), "t.csv", fitted), doctest::Contains(says), Error);
  };
  ForecastOptions o = two_series();
  o.columns = {"slow", "fast"};
  refused(o, "the model forecasts 'fast'; column 1 of columns is 'slow'");
  refused(alone("fast"), "the model forecasts 2 series; columns names 1");
  o = two_series();
  o.horizon = 3;
  refused(o, "the model forecasts 2 values ahead; horizon is 3");
}

TEST_CASE("a forecast reads the column and the dates that it was trained on, or names what is missing") {
  ForecastOptions o = plain_forecast();
  o.model.hidden = 2;
  o.window = 2;
  o.period = 2;
  o.column = "a";
  const auto rows = [](const std::string& header, const char* order) {
    std::string csv = header;
    for (int d = 1; d <= 28; ++d)
      for (const char* c = order; *c; ++c) {
        csv += *c == 'd' ? "2024-01-" + std::string(d < 10 ? "0" : "") + std::to_string(d)
                         : std::to_string(*c == 'a' ? d % 5 : 900 + d % 3);
        csv += c[1] ? "," : "\n";
      }
    return csv;
  };
  const auto read = [](const Metadata& model, const std::string& csv) {
    return SeriesEnds(model, split_from_text(csv, "t.csv").file, "t.csv", 2, 1);
  };
  const auto refused = [&](const Metadata& model, const std::string& csv, const char* says) {
    CAPTURE(csv.substr(0, csv.find('\n')));
    CHECK_THROWS_WITH_AS(read(model, csv), doctest::Contains(says), Error);
  };
  const std::string trained = rows("date,a,b\n", "dab");
  const Metadata model = make_forecast(o, trained, "f.csv")->metadata();
  CHECK(model.at("date") == "date");
  using Order = std::pair<const char*, const char*>;
  for (const auto& [header, order] :
       {Order{"date,a,b\n", "dab"}, Order{"date,b,a\n", "dba"}, Order{"b,a,date\n", "bad"}}) {
    const SeriesEnds ends = read(model, rows(header, order));
    CHECK(ends.at(0).values == std::vector<double>{2, 3});
    CHECK(ends.columns() == std::vector<std::string>{"a"});
    CHECK(ends.at(0).next == std::vector<std::string>{"2024-01-29"});
  }
  CHECK(read(model, rows("", "da")).columns() == std::vector<std::string>{"a"});
  refused(model, rows("date,b\n", "db"), "has no column 'a', which the model reads");
  refused(model, rows("a,b\n", "ab"), "has no column 'date', which the model reads");
  refused(model, rows("", "dab"), "no header line; the model finds its columns by name: date, a");

  o.date = "none";
  const Metadata undated = make_forecast(o, trained, "f.csv")->metadata();
  CHECK(undated.at("date") == "none");
  CHECK(read(undated, trained).at(0).next == std::vector<std::string>{"1"});
  CHECK(read(undated, rows("a,b\n", "ab")).at(0).values == read(undated, trained).at(0).values);
  Metadata older = undated;
  older.erase("date");
  CHECK(read(older, trained).at(0).next == std::vector<std::string>{"1"});

  ForecastOptions other = o;
  other.window = 3;
  CHECK_THROWS_WITH_AS(make_forecast(other, trained, "f.csv", undated), doctest::Contains("data.window = '2'"), Error);
  other = o;
  other.column = "b";
  CHECK_THROWS_WITH_AS(make_forecast(other, trained, "f.csv", undated),
                       doctest::Contains("the model forecasts 'a'; column is 'b'"), Error);
}

TEST_CASE("the data check looks at every series, and names the one") {
  std::string csv = "fast,slow\n";
  for (int t = 0; t < 300; ++t) csv += std::to_string(t % 7) + "," + (t % 5 == 0 ? "" : std::to_string(t % 11)) + "\n";
  csv += "5000,1\n";
  const DataCheck c = check_data(two_series(), csv, "t.csv");
  std::string said;
  for (const DataFinding& f : c.findings) said += f.what + "\n";
  CHECK(said.find("fast: 1 outlier: the distance from the median (3)") != std::string::npos);
  CHECK(said.find("slow: 19.9 % of the values are missing") != std::string::npos);
  const auto figure = [&](const std::string& name) {
    for (const auto& [key, value] : c.figures)
      if (key == name) return value;
    return -1.0;
  };
  CHECK(figure("highest of fast") == 5000);
  CHECK(figure("highest of slow") == 10);
  CHECK(figure("missing numbers") == 60);
}
