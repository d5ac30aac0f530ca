// SPDX-License-Identifier: Apache-2.0
// Normal form of vectors as sums of products. Two graphs have equal normal forms if their results are equal over the
// reals by these laws: commutativity, associativity, distributivity, slicing and concatenation of products, and the
// identities between exp, sigmoid and tanh. Rounding and overflow are ignored.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/ir/match/polynomial.h"
#include "unroll/ir/graph.h"

namespace unroll {

// Part of a matrix M that is an input of the graph (of its transpose where `transposed`): [rows, columns] from (row,
// column).
struct MatrixPart {
  std::int32_t input = 0;
  bool transposed = false;
  std::int64_t row = 0, rows = 0, column = 0, columns = 0;
  auto operator<=>(const MatrixPart&) const = default;
};

// A factor of a monomial: a row of some width. A row of width 1 is the same for every element.
struct Atom {
  enum class Kind : std::uint8_t { part, product, function };
  Kind kind = Kind::part;
  std::int32_t input = 0;                  // part: elements [start, start + size) of the last axis of an input
  std::int64_t start = 0, size = 0;
  MatrixPart matrix = {};                  // product: arguments[0] times the transpose of this
  Op op = Op::input;                       // function: of its arguments
  std::vector<Polynomial> arguments = {};
  auto operator<=>(const Atom&) const = default;
};

struct Segment {
  std::int64_t width;
  Polynomial value;
};
using Row = std::vector<Segment>;  // side by side

// Equal atoms are one atom.
class Atoms {
 public:
  int intern(Atom atom) {
    const auto [at, is_new] = ids_.try_emplace(atom, static_cast<int>(atoms_.size()));
    if (is_new) atoms_.push_back(std::move(atom));
    return at->second;
  }
  const Atom& operator[](int id) const { return atoms_[id]; }
  std::size_t size() const { return atoms_.size(); }

 private:
  std::vector<Atom> atoms_;
  std::map<Atom, int> ids_;
};

// The outputs of `graph` in terms of its inputs, of which the first n_rows are rows [...,B,n] and the others vectors
// [n] and matrices. No value where an output has no such form (row reductions, draws, indices), or too large a one.
// A scan inside must have one step.
std::vector<std::optional<Row>> normal_forms(Atoms& atoms, const Graph& graph, std::size_t n_rows);

}  // namespace unroll
