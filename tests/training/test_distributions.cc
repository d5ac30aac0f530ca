// SPDX-License-Identifier: Apache-2.0
// Distributions of forecasts: their quantiles and likelihoods beside SciPy 1.17, and what a model learns of them.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "core/nn/normal_quantile.h"
#include "core/tasks/forecast/form/cumulative.h"
#include "core/tasks/forecast/form/distribution.h"
#include "tests/support/refusal.h"
#include "tests/support/text.h"
#include "tests/training/small_tasks.h"
#include "unroll/model/stream.h"
#include "unroll/tasks/backtest.h"
#include "unroll/tasks/inference.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

const char* const k_families[] = {"quantiles", "normal", "student_t", "normal_mixture", "negative_binomial",
                                   "tweedie"};

// The loss of one value on the reference backend.
double loss_of(const char* family, double error, double target, double mean, const std::vector<double>& parameters) {
  Graph graph;
  const auto input = [&](const std::string& name) { return graph.input(name, {DType::f32, {1, 1}}); };
  DistributionValues v{input("error"), input("target"), input("mean"), {}};
  TensorMap inputs{{"error", Tensor::filled(v.error.type(), error)},
                   {"target", Tensor::filled(v.error.type(), target)},
                   {"mean", Tensor::filled(v.error.type(), mean)}};
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const std::string name = "parameter" + std::to_string(p);
    v.parameters.push_back(input(name));
    inputs.emplace(name, Tensor::filled(v.error.type(), parameters[p]));
  }
  graph.output("loss", Distribution(family).loss(v));
  const auto backend = make_backend("reference");
  return Program(graph, *backend).run(inputs).at("loss").at(0);
}

// Pseudo-random shares, evenly spread.
class Shares {
 public:
  double next() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;  // Knuth's MMIX generator
    return (static_cast<double>(state_ >> 33) + 0.5) / 2147483648.0;
  }

 private:
  std::uint64_t state_ = 7;
};

ForecastOptions noise_forecast(const char* family) {
  ForecastOptions o = plain_forecast();
  o.model.hidden = 4;
  o.distribution = family;
  o.date = "none";
  o.window = 8;
  o.horizon = 2;
  o.period = 1;
  o.autoregression = true;
  o.non_negative = "auto";
  return o;
}

}  // namespace

TEST_CASE("quantiles of a normal, a t and a negative binomial distribution are those of SciPy") {
  for (const auto& [share, x] :
       {std::pair(1e-6, -4.753424308822899), {0.025, -1.9599639845400545}, {0.9, 1.2815515655446004}})
    CHECK(normal_quantile(share) == doctest::Approx(x).epsilon(1e-8));
  struct T {
    double nu, share, x;
  };
  for (const T& t : {T{2.5, 0.025, -3.5746548420036834}, {2.5, 0.1, -1.7302509288071761},
                     {2.5, 0.995, 7.163728138948783}, {6, 0.5, 0}, {6, 0.9, 1.4397557472651483},
                     {300, 0.025, -1.967903011261087}, {300, 0.995, 2.5923164108477925}}) {
    CAPTURE(t.nu);
    CHECK(Distribution("student_t").quantile(t.share, 10, 3, std::vector<double>{2, t.nu}) ==
          doctest::Approx(10 + 6 * t.x).epsilon(1e-7));
  }
  struct Counts {
    double mean, dispersion, share, k;
  };
  for (const Counts& c : {Counts{3, 0.5, 0.025, 0}, {3, 0.5, 0.5, 2}, {3, 0.5, 0.9, 7}, {3, 0.5, 0.995, 14},
                          {2000, 0.01, 0.025, 1618}, {2000, 0.01, 0.5, 1993}, {2000, 0.01, 0.995, 2566},
                          {0.2, 4, 0.5, 0}, {0.2, 4, 0.9, 1}, {0.2, 4, 0.995, 4}})
    CHECK(Distribution("negative_binomial").quantile(c.share, c.mean, 1, std::vector<double>{c.dispersion}) == c.k);
  // Sums of the compound distribution's terms, by mpmath.
  for (const Counts& c : {Counts{0.8, 0.5, 0.5, 0.6850833797926681}, {0.8, 0.5, 0.9, 1.6124163124482338},
                          {0.8, 0.5, 0.025, 0}, {0.1, 2, 0.3, 0}, {0.1, 2, 0.9, 0.36925412824414944},
                          {25, 0.3, 0.975, 38.02512714625145}})
    CHECK(Distribution("tweedie").quantile(c.share, 7 * c.mean, 7, std::vector<double>{c.dispersion}) ==
          doctest::Approx(7 * c.k).epsilon(1e-7));
}

