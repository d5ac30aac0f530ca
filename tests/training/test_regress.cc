// SPDX-License-Identifier: Apache-2.0
// Numbers for rows of a table: metrics in the units of the data, predictions that agree with networks and streams.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/support/text/exact_text.h"
#include "tests/training/small_tasks.h"
#include "tests/training/task_gradients.h"
#include "unroll/model/stream.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"
#include "unroll/tasks/inference.h"
#include "unroll/tasks/predict.h"
#include "unroll/tasks/predict_tables.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

// Four values of a line, then its slope and where it begins, in units of their own.
std::string lines_csv(int n = 120) {
  std::string csv = "a,b,c,d,slope,start\n";
  for (int i = 0; i < n; ++i) {
    const double slope = 0.25 * (i * 7 % 9 - 4), start = i % 5 - 2;
    for (int t = 0; t < 4; ++t) csv += std::to_string(start + slope * t) + ",";
    csv += std::to_string(100 * slope) + "," + std::to_string(3 + 0.01 * start) + "\n";
  }
  return csv;
}

RegressOptions line_options(std::vector<std::string> targets = {"slope", "start"}) {
  RegressOptions o;
  o.model.hidden = 8;
  o.targets = std::move(targets);
  o.columns = {"a", "b", "c", "d"};
  o.batch = 16;
  return o;
}

std::vector<Regressor::Row> some_rows() { return {{0, 1, 2, 3}, {2, 1.5, 1, 0.5}, {-1, -1, -1, -1}}; }

// The rows of the test set and their targets in the units of the data.
struct TestRows {
  std::vector<Regressor::Row> rows;
  std::vector<std::vector<double>> targets;
  explicit TestRows(const std::string& csv, const Trained& m) {
    FeatureReader reader(m.metadata, "rows");
    std::vector<FeatureReader::Row> all;
    std::int64_t number = 0;
    for (std::size_t at = 0; at < csv.size(); at = csv.find('\n', at) + 1)
      if (auto row = reader.read(std::string_view(csv).substr(at, csv.find('\n', at) - at), ++number))
        all.push_back(std::move(*row));
    for (std::int64_t i = 0; i < m.task->n_batches(Split::test); ++i) {
      const Batch batch = m.task->batch(Split::test, 0, 0, i);
      const Tensor& x = batch.inputs.at("x");
      const std::int64_t B = x.shape()[1];
      for (std::int64_t b = 0; b < B; ++b)
        for (const FeatureReader::Row& row : all) {
          bool same = true;
          for (std::int64_t t = 0; t < 4; ++t)
            same = same && x.at(t * B + b) == static_cast<float>(row.values[static_cast<std::size_t>(t)]);
          if (!same) continue;
          rows.push_back(row.values);
          targets.emplace_back();
          for (const std::string& cell : row.targets) targets.back().push_back(std::stod(cell));
          break;
        }
    }
  }
};

}  // namespace

TEST_CASE("a regressor's errors are those of the task's own evaluation, in the units of the data") {
  const std::string csv = lines_csv();
  const Trained m(make_regress(line_options(), csv, "lines"), 60);
  const TestRows test(csv, m);
  REQUIRE(std::ssize(test.rows) == 24);
  Regressor regressor(m.metadata, m.parameters, *m.backend);
  CHECK(regressor.targets() == std::vector<std::string>{"slope", "start"});
  const auto values = regressor.predict(test.rows);
  double absolute[2] = {}, square[2] = {};
  for (std::size_t i = 0; i < values.size(); ++i)
    for (std::size_t k = 0; k < 2; ++k) {
      const double error = values[i][k] - test.targets[i][k];
      absolute[k] += std::fabs(error) / 24;
      square[k] += error * error / 24;
    }
  Trainer trainer(m.task, *m.backend, small_training(1));
  trainer.set_parameters(m.parameters);
  const auto metrics = trainer.evaluate(Split::test).metrics;
  // Sums of 24 errors in f32, of targets up to 100: a few dozen roundings of 2^-24.
  const auto near = [](double x) { return doctest::Approx(x).epsilon(1e-5); };
  CHECK(metrics.at("mae.slope") == near(absolute[0]));
  CHECK(metrics.at("mae.start") == near(absolute[1]));
  CHECK(metrics.at("rmse.slope") == near(std::sqrt(square[0])));
  CHECK(metrics.at("mae") == near((absolute[0] + absolute[1]) / 2));
  CHECK(metrics.at("rmse") == near(std::sqrt((square[0] + square[1]) / 2)));
}

