// SPDX-License-Identifier: Apache-2.0
// The Theta method, beside forecasts of statsforecast 2.1 (models.Theta, decomposition_type = "multiplicative").
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "core/tasks/forecast/theta.h"
#include "tests/training/small_tasks.h"
#include "unroll/tasks/backtest.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

using Values = std::vector<double>;

// Monthly passengers of 1949 to 1959 (Box & Jenkins 1970, series G).
const Values k_airline{
    112, 118, 132, 129, 121, 135, 148, 148, 136, 119, 104, 118, 115, 126, 141, 135, 125, 149, 170, 170, 158, 133,
    114, 140, 145, 150, 178, 163, 172, 178, 199, 199, 184, 162, 146, 166, 171, 180, 193, 181, 183, 218, 230, 242,
    209, 191, 172, 194, 196, 196, 236, 235, 229, 243, 264, 272, 237, 211, 180, 201, 204, 188, 235, 227, 234, 264,
    302, 293, 259, 229, 203, 229, 242, 233, 267, 269, 270, 315, 364, 347, 312, 274, 237, 278, 284, 277, 317, 313,
    318, 374, 413, 405, 355, 306, 271, 306, 315, 301, 356, 348, 355, 422, 465, 467, 404, 347, 305, 336, 340, 318,
    362, 348, 363, 435, 491, 505, 404, 359, 310, 337, 360, 342, 406, 396, 420, 472, 548, 559, 463, 407, 362, 405};
const Values k_short{3, 5, 4, 6, 8, 7, 9, 12, 11, 13};
const Values k_zeros{0, 2, 5, 1, 0, 3, 6, 2, 0, 4, 8, 3, 1, 4, 9, 3, 0, 5, 10, 4};

// Noise on a trend, without a season.
Values noise() {
  Values values;
  for (int t = 0; t < 40; ++t) values.push_back(t * 7919 % 31 + 0.5 * t + 5);
  return values;
}

void check_near(const Values& found, const Values& wanted, double tolerance) {
  REQUIRE(found.size() == wanted.size());
  for (std::size_t h = 0; h < found.size(); ++h) CHECK(std::fabs(found[h] - wanted[h]) <= tolerance);
}

Values plus(Values values, double offset) {
  for (double& value : values) value += offset;
  return values;
}
Values times(Values values, double factor) {
  for (double& value : values) value *= factor;
  return values;
}

}  // namespace

// statsforecast leaves the first three errors out of the sum, and stops at an optimum that its simplex finds. Both
// change the level by less than one percent of the values here.
TEST_CASE("theta has the forecasts of statsforecast, with factors, with terms and without a season") {
  check_near(theta_forecast(k_airline, 12, 12),
             {411.370, 402.275, 462.883, 444.675, 447.932, 509.595, 561.839, 559.458, 490.429, 427.281, 371.957,
              419.006}, 0.01);
  check_near(theta_forecast(k_short, 1, 4), {13.008, 13.554, 14.099, 14.645}, 0.07);
  check_near(theta_forecast(noise(), 12, 6), {37.436, 37.685, 37.934, 38.183, 38.432, 38.680}, 0.06);
  check_near(theta_forecast(k_zeros, 4, 8), {1.795, 5.380, 9.060, 4.302, 2.138, 5.724, 9.403, 4.645}, 0.01);
  // A place of the season that is nearly zero takes terms in place of factors.
  Values spikes;
  for (int t = 0; t < 40; ++t) spikes.push_back(t % 4 == 0 ? 100 + t : 0.01 + 0.1 * (t * 7 % 5));
  check_near(theta_forecast(spikes, 4, 4), {122.948, 3.286, 3.924, 3.525}, 0.3);
}

TEST_CASE("theta takes the scale of the values, and with terms for the season their origin") {
  const Values forecast = theta_forecast(k_airline, 12, 12);
  for (const double factor : {1e-290, 1e290})
    for (std::size_t h = 0; h < forecast.size(); ++h)
      CHECK(theta_forecast(times(k_airline, factor), 12, 12)[h] == doctest::Approx(factor * forecast[h]));
  check_near(theta_forecast(plus(k_zeros, -1000), 4, 8), plus(theta_forecast(k_zeros, 4, 8), -1000), 1e-6);
}

