// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace unroll {

// Inverse of the normal distribution function at p between 0 and 1, relative error below 1.2e-9 (P. J. Acklam's
// rational approximation). It uses only IEEE arithmetic and sqrt, no libm, so the bits are the same everywhere.
double normal_quantile(double p);

}  // namespace unroll