// Metrics of a task of which `scale` multiplies all values, a power of two, so that standardized numbers are the same.
std::map<std::string, double> metrics_at(double scale) {
  std::string csv = "a,b,slope,start\n";
  for (int i = 0; i < 60; ++i)
    csv += std::to_string(i % 7) + "," + std::to_string(i % 5) + "," + exact_text(scale * (i * 7 % 9 - 4)) + "," +
           exact_text(scale * (3 + 0.25 * (i % 5))) + "\n";
  RegressOptions o = line_options();
  o.columns = {"a", "b"};
  const Trained m(make_regress(o, csv, "scaled"), 3);
  Trainer trainer(m.task, *m.backend, small_training(1));
  trainer.set_parameters(m.parameters);
  return trainer.evaluate(Split::test).metrics;
}

TEST_CASE("errors of targets whose squares are beyond f32 are those of small targets, scaled") {
  const auto wanted = metrics_at(1);
  for (const double scale : {0x1p110, 0x1p-110})
    for (const auto& metric : metrics_at(scale)) {
      const std::string& name = metric.first;
      CAPTURE(scale);
      CAPTURE(name);
      const double unit = name == "r2" ? 1 : scale;
      // The scale of an error in double: a few roundings of 2^-53.
      CHECK(metric.second == doctest::Approx(unit * wanted.at(name)).epsilon(1e-14).scale(0));
    }
}

TEST_CASE("a regression learns lines, and r2 is what it gains on the mean of the training set") {
  const std::string csv = lines_csv();
  const Trained m(make_regress(line_options({"slope"}), csv, "lines"), 300);
  Trainer trainer(m.task, *m.backend, small_training(1));
  trainer.set_parameters(m.parameters);
  const auto metrics = trainer.evaluate(Split::test).metrics;
  const auto mean = m.task->baselines(Split::test).at("mean");
  CHECK(mean.at("r2") == 0);
  CHECK(metrics.at("r2") > 0.9);
  CHECK(metrics.at("mae") < 0.3 * mean.at("mae"));
  const double gain = 1 - std::pow(metrics.at("rmse") / mean.at("rmse"), 2);
  CHECK(metrics.at("r2") == doctest::Approx(gain).epsilon(1e-4));
  CHECK_FALSE(metrics.contains("mae.slope"));  // the only one
}

TEST_CASE("ridge regression knows lines, and logistic regression classes on two sides of a plane") {
  const auto lines = make_regress(line_options(), lines_csv(), "f.csv");
  const auto baselines = lines->baselines(Split::test);
  CHECK(baselines.at("ridge").at("r2") > 0.99);
  CHECK(baselines.at("ridge").at("mae.slope") < 0.05 * baselines.at("mean").at("mae.slope"));
  CHECK(baselines.at("mean").at("r2") == 0);
  std::string csv = "a,b,label\n";
  for (int i = 0; i < 200; ++i) {
    const double a = std::sin(i * i), b = 1000 * std::cos(3 * i + i * i);
    csv += exact_text(a) + "," + exact_text(b) + "," + (a + b / 1000 > 0.1 ? "up" : "down") + "\n";
  }
  ClassifyOptions o;
  o.steps = 2;
  o.batch = 16;
  const auto classes = make_classify(o, csv, "c.csv")->baselines(Split::test);
  CHECK(classes.at("logistic_regression").at("accuracy") >= 0.95);
  CHECK(classes.at("most_frequent").at("accuracy") < 0.7);
}

TEST_CASE("a linear baseline of a large training set names the rows that it is fitted to") {
  constexpr int k_columns = 200, k_rows = 2000, k_classes = 20;
  std::string csv;
  for (int i = 0; i < k_columns; ++i) csv += "x" + std::to_string(i) + ",";
  csv += "label\n";
  for (int row = 0; row < k_rows; ++row) {
    for (int i = 0; i < k_columns; ++i) csv += std::to_string((row * row + i) % 7) + ",";
    csv += "c" + std::to_string(row % k_classes) + "\n";
  }
  ClassifyOptions o;
  o.steps = 1;
  o.batch = 16;
  CHECK(make_classify(o, csv, "c.csv")->notes().back().starts_with("baseline logistic_regression: fitted to about 9"));
  const std::size_t few = csv.find('\n', csv.size() / 4);
  const std::vector<std::string> notes = make_classify(o, csv.substr(0, few + 1), "c.csv")->notes();
  CHECK_FALSE(notes.back().starts_with("baseline"));
}