TEST_CASE("theta repeats a constant, and reads few values as well as many") {
  CHECK(theta_forecast(Values{7}, 12, 3) == Values{7, 7, 7});
  CHECK(theta_forecast(Values(30, -0.1), 12, 2) == Values{-0.1, -0.1});
  CHECK(theta_forecast(Values(30, 0), 1, 2) == Values{0, 0});
  check_near(theta_forecast(Values{1, 3}, 1, 2), {4, 5}, 1);  // a drift of 1, half the slope
  CHECK(theta_forecast(k_short, 1, 0).empty());
  // Less than two periods show no season.
  Values two_spikes(39, 1);
  two_spikes[0] = two_spikes[20] = 9;
  CHECK(theta_forecast(two_spikes, 20, 4) == theta_forecast(two_spikes, 1, 4));
  CHECK(theta_forecast(k_short, 1'000'000, 4) == theta_forecast(k_short, 1, 4));
  for (const std::int64_t period : {1, 7, 30, 500, 1'000'000}) {
    const std::int64_t read = theta_history(period);
    CHECK(read == std::clamp<std::int64_t>(10 * period, 200, 2'000));
    Values last, all{1e6, -1e6};
    for (std::int64_t t = 0; t < read; ++t) last.push_back(static_cast<double>(t * t % 17 + t % 7));
    all.insert(all.end(), last.begin(), last.end());
    CHECK(theta_forecast(all, period, 9) == theta_forecast(last, period, 9));
  }
}

TEST_CASE("the autocorrelation of a trend is no season") {
  Values values;
  for (int t = 0; t < 30; ++t) values.push_back(5 * t + t * 7919 % 31);
  CHECK(theta_forecast(values, 4, 4) == theta_forecast(values, 1, 4));
}

TEST_CASE("a seasonal series with a trend continues with both") {
  for (const bool multiplicative : {true, false})
    for (const int period : {4, 5, 12}) {
      const auto level = [&](int t) {
        const double season = std::sin(2 * std::acos(-1) * t / period), trend = 100 + 0.05 * t;
        return multiplicative ? trend * (1 + 0.3 * season) : trend - 100 + 30 * season;
      };
      Values past, wanted;
      for (int t = 0; t < 10 * period; ++t) past.push_back(level(t));
      for (int h = 0; h < 2 * period; ++h) wanted.push_back(level(10 * period + h));
      // The drift is half the trend, so that a step adds 0.025 to the error.
      check_near(theta_forecast(past, period, 2 * period), wanted, 0.03 * 2 * period);
    }
}

TEST_CASE("theta is a baseline of one series and of many") {
  constexpr int k_test = 33, k_horizon = 3;
  const int n = static_cast<int>(k_airline.size());
  ForecastErrors errors;
  for (int t = n - k_test; t + k_horizon <= n; ++t) {
    const Values found = theta_forecast(std::span(k_airline).first(t), 12, k_horizon);
    for (int h = 0; h < k_horizon; ++h) errors.add(found[h], k_airline[t + h], 0);
  }
  for (const bool many : {false, true}) {
    ForecastOptions o = plain_forecast();
    o.model.hidden = 4;
    o.column = "y";
    o.date = "none";
    o.window = 4;
    o.horizon = k_horizon;
    o.period = 12;
    o.scale = "auto";
    o.test = 0.25;
    std::string csv = many ? "unique_id,t,y\n" : "y\n";
    for (int s = 0; s < (many ? 2 : 1); ++s)
      for (int t = 0; t < n; ++t)
        csv += (many ? std::to_string(s) + "," + std::to_string(t) + "," : "") + std::to_string(k_airline[t]) + "\n";
    if (many) o.id = "unique_id";
    const auto task = make_forecast(o, csv, "f.csv");
    CHECK(task->baselines(Split::test).at("theta").at("mae") == doctest::Approx(errors.absolute / errors.n));
    const BaselineForecaster theta(*task, "theta");
    CHECK(theta.history() == 200);
    check_near(theta.predict(std::vector<Values>{k_short})[0], theta_forecast(k_short, 12, 3), 1e-5);
  }
}