TEST_CASE("a mixture holds the share below its quantile, and listed quantiles are met, others between them") {
  const std::vector<double> mixture{0.2, 0.5, 0.3, -1, 0.4, 0, 0.5, 1, 2};
  for (const double share : {0.001, 0.2, 0.5, 0.99}) {
    const double x = (Distribution("normal_mixture").quantile(share, 5, 2, mixture) - 5) / 2;
    const double below = 0.2 * normal_cumulative((x + 1) / 0.5) + 0.5 * normal_cumulative(x - 0.4) +
                         0.3 * normal_cumulative(x / 2);
    CHECK(below == doctest::Approx(share).epsilon(1e-6));
  }
  const std::vector<double> offsets{-9, -5, -3, -1, 2, 3, 4, 7};
  const auto quantile = [&](double share) { return Distribution("quantiles").quantile(share, 100, 10, offsets); };
  CHECK(quantile(0.05) == doctest::Approx(50));
  CHECK(quantile(0.5) == doctest::Approx(100));
  CHECK(quantile(0.9) == doctest::Approx(130));
  double last = quantile(0.001);
  for (double share = 0.01; share < 1; share += 0.01) {
    CHECK(quantile(share) > last);
    last = quantile(share);
  }
}

TEST_CASE("the loss of a likelihood is its negative logarithm as SciPy computes it") {
  CHECK(loss_of("normal", 0.3, 0, 0, {0.5}) == doctest::Approx(0.4057913526447273).epsilon(1e-5));
  CHECK(loss_of("normal", -4, 0, 0, {2}) == doctest::Approx(3.612085713764618).epsilon(1e-5));
  CHECK(loss_of("student_t", 0.3, 0, 0, {0.5, 2.5}) == doctest::Approx(0.5589214755763156).epsilon(1e-5));
  CHECK(loss_of("student_t", -4, 0, 0, {2, 30}) == doctest::Approx(3.5604462217258863).epsilon(1e-5));
  CHECK(loss_of("negative_binomial", 0, 0, 0.2, {4}) == doctest::Approx(0.14694666622552974).epsilon(1e-4));
  CHECK(loss_of("negative_binomial", 0, 7, 3, {0.5}) == doctest::Approx(3.3289192884304093).epsilon(1e-5));
  CHECK(loss_of("negative_binomial", 0, 2100, 2000, {0.01}) == doctest::Approx(6.405451565091141).epsilon(1e-3));
  CHECK(loss_of("tweedie", 0, 0, 0.8, {0.5}) == doctest::Approx(3.5777087639996634).epsilon(1e-5));
  CHECK(loss_of("tweedie", 0, 1.3, 0.8, {0.5}) == doctest::Approx(1.0828407152036381).epsilon(1e-5));
  CHECK(loss_of("tweedie", 0, 0.02, 1, {2}) == doctest::Approx(1.0100166113323747).epsilon(1e-5));
  CHECK(loss_of("tweedie", 0, 7, 3, {0.05}) == doctest::Approx(20.162283710045138).epsilon(1e-4));
  CHECK(loss_of("tweedie", 0, 30, 25, {0.3}) == doctest::Approx(3.1766796506484023).epsilon(1e-5));
  // Of equal components, a mixture is one of them.
  CHECK(loss_of("normal_mixture", 0.3, 0, 0, {0.2, 0.5, 0.3, 0, 0, 0, 0.5, 0.5, 0.5}) ==
        doctest::Approx(loss_of("normal", 0.3, 0, 0, {0.5})).epsilon(1e-5));
  // The value is 1 above the lower quantiles and 2 below the others: twice the mean of nine quantile losses.
  const double below = 0.025 + 0.05 + 0.1 + 0.25 + 0.5, above = 0.25 + 0.1 + 0.05 + 0.025;
  CHECK(loss_of("quantiles", 1, 0, 0, {0, 0, 0, 0, 3, 3, 3, 3}) == doctest::Approx(2 * (below + 2 * above) / 9));
}

