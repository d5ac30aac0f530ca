// SPDX-License-Identifier: Apache-2.0
// Depth-first search over assignments of terms. Terms of a sum are first grouped by the inputs they depend on, so that
// only a few permutations remain.
#include "core/ir/match/unify.h"

#include <algorithm>

namespace unroll {

namespace {

constexpr int k_most_tries = 20000;

// Either two polynomials or two products of atoms that must be equal.
struct Goal {
  Polynomial pattern, subject;
  Monomial pattern_atoms, subject_atoms;
};
struct Bound {
  Unified unified;
  std::map<int, int> atoms;  // of the pattern -> of the subject
};

// Terms with one varying part: what it is multiplied by.
using Terms = std::map<Monomial, Polynomial>;

class Unifier {
 public:
  Unifier(const Side& pattern, const Side& subject, const std::vector<std::int32_t>& rows)
      : pattern_(pattern), subject_(subject), rows_(rows) {}

  std::optional<Unified> run() {
    if (pattern_.results.size() != subject_.results.size()) return std::nullopt;
    std::vector<Goal> goals;
    for (std::size_t k = 0; k < pattern_.results.size(); ++k)
      goals.push_back({pattern_.results[k], subject_.results[k], {}, {}});
    return solve(std::move(goals), {}) ? std::optional(std::move(found_)) : std::nullopt;
  }

 private:
  static bool is_vector(const Side& side, int id) {
    const Atom& atom = side.atoms[id];
    return atom.kind == Atom::Kind::part && static_cast<std::size_t>(atom.input) >= side.n_rows;
  }
  static Terms terms_of(const Side& side, const Polynomial& p) {
    Terms terms;
    for (const auto& [monomial, coefficient] : p) {
      Monomial varying, fixed;
      for (const int a : monomial) (is_vector(side, a) ? fixed : varying).push_back(a);
      terms[varying][fixed] = coefficient;
    }
    return terms;
  }

  bool solve(std::vector<Goal> goals, Bound bound) {
    if (++tries_ > k_most_tries) return false;
    if (goals.empty()) {
      found_ = std::move(bound.unified);
      return true;
    }
    const Goal goal = std::move(goals.back());
    goals.pop_back();
    return goal.pattern_atoms.empty() ? solve_sum(goal, goals, bound) : solve_product(goal, goals, bound);
  }

  bool solve_product(const Goal& goal, const std::vector<Goal>& goals, const Bound& bound) {
    const Monomial &p = goal.pattern_atoms, &s = goal.subject_atoms;
    for (std::size_t j = 0; j < s.size(); ++j) {
      if (j > 0 && s[j] == s[j - 1]) continue;
      std::vector<Goal> more = goals;
      Bound next = bound;
      if (p.size() > 1) {
        Goal rest{{}, {}, {p.begin() + 1, p.end()}, s};
        rest.subject_atoms.erase(rest.subject_atoms.begin() + static_cast<std::ptrdiff_t>(j));
        more.push_back(std::move(rest));
      }
      if (pair(p[0], s[j], more, next) && solve(std::move(more), std::move(next))) return true;
    }
    return false;
  }

  bool pair(int p, int s, std::vector<Goal>& goals, Bound& bound) const {
    const auto known = bound.atoms.find(p);
    if (known != bound.atoms.end()) return known->second == s;
    const Atom &a = pattern_.atoms[p], &b = subject_.atoms[s];
    if (a.kind != b.kind || a.op != b.op || a.arguments.size() != b.arguments.size()) return false;
    if (a.kind == Atom::Kind::part)
      return rows_[a.input] == b.input && a.start == b.start && a.size == b.size;
    if (a.kind == Atom::Kind::product) {
      if (a.matrix.rows != b.matrix.rows || a.matrix.columns != b.matrix.columns) return false;
      const auto [at, is_new] = bound.unified.matrices.try_emplace(a.matrix, b.matrix);
      if (!is_new && at->second != b.matrix) return false;
    }
    bound.atoms[p] = s;
    for (std::size_t i = 0; i < a.arguments.size(); ++i) goals.push_back({a.arguments[i], b.arguments[i], {}, {}});
    return true;
  }

  // Numbers must agree; unknowns, all with one coefficient, become what is there.
  static bool take(const Polynomial& pattern, const Polynomial& subject, Bound& bound) {
    if (pattern.size() == 1 && pattern.begin()->first.empty()) return pattern == subject;
    UnknownSum sum;
    const double scale = pattern.begin()->second;
    for (const auto& [monomial, coefficient] : pattern) {
      if (monomial.size() != 1 || coefficient != scale) return false;
      sum.unknowns.push_back(monomial[0]);
    }
    for (const auto& [monomial, coefficient] : subject) sum.value[monomial] = coefficient / scale;
    for (const UnknownSum& known : bound.unified.sums)
      if (known.unknowns == sum.unknowns) return known.value == sum.value;
    bound.unified.sums.push_back(std::move(sum));
    return true;
  }

  bool solve_sum(const Goal& goal, const std::vector<Goal>& goals, const Bound& bound) {
    Terms p = terms_of(pattern_, goal.pattern), s = terms_of(subject_, goal.subject);
    Bound next = bound;
    for (Terms* terms : {&p, &s}) terms->try_emplace({});  // the constant term is its own counterpart
    const Polynomial wanted = p.at({}), there = s.at({});
    if (wanted.empty() ? !there.empty() : !take(wanted, there, next)) return false;
    p.erase(Monomial{}), s.erase(Monomial{});
    return assign(p, s, goals, next);
  }

  // The sorted kinds and ops of the atoms of a product.
  static std::vector<std::pair<Atom::Kind, Op>> kinds(const Side& side, const Monomial& monomial) {
    std::vector<std::pair<Atom::Kind, Op>> result;
    for (const int a : monomial) result.emplace_back(side.atoms[a].kind, side.atoms[a].op);
    std::sort(result.begin(), result.end());
    return result;
  }
  bool assign(const Terms& p, const Terms& s, const std::vector<Goal>& goals, const Bound& bound) {
    if (p.empty()) return s.empty() && solve(goals, bound);
    if (++tries_ > k_most_tries) return false;
    const auto& [varying, coefficient] = *p.begin();
    Terms p_rest = p;
    p_rest.erase(varying);
    for (const auto& [candidate, its] : s) {
      if (kinds(pattern_, varying) != kinds(subject_, candidate)) continue;
      Bound next = bound;
      if (!take(coefficient, its, next)) continue;
      Terms s_rest = s;
      s_rest.erase(candidate);
      std::vector<Goal> more = goals;
      more.push_back({{}, {}, varying, candidate});
      if (assign(p_rest, s_rest, more, next)) return true;
    }
    Bound next = bound;  // an unknown may be zero
    return !coefficient.begin()->first.empty() && take(coefficient, {}, next) && assign(p_rest, s, goals, next);
  }

  const Side& pattern_;
  const Side& subject_;
  const std::vector<std::int32_t>& rows_;
  Unified found_;
  int tries_ = 0;
};

}  // namespace

std::optional<Unified> unify(const Side& pattern, const Side& subject, const std::vector<std::int32_t>& rows) {
  return Unifier(pattern, subject, rows).run();
}

}  // namespace unroll
