// SPDX-License-Identifier: Apache-2.0
#include "core/ir/match/polynomial.h"

#include <algorithm>

namespace unroll::polynomials {

constexpr std::size_t k_most_terms = 64;

Polynomial sum(const Polynomial& a, const Polynomial& b, double scale) {
  Polynomial result = a;
  for (const auto& [monomial, coefficient] : b) {
    double& c = result[monomial];
    c += scale * coefficient;
    if (c == 0) result.erase(monomial);
  }
  if (result.size() > k_most_terms) throw TooLarge{};
  return result;
}

Polynomial product(const Polynomial& a, const Polynomial& b) {
  Polynomial result;
  for (const auto& [ma, ca] : a)
    for (const auto& [mb, cb] : b) {
      Monomial m;
      std::merge(ma.begin(), ma.end(), mb.begin(), mb.end(), std::back_inserter(m));
      if (m.size() > k_most_terms) throw TooLarge{};
      result = sum(result, {{std::move(m), ca * cb}}, 1);
    }
  return result;
}

}  // namespace unroll::polynomials
