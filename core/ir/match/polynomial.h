// SPDX-License-Identifier: Apache-2.0
// Arithmetic on sums of products of atoms.
#pragma once

#include <map>
#include <vector>

namespace unroll {

using Monomial = std::vector<int>;              // atoms, ascending, with repetition; empty: the number 1
using Polynomial = std::map<Monomial, double>;  // coefficients, none of them zero

namespace polynomials {

// A form has more terms or factors than are worth comparing.
struct TooLarge {};

inline Polynomial number(double x) { return x == 0 ? Polynomial{} : Polynomial{{{}, x}}; }
inline bool is_number(const Polynomial& p) { return p.empty() || (p.size() == 1 && p.begin()->first.empty()); }
inline double number_of(const Polynomial& p) { return p.empty() ? 0 : p.begin()->second; }
// a + scale * b; throws TooLarge.
Polynomial sum(const Polynomial& a, const Polynomial& b, double scale);
inline Polynomial scaled(const Polynomial& p, double scale) { return sum({}, p, scale); }
// Throws TooLarge.
Polynomial product(const Polynomial& a, const Polynomial& b);

}  // namespace polynomials

}  // namespace unroll
