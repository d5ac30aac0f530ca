// SPDX-License-Identifier: Apache-2.0
// One series of a forecast: what is read and learnt of it, in units of its own, and what simple methods make of it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/data/windows.h"
#include "frontends/model/tasks/task_parts.h"

namespace unroll {

// The names of the columns: at least one, each once; of one alone perhaps "". Throws Error(usage).
std::vector<std::string> columns_of(const ForecastOptions& options);

// Sums over values that were observed; those of several series add up.
struct ForecastErrors {
  double absolute = 0, square = 0, n = 0;
  double scaled = 0, n_scaled = 0;  // in units of each series' seasonal error, where there is one

  ForecastErrors& operator+=(const ForecastErrors& other);
  // mae, rmse and, where there is one, mase, each with `suffix` behind its name; nothing when n is 0
  void put(std::map<std::string, double>& metrics, const std::string& suffix) const;
};

class ForecastSeries {
 public:
  // `windows` begin at the positions that are learnt from, which see nothing at or behind `train_end`.
  ForecastSeries(std::string name, Series series, const ForecastOptions& options);
  void fit(std::span<const std::int64_t> windows, std::int64_t train_end);
  void use(std::vector<ZScore> ahead) { ahead_ = std::move(ahead); }
  // What mase counts in: the error of seasonal_naive one value ahead, over what training may see; 0 when there is none.
  void fit_seasonal_error(std::int64_t train_end);

  const std::string& name() const { return name_; }
  const std::vector<ZScore>& ahead() const { return ahead_; }
  double seasonal_error() const { return seasonal_error_; }
  bool is_observed(std::int64_t t) const { return series_.observed[static_cast<std::size_t>(t)]; }
  float read_at(std::int64_t t) const {
    return static_cast<float>(ahead_[0].apply(values_[static_cast<std::size_t>(t)]));
  }
  // What is to be learnt of the value h steps behind t, seen from t.
  float learnt_at(std::int64_t t, std::int64_t h) const {
    return static_cast<float>(ahead_[static_cast<std::size_t>(h)].apply(target_of(t, h)));
  }

  // By the name of the method, over all values ahead of the windows at `test`; linear_ar learns from those at `train`.
  static constexpr std::string_view k_methods[] = {"persistence", "seasonal_naive", "linear_ar"};
  std::map<std::string_view, ForecastErrors> errors(std::span<const std::int64_t> test,
                                                    std::span<const std::int64_t> train) const;

 private:
  double level(std::int64_t t) const { return series_.level[static_cast<std::size_t>(std::max<std::int64_t>(t, 0))]; }
  double target_of(std::int64_t t, std::int64_t h) const { return level(t + h) - (difference_ ? level(t - 1) : 0); }
  std::vector<double> path(std::string_view method, const Autoregression& ar, std::int64_t t) const;

  std::string name_;
  Series series_;
  std::vector<double> values_;  // what the model reads: levels or differences
  bool difference_;
  std::int64_t window_, horizon_, period_;
  std::vector<ZScore> ahead_;   // of what is predicted, by distance; the first also of what is read
  double seasonal_error_ = 0;
};

}  // namespace unroll
