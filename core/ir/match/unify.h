// SPDX-License-Identifier: Apache-2.0
// Unifies a pattern with a subject. Both are normal forms. The inputs of the pattern that are not data are unknowns.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "core/ir/match/normal_form.h"

namespace unroll {

// Unknown vectors of the pattern (atoms) which together, as a sum, must be a polynomial of the subject's vectors.
struct UnknownSum {
  std::vector<int> unknowns;
  Polynomial value;
};
struct Unified {
  std::map<MatrixPart, MatrixPart> matrices;  // of the pattern -> of the subject
  std::vector<UnknownSum> sums;
};

struct Side {
  const Atoms& atoms;
  std::size_t n_rows;                    // inputs that are rows
  std::vector<Polynomial> results;       // in an order in which the pattern's and the subject's belong together
};

// rows[i]: which row of the subject row i of the pattern is.
std::optional<Unified> unify(const Side& pattern, const Side& subject, const std::vector<std::int32_t>& rows);

}  // namespace unroll