TEST_CASE("bounds of a trained distribution hold their share of the noise of a series") {
  for (const char* family : k_families) {
    CAPTURE(family);
    const bool counts = std::string(family) == "negative_binomial", amounts = std::string(family) == "tweedie";
    Shares shares;
    std::string csv = "y\n";
    std::vector<double> history;
    for (int t = 0; t < 600; ++t) {
      const double noise = counts || amounts
                               ? Distribution(family).quantile(shares.next(), 6, 1, std::vector<double>{0.3})
                               : 50 + 4 * normal_quantile(shares.next());
      csv += std::to_string(noise) + "\n";
      if (t < 8) history.push_back(noise);
    }
    const Trained m(make_forecast(noise_forecast(family), csv, "f.csv"), 60);
    Forecaster forecaster(m.metadata, m.parameters, *m.backend);
    REQUIRE(forecaster.has_distribution());
    const std::vector<double> bounds = forecaster.bounds({&history, 1}, std::vector<double>{0.5, 0.9})[0];
    REQUIRE(bounds.size() == 8);  // two levels, two sides, two steps
    for (std::size_t h = 0; h < 2; ++h) {
      CHECK(bounds[4 + h] <= bounds[h]);
      CHECK(bounds[2 + h] <= bounds[6 + h]);
    }
    const std::vector<double> levels{0.9};
    const ForecastIntervals intervals(*m.task, forecaster, IntervalScores::levels(levels));
    IntervalScores scores(levels);
    for_each_forecast(*m.task, Split::test, forecaster, [&](const PastForecast& f) { scores.add(f); }, {},
                      &intervals);
    std::map<std::string, double> metrics;
    scores.put(metrics);
    CHECK(metrics.at("coverage_90") > 0.82);  // of 240 values
    CHECK(metrics.at("coverage_90") < 0.97);
    for_each_forecast(*m.task, Split::test, forecaster,
                      [&](const PastForecast& f) {
                        CHECK(f.bounds[0] <= f.forecast);
                        CHECK(f.bounds[1] >= f.forecast);
                        if (counts) CHECK(f.bounds[0] == std::floor(f.bounds[0]));
                      },
                      {}, &intervals);
    if (counts || amounts) continue;
    CHECK(bounds[4] == doctest::Approx(50 - 1.645 * 4).epsilon(0.06));
    CHECK(bounds[6] == doctest::Approx(50 + 1.645 * 4).epsilon(0.06));
    CHECK(metrics.at("crps") == doctest::Approx(4 * 0.5642).epsilon(0.15));  // of a normal distribution
  }
}

TEST_CASE("predictions of counts and amounts are equal in predict, network and stream, and above zero") {
  std::string csv = "y\n";
  std::vector<double> values;
  for (int t = 0; t < 120; ++t) {
    values.push_back(t % 7 == 3 ? 5 + t % 4 : t % 3 == 0 ? 1 : 0);
    csv += std::to_string(static_cast<int>(values.back())) + "\n";
  }
  const std::array<const char*, 2> families{"negative_binomial", "tweedie"};
  for (int k = 0; k < 4; ++k)
    for (const char* difference : {"none", "seasonal"}) {
      const char* const scale = k % 2 == 0 ? "series" : "window";
      CAPTURE(families[k / 2]);
      CAPTURE(scale);
      CAPTURE(difference);
      ForecastOptions o = noise_forecast(families[k / 2]);
      o.scale = scale;
      o.difference = difference;
      o.period = 7;
      const Trained m(make_forecast(o, csv, "f.csv"), 10);
      Forecaster forecaster(m.metadata, m.parameters, *m.backend);
      const auto T = static_cast<std::size_t>(forecaster.history());
      const Forecaster::Values history(values.begin() + 30, values.begin() + 30 + static_cast<std::ptrdiff_t>(T));
      const Forecaster::Values wanted = forecaster.predict({&history, 1})[0];
      Tensor x(DType::f32, {static_cast<std::int64_t>(T), 1, 1});
      for (std::size_t i = 0; i < T; ++i) x.set(static_cast<std::int64_t>(i), history[i]);
      const TensorMap outputs =
          Model(*m.backend, task_inference(m.metadata).network, m.parameters).run(TensorMap{{"x", x}});
      Stream stream(*m.backend, task_stream(m.metadata), m.parameters);
      std::vector<float> y(2);
      for (const double value : history) REQUIRE(stream.step(std::vector<float>{static_cast<float>(value)}, y));
      for (std::size_t h = 0; h < 2; ++h) {
        CHECK(wanted[h] > 0);
        CHECK(outputs.at("forecast").at(static_cast<std::int64_t>(h)) == doctest::Approx(wanted[h]).epsilon(1e-4));
        if (o.scale == "window")  // otherwise the layers of a stream go on from rows before the window
          CHECK(y[h] == doctest::Approx(wanted[h]).epsilon(1e-4));
      }
    }
}

