// SPDX-License-Identifier: Apache-2.0
// Random expressions, and what their results may be: bounds that implementations whose functions are within a few ulp
// keep.
#pragma once

#include <array>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "backends/common/expression.h"

namespace unroll::testing {

using common::Expression;
using common::Instruction;
using Engine = std::mt19937_64;

// What a value may be: a number of [lo, hi], or also NaN. lo > hi: NaN only. Truths are 0 and 1. Ends are infinite
// where a result may overflow.
struct Bound {
  long double lo = 0, hi = 0;
  bool nan = false;
  bool holds(double x) const { return x != x ? nan : lo <= x && x <= hi; }
  bool is_tight() const;  // certainly NaN, or one number but for rounding
};

// The result of one instruction for operands within bounds. Sums, products, quotients and roots are rounded correctly,
// functions are off by at most `ulp`; results below the smallest normal number may be flushed.
Bound bound_of(const Instruction& instruction, const Bound& a, const Bound& b, const Bound& c, int ulp);
// What the results of one element follow from: its inputs as doubles, its number, and the key of draws.
struct Element {
  std::vector<double> inputs;
  std::int64_t number = 0;
  std::array<std::int32_t, 3> key{};
};
// Of every result. Draws and index values are exact.
std::vector<Bound> bounds_of(const Expression& expression, const Element& element, int ulp);

// The dtypes on which an elementwise op is defined, by its shape rule; for cast, of its operand.
std::vector<DType> dtypes_of(Op op);

// 1 to 20 instructions of any elementwise ops over a shape of up to 3 dimensions; operands dense, broadcast or, for
// inputs, transposed. All results are dense. Engines in the same state give the same tree for every `larger`, which is
// added to extents other than 1. With draws a third of the trees has them, and index values.
Expression random_expression(Engine& engine, bool with_f64, std::int64_t larger = 0, bool with_draws = false);
bool has_draws(const Expression& expression);  // or index values

// Elements that the memory of an operand holds.
std::int64_t extent_of(const Shape& shape, const common::Strides& strides);
std::int64_t extent_of(const Shape& shape, const Expression::Input& input);
std::int64_t offset_of(const Shape& shape, const common::Strides& strides, std::int64_t element);

// A number for an element of the dtype: often one that breaks things.
double random_number(Engine& engine, DType dtype);
// Numbers in memory.
std::vector<std::byte> bytes_of(DType dtype, const std::vector<double>& numbers);
double number_at(DType dtype, const std::vector<std::byte>& bytes, std::int64_t element);

std::string text_of(const Expression& expression);

}  // namespace unroll::testing
