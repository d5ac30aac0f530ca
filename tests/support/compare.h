// SPDX-License-Identifier: Apache-2.0
// How closely two runs must agree, and whether a result says anything at all.
#pragma once

#include <string>
#include <vector>

#include "unroll/support/tensor.h"

namespace unroll::testing {

// u and s below: unit roundoff of accumulation and of storage, 2^-24 for f32 and 2^-53 for f64.
// A result stored in 16 bits is verified as f32, and besides it may be the neighbor in its format of the right number:
// 2^-7 of it for bf16, 2^-10 for f16.
// Denormal numbers: those of f16 are normal numbers in f32, so no backend may flush them. Those of bf16 are denormal in
// f32 as well, and may be flushed where the backend flushes.
enum class Rule {
  exact,        // movement, whole numbers, comparisons, masks, random bits
  pointwise,    // |error| <= 4 ulp * depth                       depth: functions of this accuracy in a row
  contraction,  // |error_i| <= 4 * (u * ceil(log2 K) + 2 s) * sum |a||b|, the mixed forward-error bound; depth: K
  norm,         // relative L2 <= 4 * (2 if backward) * ceil(log2 K) * s and L-infinity <= 16 times that; depth: K,
                // the summed numbers per step times the number of steps
};
struct Agreement {
  Rule rule = Rule::pointwise;
  int depth = 1;
};

struct Comparison {
  double ratio = 0;  // worst error over allowed error; above 1 is a failure
  std::string worst;  // where and by how much, empty when all is equal
};

// `got` (of the verified run) against `wanted` (f64 reference or the same dtype). `magnitude` is used by contraction:
// the same graph on absolute values, which is sum |a||b|. `flushes`: the backend flushes denormal numbers, so that each
// function in a row, or each term, may be off by the smallest normal number.
Comparison compare(const Tensor& got, const Tensor& wanted, const Tensor* magnitude, Agreement agreement,
                   bool backward = false, bool flushes = false);
// The same type and bytes.
bool same_bits(const Tensor& a, const Tensor& b);
// The same names, each with the same bits.
bool same_bits(const TensorMap& a, const TensorMap& b);
// Of elements of the same place; tensors of different types are an error.
double largest_difference(const Tensor& a, const Tensor& b);

// Why a result proves nothing: constant, more than 90 % zeros, more than half saturated. Empty when it can be trusted.
// Fewer than four numbers are always trusted.
std::string mistrust(const Tensor& result);

}  // namespace unroll::testing