TEST_CASE("paths of a random walk spread as the root of the steps, and depend on the seed alone") {
  Shares shares;
  double level = 100;
  std::string csv = "y\n";
  for (int t = 0; t < 600; ++t) csv += std::to_string(level += 2 * normal_quantile(shares.next())) + "\n";
  ForecastOptions o = noise_forecast("normal");
  o.horizon = 1;
  o.difference = "first";
  const Trained m(make_forecast(o, csv, "f.csv"), 60);
  Forecaster forecaster(m.metadata, m.parameters, *m.backend);
  std::vector<Forecaster::Values> histories{Forecaster::Values(9, 100.0), Forecaster::Values(9, 500.0)};
  constexpr std::size_t k_paths = 400, k_steps = 9;
  const auto both = forecaster.paths(histories, k_paths, k_steps, 3);
  REQUIRE(both[1].size() == k_paths * k_steps);
  const auto deviation_at = [&](std::size_t step) {
    double sum = 0, square = 0;
    for (std::size_t p = 0; p < k_paths; ++p) {
      const double x = both[0][p * k_steps + step] - 100;
      sum += x;
      square += x * x;
    }
    return std::sqrt(square / k_paths - sum * sum / k_paths / k_paths);
  };
  // The deviation of 400 values is known to 4 %, and that of the noise as well.
  CHECK(deviation_at(0) == doctest::Approx(2).epsilon(0.12));
  CHECK(deviation_at(3) == doctest::Approx(4).epsilon(0.15));
  CHECK(deviation_at(8) == doctest::Approx(6).epsilon(0.15));
  CHECK(forecaster.paths(histories, k_paths, k_steps, 3) == both);
  CHECK(forecaster.paths({&histories[0], 1}, k_paths, k_steps, 3)[0] == both[0]);
  const auto few = [&](std::uint64_t seed) { return forecaster.paths({&histories[0], 1}, 5, k_steps, seed)[0]; };
  CHECK(few(4) != few(3));
  CHECK(mentions(refusal([&] { forecaster.paths(histories, 0); }), "the number of paths must be at least 1"));
}

TEST_CASE("a distribution of counts refuses other values, and a model without one has no bounds") {
  ForecastOptions o = noise_forecast("negative_binomial");
  std::string csv = "y\n";
  for (int t = 0; t < 60; ++t) csv += std::to_string(t % 5) + "\n";
  const auto refused = [&](const std::string& table) { return refusal([&] { make_forecast(o, table, "f.csv"); }); };
  CHECK(refused(csv) == "nothing was refused");
  CHECK(mentions(refused(csv + "-1\n" + csv.substr(2)), "and some values are no whole numbers from 0 on"));
  CHECK(mentions(refused(csv + "0.5\n" + csv.substr(2)), "is for counts"));
  o.non_negative = "no";
  CHECK(mentions(refused(csv), "which are never below 0"));
  o = noise_forecast("tweedie");
  CHECK(refused(csv + "0.5\n" + csv.substr(2)) == "nothing was refused");
  CHECK(mentions(refused(csv + "-1\n" + csv.substr(2)), "is for amounts, and some values are below 0"));
  o.distribution = "cauchy";
  CHECK(mentions(refused(csv), "model.distribution"));
  const Trained m(make_forecast(noise_forecast("none"), csv, "f.csv"), 2);
  Forecaster forecaster(m.metadata, m.parameters, *m.backend);
  const Forecaster::Values history(8, 1.0);
  CHECK(mentions(refusal([&] { forecaster.bounds({&history, 1}, std::vector<double>{0.8}); }), "has no distribution"));
  CHECK(mentions(refusal([&] { forecaster.paths({&history, 1}, 5); }), "has no distribution"));
}
