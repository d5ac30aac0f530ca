// SPDX-License-Identifier: Apache-2.0
// Cumulative distribution functions and their inverses.
#pragma once

#include <functional>

namespace unroll {

double normal_cumulative(double x);
// Student's t with nu > 0 degrees of freedom (Abramowitz & Stegun 1964, 26.7.1).
double student_cumulative(double x, double nu);
// The number of failures, k = 0, 1, ..., before `successes` > 0 at a probability of 1 - p each (26.5.26 there).
double negative_binomial_cumulative(double k, double successes, double p);

// The sum of n exponentially distributed amounts of mean 1, n of a Poisson distribution with the mean `number`.
double compound_exponential_cumulative(double x, double number);

// Returns x between low and high where the increasing function `cumulative` reaches the share, to 1e-9 of x.
double inverse_of(const std::function<double(double)>& cumulative, double share, double low, double high);

}  // namespace unroll
