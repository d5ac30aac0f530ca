// SPDX-License-Identifier: Apache-2.0
// The distribution of a forecast value: a family whose parameters the network answers beside the forecast. Shapes: B
// rows of a batch, N values of a row (H*S), P parameters of a value.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "unroll/ir/graph.h"

namespace unroll {

// Values of a batch, as a likelihood reads them. Shapes [B,N].
struct DistributionValues {
  Value error;                    // (target - forecast) / unit
  Value target, mean;             // of amounts: target and forecast, from 0 on; in units, unless they are counts
  std::vector<Value> parameters;  // P
};

struct DistributionRow;  // of a family

class Distribution {
 public:
  Distribution() = default;  // none: a forecast has no distribution
  // Throws Error(usage) on an unknown family.
  explicit Distribution(std::string_view family);

  bool empty() const { return row_ == nullptr; }
  std::string_view family() const;    // "none" if empty
  std::int64_t n_parameters() const;  // P
  bool is_of_amounts() const;         // values are from 0 on
  bool is_of_counts() const;          // and whole numbers
  // Returns the first answers of the network [P], for a value whose errors have this deviation, in its unit.
  std::vector<double> start(double deviation) const;
  // raw: answers of the network
  std::vector<Value> parameters(std::span<const Value> raw) const;
  // The negative logarithm of the likelihood of each target; of quantiles, twice the mean of their quantile losses.
  Value loss(const DistributionValues& values) const;
  // The value that a share of the distribution does not exceed.
  double quantile(double share, double forecast, double unit, std::span<const double> parameters) const;

 private:
  const DistributionRow* row_ = nullptr;
};

// Forecasts of amounts are above 0: softplus with a slope of 1 for large ones, in units of the series.
Value positive_amount(Value forecast, Value unit);
double positive_amount(double forecast, double unit);

}  // namespace unroll