TEST_CASE("a target that does not vary has no r2: the mean of the training set makes no error") {
  std::string csv = "a,b,c,d,constant\n";
  for (int i = 0; i < 50; ++i) csv += std::to_string(i) + ",1,2,3,5.1\n";  // whose sum of fiftieths is not 5.1
  const Trained m(make_regress(line_options({"constant"}), csv, "constants"), 1);
  Trainer trainer(m.task, *m.backend, small_training(1));
  trainer.set_parameters(m.parameters);
  CHECK(m.task->baselines(Split::test).at("mean").at("mae") == 0);
  CHECK_FALSE(trainer.evaluate(Split::test).metrics.contains("r2"));
}

TEST_CASE("predictor, network and stream of a regression give the same numbers in the units of the targets") {
  for (const double divide : {1.0, 4.0}) {
    CAPTURE(divide);
    RegressOptions o = line_options();
    o.divide = divide;
    const Trained m(make_regress(o, lines_csv(), "lines"), 30);
    const std::vector<Regressor::Row> rows = some_rows();
    const auto values = Regressor(m.metadata, m.parameters, *m.backend).predict(rows);
    const std::vector<PredictInput> inputs(rows.begin(), rows.end());
    const auto predictions = make_predictor(m.metadata, m.parameters, *m.backend)->predict(inputs);
    const Inference inference = task_inference(m.metadata);
    Tensor x(DType::f32, {4, 3, 1});
    for (std::int64_t b = 0; b < 3; ++b)
      for (std::int64_t t = 0; t < 4; ++t)
        x.set(t * 3 + b, rows[static_cast<std::size_t>(b)][static_cast<std::size_t>(t)]);
    const TensorMap outputs = Model(*m.backend, inference.network, m.parameters).run({{"x", x}});
    for (std::size_t b = 0; b < rows.size(); ++b) {
      Stream stream(*m.backend, task_stream(m.metadata), m.parameters, {});
      std::vector<float> y(2);
      for (const double value : rows[b]) {
        const auto step = static_cast<float>(value);
        REQUIRE(stream.step({&step, 1}, y));
      }
      for (std::size_t k = 0; k < 2; ++k) {
        CAPTURE(k);
        // A few hundred roundings of 2^-24, of numbers up to 100.
        const auto near = doctest::Approx(values[b][k]).epsilon(3e-5).scale(1);
        CHECK(std::get<Tensor>(predictions[b]).at(static_cast<std::int64_t>(k)) == values[b][k]);
        CHECK(outputs.at("values").at(static_cast<std::int64_t>(2 * b + k)) == near);
        CHECK(static_cast<double>(y[k]) == near);
      }
    }
  }
}

TEST_CASE("rows with gaps and other poolings are predicted, and one row as it is among others") {
  RegressOptions o = line_options();
  o.missing = "interpolate";
  o.pooling = "mean";
  const Trained m(make_regress(o, lines_csv(), "lines"), 20);
  Regressor regressor(m.metadata, m.parameters, *m.backend);
  std::vector<Regressor::Row> rows = some_rows();
  const auto whole = regressor.predict(rows);
  rows[0][1] = std::nan("");  // on a line between its neighbors
  const auto filled = regressor.predict(rows);
  CHECK(filled == whole);
  const auto one = regressor.predict(std::span(rows).subspan(1, 1));
  for (std::size_t k = 0; k < 2; ++k) CHECK(one[0][k] == doctest::Approx(whole[1][k]).epsilon(1e-5));
  CHECK_THROWS_WITH_AS(task_stream(m.metadata), doctest::Contains("needs the whole sequence: 'mean'"), Error);
}

TEST_CASE("the gradients of a regression are those of the reference") {
  const auto task = make_regress(line_options(), lines_csv(), "lines");
  const Batch batch = task->batch(Split::train, 1, 0, 0);
  const TensorMap reference = loss_and_gradients(*task, batch), cpu = loss_and_gradients(*task, batch, "cpu");
  REQUIRE(reference.size() > 4);
  for (const auto& expected : reference) {
    CAPTURE(expected.first);
    // Sums over 16 rows, 4 steps and 8 units of products of numbers below 10: a few hundred roundings of 2^-24 each.
    for (std::int64_t i = 0; i < expected.second.elements(); ++i)
      CHECK(std::fabs(cpu.at(expected.first).at(i) - expected.second.at(i)) <= 3e-5);
  }
}

TEST_CASE("files with targets, without them and in another order of columns are read as in training") {
  const Trained m(make_regress(line_options(), lines_csv(), "lines"), 1);
  FeatureReader with(m.metadata, "f"), without(m.metadata, "f"), one(m.metadata, "f");
  CHECK_FALSE(with.read("start,d,c,b,a,slope", 1));
  const auto row = with.read("3.5,4,3,2,1, 25.0", 2);
  REQUIRE(row);
  CHECK(row->values == std::vector<double>{1, 2, 3, 4});
  CHECK(row->targets == std::vector<std::string>{"25", "3.5"});
  CHECK_FALSE(without.read("a,b,c,d", 1));
  CHECK(without.read("1,2,3,4", 2)->targets.empty());
  CHECK_FALSE(one.read("a,b,c,d,slope", 1));
  CHECK(one.read("1,2,3,4,5", 2)->targets.empty());
}

