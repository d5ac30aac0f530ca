// SPDX-License-Identifier: Apache-2.0
// The Theta method (Assimakopoulos & Nikolopoulos 2000), as simple exponential smoothing with drift.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace unroll {

// Returns how many of the last values theta_forecast reads: ten periods, but between 200 and 2,000.
std::int64_t theta_history(std::int64_t period);

// Predicts `steps` values after `values`, of which there is at least one, the oldest first. With an autocorrelation at
// the period, and two periods or more, the values are adjusted for the season.
std::vector<double> theta_forecast(std::span<const double> values, std::int64_t period, std::int64_t steps);

}  // namespace unroll
