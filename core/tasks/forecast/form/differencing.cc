// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/forecast/form/differencing.h"

#include <algorithm>
#include <map>

#include "unroll/ir/ops.h"

namespace unroll {

Differencing::Differencing(std::vector<std::int64_t> lags) : lags_(std::move(lags)) {
  std::map<std::int64_t, double> product{{0, 1}};
  for (const std::int64_t lag : lags_) {
    std::map<std::int64_t, double> longer = product;
    for (const auto& [back, weight] : product) longer[back + lag] -= weight;
    product = std::move(longer);
  }
  for (const auto& [back, weight] : product)
    if (weight != 0) terms_.push_back({back, weight});
}

namespace {

Value difference(Value x, std::int64_t lag) {
  const std::int64_t n = x.shape()[0] - lag;
  return slice(x, 0, lag, n) - slice(x, 0, 0, n);
}

// Sums x [n,B,H,S] over the steps h, h - lag, h - 2 lag, ... by doubling.
Value lagged_sum(Value x, std::int64_t lag) {
  const std::int64_t H = x.shape()[2];
  for (std::int64_t by = lag; by < H; by *= 2) {
    const Value late = slice(x, 2, by, H - by) + slice(x, 2, 0, H - by);
    x = concat({slice(x, 2, 0, by), late}, 2);
  }
  return x;
}

// Repeats the last `lag` rows before each of the last n steps as often as the horizon needs: [n,B,H,S].
Value repeated(Value x, std::int64_t lag, std::int64_t n, std::int64_t horizon) {
  const std::int64_t R = x.shape()[0], B = x.shape()[1], S = x.shape()[2];
  std::vector<Value> steps;
  for (std::int64_t h = 0; h < std::min(lag, horizon); ++h)
    steps.push_back(reshape(slice(x, 0, R - n - (lag - 1 - h), n), {n, B, 1, S}));
  const Value season = steps.size() == 1 ? steps[0] : concat(steps, 2);
  if (horizon <= lag) return season;
  const std::vector<Value> seasons((horizon + lag - 1) / lag, season);
  return slice(concat(seasons, 2), 2, 0, horizon);
}

}  // namespace

Value Differencing::differences(Value levels) const {
  for (const std::int64_t lag : lags_) levels = difference(levels, lag);
  return levels;
}

Value Differencing::continuation(Value levels, std::int64_t n, std::int64_t horizon) const {
  std::vector<Value> stages;  // the input of each differencing
  for (const std::int64_t lag : lags_) {
    stages.push_back(levels);
    levels = difference(levels, lag);
  }
  if (lags_.size() == 1 && lags_[0] == 1) horizon = 1;
  Value sum;
  for (std::size_t i = lags_.size(); i-- > 0;) {
    const Value season = repeated(stages[i], lags_[i], n, horizon);
    sum = sum ? lagged_sum(sum, lags_[i]) + season : season;
  }
  return sum;
}

std::string Differencing::text() const {
  std::string all;
  for (const std::int64_t lag : lags_) all += (all.empty() ? "" : ",") + std::to_string(lag);
  return all.empty() ? "0" : all;
}

}  // namespace unroll