TEST_CASE("without a header a file may have the target columns or not") {
  std::string csv = lines_csv();
  csv = csv.substr(csv.find('\n') + 1);
  RegressOptions o = line_options({"5", "2"});
  o.columns = {};
  const Trained m(make_regress(o, csv, "lines"), 1);
  FeatureReader with(m.metadata, "f"), without(m.metadata, "f");
  const auto row = with.read("1,2,3,4,5,6", 1);
  CHECK(row->values == std::vector<double>{1, 3, 4, 6});
  CHECK(row->targets == std::vector<std::string>{"5", "2"});
  CHECK(without.read("1,3,4,6", 1)->values == std::vector<double>{1, 3, 4, 6});
  FeatureReader few(m.metadata, "f");
  CHECK_THROWS_WITH_AS(few.read("1,3", 1), doctest::Contains("2 columns; the training file had 6"), Error);
}

TEST_CASE("a column without a name is found again by its place in the header") {
  std::string csv = ",a,slope\n";
  for (int i = 0; i < 40; ++i)
    csv += std::to_string(i) + "," + std::to_string(i % 7) + "," + std::to_string(i % 5) + "\n";
  RegressOptions o = line_options({"slope"});
  o.columns = {};
  const Trained m(make_regress(o, csv, "index"), 1);
  CHECK(m.task->batch(Split::test, 0, 0, 0).inputs.at("x").shape()[0] == 2);
  Metadata of_before = m.metadata;  // models of before have no name for it
  const std::size_t at = of_before["columns"].find("column 1");
  REQUIRE(at != std::string::npos);
  of_before["columns"].erase(at, 8);
  for (const Metadata& metadata : {m.metadata, of_before}) {
    FeatureReader reader(metadata, "f");
    CHECK_FALSE(reader.read(",slope,a", 1));
    CHECK(reader.read("1,3,2", 2)->values == std::vector<double>{1, 2});
    FeatureReader without(metadata, "f");
    CHECK_FALSE(without.read("a,slope", 1));
    CHECK_THROWS_WITH_AS(without.read("1,2", 2), doctest::Contains("has no column"), Error);
    const auto again = make_regress(o, csv, "index", metadata);
    CHECK(same_bits(again->batch(Split::test, 0, 0, 0).inputs, m.task->batch(Split::test, 0, 0, 0).inputs));
  }
}

TEST_CASE("what is no target is refused with its place and what to do") {
  const auto refusal = [](const RegressOptions& o, const std::string& csv, const Metadata& fitted = {}) {
    try {
      make_regress(o, csv, "f.csv", fitted);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  std::string word = lines_csv(), empty = word;
  word.replace(word.rfind(',') + 1, 4, "high");
  empty.replace(empty.rfind(',') + 1, 8, "");
  CHECK(has(refusal(line_options(), word), "'high"));
  CHECK(has(refusal(line_options(), empty), "the target is missing"));
  RegressOptions both = line_options();
  both.columns.push_back("slope");
  CHECK(has(refusal(both, lines_csv()), "column 'slope' is the target and one of columns"));
  CHECK(has(refusal(both, lines_csv()), "data.targets"));
  CHECK(has(refusal(line_options({"height"}), lines_csv()), "height"));
  CHECK(has(refusal(line_options({"slope", "slope"}), lines_csv()), "column 'slope' is named twice"));
  RegressOptions all = line_options({"slope"});
  all.columns = {};
  CHECK(has(refusal(all, "a,a,slope\n1,2,3\n"), "columns 1 and 2 are both 'a'"));
  const Metadata fitted = make_regress(line_options(), lines_csv(), "f.csv")->metadata();
  CHECK(has(refusal(line_options({"slope"}), lines_csv(), fitted),
            "data.targets names other columns than the model has"));
  CHECK(refusal(line_options(), lines_csv(), fitted) == "accepted");
}

TEST_CASE("a check counts targets that are no numbers") {
  std::string csv = lines_csv();
  CHECK(check_data(line_options(), csv, "f").findings.empty() == false);  // the same rows recur
  csv.replace(csv.rfind(',') + 1, 4, "high");
  bool found = false;
  for (const DataFinding& f : check_data(line_options(), csv, "f").findings)
    found = found || (f.error && f.what.find("1 target is missing") != std::string::npos);
  CHECK(found);
}
