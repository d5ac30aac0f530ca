// SPDX-License-Identifier: Apache-2.0
// Inputs and answers of a forecasting network, in place of the levels of its series. Shapes: W window, R values that
// the linear part reads, B rows of a batch, S series, H horizon.
#pragma once

#include <optional>
#include <string_view>

#include "core/tasks/common/task_parts.h"
#include "core/tasks/forecast/form/covariates.h"
#include "core/tasks/forecast/form/differencing.h"
#include "core/tasks/forecast/form/distribution.h"

namespace unroll {

struct ForecastForm {
  Differencing differencing;
  bool by_window = false;      // each window has its own scale
  std::int64_t regressed = 0;  // R; 0: no linear part
  bool is_common = false;      // one model of many segments, whose levels may differ by orders of magnitude
  bool is_non_negative = false;  // forecasts below 0 are raised to 0
  Covariates covariates = {};
  Distribution distribution = {};

  std::int64_t depth() const { return differencing.depth(); }
  // The scale of a constant window, in units of the common scale. It is above zero, and its square is above the
  // smallest f32.
  double least_scale() const { return is_common ? 1e-15 : 0.01; }
  // Levels as they are forecast, in units of the series. `unit` is that of their distribution.
  Value shown(Value level, Value unit) const;
  double shown(double level, double unit) const;
};
// Reads data.difference, "first,seasonal" or "1,12", or its form in metadata. Returns nothing for other words and for
// lags beyond k_most_back.
std::optional<Differencing> differencing_in(std::string_view words, std::int64_t period);
void put_form(Metadata& metadata, const ForecastForm& form);
ForecastForm get_form(const Metadata& metadata);  // throws Error(input_file)

// The linear part: the forecast of series s, h steps ahead, is bias[s,h] + sum over r of weight[s,r,h] * window[r].
// With covariates, it forecasts what their effects leave of the series: it is a regression with autoregressive errors
// (Hyndman & Athanasopoulos 2021, section 10). Effects are those of the changes of K features in h steps.
struct LinearStart {
  Tensor weight, bias;  // [S,R,H], [S,1,H]
  Tensor effect;        // [H,K,S]
  Tensor deviation;     // [S,H] of its errors, in units of the window
};

// The answers to x [W,B,S], both standardized.
struct ForecastAnswers {
  Value y;     // [B,H,S]
  Value unit;  // [B,1,S], the scale of each window; empty unless form.by_window
  std::vector<Value> parameters;  // of the distribution, P times [B,H,S]
};
// `covariates` [D+W+H,B,C] are as Covariates::values takes them, or empty. `start` has the initial values of the linear
// part; without it they are zero.
ForecastAnswers forecast_answers(Scope& scope, Value x, Value covariates, const RecurrentModelOptions& model,
                                 const ForecastForm& form, std::int64_t horizon, const LinearStart* start = nullptr);
// The linear part alone: window [W,B,S] -> [B,H,S].
Value linear_forecast(const Scope& scope, Value window, std::int64_t regressed, std::int64_t horizon,
                      const LinearStart* start = nullptr);

// The layer that answers the parameters of values [H,S], from a state [B,width]. It begins with the deviations of the
// linear part's errors.
struct DistributionLayer {
  Value weight, bias;  // [P*H*S,width], [P,H,S]
};
DistributionLayer distribution_layer(const Scope& scope, const Distribution& distribution, const Shape& values,
                                     std::int64_t width, const LinearStart* start = nullptr);

}  // namespace unroll
