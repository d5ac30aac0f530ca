// SPDX-License-Identifier: Apache-2.0
// Differencing of series, in numbers and in a graph. Shapes: B rows of a batch, S series, H horizon.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "unroll/ir/value.h"

namespace unroll {

inline constexpr std::int64_t k_most_back = 1'000'000;  // largest lag, and largest sum of lags

// The product of (1 - L^lag) over the lags, where L^lag x is x `lag` steps earlier (Box & Jenkins 1970, section 9.1).
// {1}: changes from step to step; {12}: changes from season to season; {1, 12}: changes of those changes; {}: the
// values themselves.
class Differencing {
 public:
  explicit Differencing(std::vector<std::int64_t> lags = {});
  std::string text() const;  // "1,12"; without lags "0"

  bool empty() const { return lags_.empty(); }
  std::int64_t depth() const { return terms_.back().back; }  // how far the difference at t reads back

  // level(k) is the value k steps before t.
  template <class Level>
  double at(const Level& level) const {
    double sum = 0;
    for (const Term& term : terms_) sum += term.weight * level(term.back);
    return sum;
  }
  // Inverts `at`: adds to the differences `values` of t, t + 1, ... what makes them levels. level(k), k > 0, is the
  // level k steps before t.
  template <class Level>
  void integrate(const Level& level, std::span<double> values) const {
    for (std::int64_t h = 0; h < std::ssize(values); ++h)
      for (std::size_t k = 1; k < terms_.size(); ++k) {
        const Term& term = terms_[k];
        values[h] -= term.weight * (term.back <= h ? values[h - term.back] : level(term.back - h));
      }
  }

  // levels [D+N,B,S] -> differences [N,B,S], where D is depth().
  Value differences(Value levels) const;
  // levels [D+N,B,S] -> for each of the last n steps, what `integrate` makes of zero differences after it: [n,B,H,S],
  // or an extent 1 instead of H where all are equal. Requires lags.
  Value continuation(Value levels, std::int64_t n, std::int64_t horizon) const;

 private:
  struct Term {
    std::int64_t back;
    double weight;
  };
  std::vector<std::int64_t> lags_;
  std::vector<Term> terms_;  // from the latest; the first is {0, 1}
};

}  // namespace unroll
