// SPDX-License-Identifier: Apache-2.0
// Deferred accumulation: a scan state that only accumulates one term per step becomes a sum after the loop. A sum of
// products over time becomes one product over T*K (Appleyard et al. 2016, arXiv 1604.01946, for any cell), also where
// it is one product for each element of a batch. Before split_scans, `defer_stateless` takes the terms that no state
// has a part in: as parts of the step they would leave the loop one by one, [T,V,H] for a weight [V,H].
#include <algorithm>
#include <functional>
#include <optional>
#include <span>

#include "core/ir/ops/scan_parts.h"
#include "core/passes/lengths/live_rows.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

// The term that a state adds in each step. Factors are values of the body, stacked over time by the scan.
struct Term {
  enum class Kind { sum, product, scatter } kind;
  std::vector<ValueId> factors;
  std::int32_t node;  // the body node that makes the term
  bool reduced = false;  // sum: the factor is the term itself, not what it sums up
  std::vector<std::int32_t> moves = {};  // slices and reshapes of the term that the state adds up, outermost first
  // Columns of the factor that the sum is of; 0: all.
  std::int64_t first = 0, columns = 0;
};

// A product of matrices, or of one for each element of a batch that both operands have.
bool is_sum_of_products(const Graph& body, const Node& node) {
  if (node.op != Op::matmul || node.inputs.size() != 2) return false;
  const Shape &a = body.type(node.inputs[0]).shape, &b = body.type(node.inputs[1]).shape;
  bool same = a.rank() == b.rank() && a.rank() < Shape::k_max_rank;
  for (int axis = 0; same && axis + 2 < a.rank(); ++axis) same = a[axis] == b[axis];
  return same;
}

// state' = state + term where nothing else reads the state.
std::optional<Term> find_term(const Graph& body, std::size_t state, const PerValue<int>& uses) {
  const ValueId self = body.inputs()[state].value;
  const ValueId next = body.outputs()[state].value;
  if (uses[self] != 1) return std::nullopt;
  const Node& add = body.node(next.node);
  if (add.op != Op::add || uses[next] != 1) return std::nullopt;
  const std::size_t mine = add.inputs[0] == self ? 0 : 1;
  if (add.inputs[mine] != self) return std::nullopt;
  ValueId term = add.inputs[1 - mine];
  if (body.type(term) != body.type(self)) return std::nullopt;
  std::vector<std::int32_t> moves;
  for (; body.node(term.node).op == Op::reshape || body.node(term.node).op == Op::slice;
       term = body.node(term.node).inputs[0])
    moves.push_back(term.node);
  Term t{Term::Kind::sum, {}, term.node};
  t.moves = moves;
  const Node& made = body.node(term.node);
  if (is_sum_of_products(body, made)) {
    t.kind = Term::Kind::product;
    t.factors = made.inputs;
  } else if (made.op == Op::scatter_add) {
    t.kind = Term::Kind::scatter;
    t.factors = made.inputs;
  } else if (made.op == Op::reduce_sum) {
    t.factors = made.inputs;
  } else {
    t.factors = {term};
  }
  return t;
}

// [T, ..., a, b] -> [..., T*a, b] for the last axis but one, [..., a, T*b] for the last axis.
Value with_time_in(Value x, int axis) {
  Ints permutation, dims;
  for (int d = 1; d < x.rank(); ++d) {
    if (d == axis) permutation.push_back(0);
    permutation.push_back(d);
    dims.push_back(d == axis ? x.shape()[0] * x.shape()[d] : x.shape()[d]);
  }
  return reshape(axis > 1 ? transpose(x, std::move(permutation)) : x, Shape(dims));
}
Value flatten_rows(Value x) { return with_time_in(x, x.rank() - 2); }
Value flatten_columns(Value x) { return with_time_in(x, x.rank() - 1); }

// The sum over time of what the term was in each step; `stacks` are its factors with time in front.
Value sum_over_time(const Graph& body, const Term& term, std::span<const Value> stacks) {
  const Node& made = body.node(term.node);
  if (term.kind == Term::Kind::product) {
    const Transposed t{made.attributes.get<bool>("transpose_a"), made.attributes.get<bool>("transpose_b")};
    return matmul(t.a ? flatten_rows(stacks[0]) : flatten_columns(stacks[0]),
                  t.b ? flatten_columns(stacks[1]) : flatten_rows(stacks[1]), t);
  }
  if (term.kind == Term::Kind::scatter)
    return scatter_add(stacks[0], stacks[1], made.attributes.get<std::int64_t>("rows"));
  Ints axes{0};
  if (made.op == Op::reduce_sum && !term.reduced)
    for (const std::int64_t axis : made.attributes.get<Ints>("axes")) axes.push_back(axis + 1);
  const Value sum = reduce_sum(stacks[0], std::move(axes));
  return term.columns > 0 ? slice(sum, sum.rank() - 1, term.first, term.columns) : sum;
}

Value moved(const Graph& body, const Term& term, Value total) {
  if (!term.moves.empty()) total = reshape(total, body.type({term.node, 0}).shape);
  for (std::size_t i = term.moves.size(); i-- > 0;) {
    const Node& move = body.node(term.moves[i]);
    total = total.graph().append_one(move.op, std::vector{total}, move.attributes);
  }
  return total;
}

// Large terms that no other stack needs would go through memory for nothing. A sum over the batch (a layer norm's
// weight gradient) is made in each step; small summands are reduced after the loop: a sum over rows binds them
// together. A term as large as the state, such as the gradient of the keys of attention, stays in the loop.
void keep_large_terms(const Graph& body, std::int64_t steps, const Tuning& tuning,
                           std::vector<std::optional<Term>>& terms,
                           const std::function<bool(const ValueId&)>& is_sequence) {
  const auto large_bytes = static_cast<double>(tuning.deferred_summand_bytes);
  std::vector<ValueId> stacked;
  for (const auto& t : terms)
    if (t && t->kind != Term::Kind::sum) stacked.insert(stacked.end(), t->factors.begin(), t->factors.end());
  for (const NamedValue& output : body.outputs()) stacked.push_back(output.value);
  for (std::size_t i = 0; i < terms.size(); ++i) {
    std::optional<Term>& t = terms[i];
    if (!t || t->kind != Term::Kind::sum) continue;
    const ValueId summand = t->factors[0];
    const double bytes = static_cast<double>(body.type(summand).bytes()) * static_cast<double>(steps);
    if (bytes < large_bytes) continue;
    if (is_sequence(summand) || std::find(stacked.begin(), stacked.end(), summand) != stacked.end()) continue;
    if (body.node(t->node).op != Op::reduce_sum) {
      if (body.type(summand).bytes() == body.type(body.inputs()[i].value).bytes()) t.reset();
      continue;
    }
    if (!tuning.sums_in_steps || body.type({t->node, 0}).bytes() * 2 > body.type(summand).bytes()) continue;
    t->factors = {{t->node, 0}};
    t->reduced = true;
  }
}

// A summand that is a part of a stacked concatenation, the gradient of one gate among those of all, is no stack of its
// own: the concatenation is summed up, and the sum cut.
void sum_whole_stacks(const Graph& body, std::vector<std::optional<Term>>& terms) {
  for (auto& t : terms) {
    if (!t || t->kind != Term::Kind::sum || t->reduced || body.node(t->node).op != Op::reduce_sum) continue;
    const ValueId summand = t->factors[0];
    const int last = body.type(summand).shape.rank() - 1;
    const Ints axes = body.node(t->node).attributes.get<Ints>("axes");
    if (std::find(axes.begin(), axes.end(), last) != axes.end()) continue;
    for (const auto& other : terms) {
      if (!other || other->kind != Term::Kind::product || t->columns > 0) continue;
      for (const ValueId& factor : other->factors) {
        const Node& whole = body.node(factor.node);
        if (whole.op != Op::concat || whole.attributes.get<std::int64_t>("axis") != last) continue;
        const auto part = std::find(whole.inputs.begin(), whole.inputs.end(), summand);
        if (part == whole.inputs.end()) continue;
        for (auto before = whole.inputs.begin(); before != part; ++before) t->first += body.type(*before).shape[last];
        t->columns = body.type(summand).shape[last];
        t->factors = {factor};
        break;
      }
    }
  }
}

// Logs the decision about a state that accumulates.
void note_term(PassLog& log, const Graph& body, std::size_t state, const std::optional<Term>& term, bool large) {
  const ValueId self = body.inputs()[state].value;
  const Node& next = body.node(body.outputs()[state].value.node);
  const bool adds_up = next.op == Op::add && (next.inputs[0] == self || next.inputs[1] == self);
  const std::string text = body.type(self).text();
  if (!term && adds_up)
    log.add("kept accumulating " + text + " in every step",
            large ? "the terms of all steps are large" : "the loop reads the partial sum");
  if (!term) return;
  constexpr const char* k_reduced =
      "summed over the batch in each step and over time after the loop: the terms are large";
  switch (term->kind) {
    case Term::Kind::product: return log.add("deferred the sum of products " + text, "one product over all steps");
    case Term::Kind::scatter: return log.add("deferred the scatter-add " + text, "one scatter over all steps");
    case Term::Kind::sum:
      return log.add("deferred the sum " + text, term->reduced ? k_reduced : "one sum over all steps");
  }
}

// True for the nodes of the body that depend on a state.
PerNode<bool> reads_states(const Graph& body, int n_states) {
  PerNode<bool> reads(body);
  for (int i = 0; i < n_states; ++i)
    reads[body.inputs()[i].value.node] = true;
  for (std::size_t n = 0; n < reads.size(); ++n)
    for (const ValueId& id : body.nodes()[n].inputs) reads[n] = reads[n] || reads[id.node];
  return reads;
}

// Drops terms in whose factors a state has a part, and those that split_scans leaves in the loop anyway.
void keep_stateless(const Graph& body, std::vector<std::optional<Term>>& terms) {
  const PerNode<bool> reads = reads_states(body, static_cast<int>(terms.size()));
  for (auto& t : terms) {
    if (!t) continue;
    const bool moves_out = t->kind == Term::Kind::product || body.node(t->node).op == Op::reduce_sum;
    if (!moves_out || reads[t->node]) t.reset();
  }
}

enum class Which : std::uint8_t { stateless, all };

// The scan with the factors of its terms as further outputs. The summed states stay in it, unread, for scan_dce.
class Deferral {
 public:
  Deferral(const RewriteNode& at, Which which, const Tuning& tuning)
      : at_(at), body_(*at.node.body), layout_(scan_layout(at.node)), uses_(count_uses(body_)), which_(which),
        tuning_(tuning) {}

  std::vector<Value> run(PassLog* log) {
    if (!can_defer()) return {};
    find_terms();
    if (log) note(*log);
    if (std::ranges::none_of(terms_, [](const auto& term) { return term.has_value(); })) return {};
    return emit(factors_to_stack());
  }

 private:
  // Stacks would be as large as without segments.
  bool can_defer() const {
    return !layout_.has_lengths && !layout_.has_reset && !layout_.packed && layout_.steps > 0 &&
           !at_.node.attributes.get_or<bool>("segments", false);
  }
  // Inputs come first in a body made by rewrite.
  bool is_sequence(const ValueId& id) const {
    return body_.node(id.node).op == Op::input && scan_role(layout_, id.node) == ScanRole::sequence;
  }
  // Masked loops keep their stacks of rows: a later pass may leave out the rows that are not there.
  bool is_masked() const {
    for (std::size_t i = 0; i < at_.node.inputs.size(); ++i)
      if (scan_role(layout_, i) == ScanRole::sequence && mask_of(at_.source, at_.node.inputs[i])) return true;
    return false;
  }

  void find_terms() {
    for (std::size_t i = 0; is_state(layout_, i); ++i) terms_.push_back(find_term(body_, i, uses_));
    found_ = terms_;
    if (which_ == Which::stateless) keep_stateless(body_, terms_);
    else if (!is_masked())
      keep_large_terms(body_, layout_.steps, tuning_, terms_, [this](const ValueId& id) { return is_sequence(id); });
    if (!tuning_.sums_in_steps) sum_whole_stacks(body_, terms_);
  }
  void note(PassLog& log) const {
    const InLoop in_loop(&log, at_.source, at_.node);
    for (std::size_t i = 0; i < terms_.size(); ++i)
      if (terms_[i] || which_ == Which::all) note_term(log, body_, i, terms_[i], found_[i].has_value());
  }

  // Distinct factors that need a per-step output.
  std::vector<ValueId> factors_to_stack() const {
    std::vector<ValueId> stacked;
    for (const auto& term : terms_) {
      if (!term) continue;
      for (const ValueId& factor : term->factors)
        if (!is_sequence(factor) && std::ranges::count(stacked, factor) == 0) stacked.push_back(factor);
    }
    return stacked;
  }

  std::vector<Value> emit(const std::vector<ValueId>& stacked) const {
    const auto wider = rewrite(body_, [](const RewriteNode&) { return std::vector<Value>{}; }, stacked);
    const std::vector<Value> outputs = copy_node(at_, wider);
    const auto first_stack = outputs.begin() + std::ssize(body_.outputs());
    std::vector<Value> result(outputs.begin(), first_stack);
    for (std::size_t i = 0; i < terms_.size(); ++i) {
      if (!terms_[i]) continue;
      std::vector<Value> stacks;
      for (const ValueId& factor : terms_[i]->factors) {
        const auto place = std::ranges::find(stacked, factor) - stacked.begin();
        stacks.push_back(is_sequence(factor) ? at_.operands[factor.node] : first_stack[place]);
      }
      const Value total = moved(body_, *terms_[i], sum_over_time(body_, *terms_[i], stacks));
      result[i] = at_.operands[i] + reshape(total, at_.operands[i].shape());
    }
    return result;
  }

  const RewriteNode& at_;
  const Graph& body_;
  const ScanLayout layout_;
  const PerValue<int> uses_;
  const Which which_;
  const Tuning& tuning_;
  std::vector<std::optional<Term>> terms_, found_;  // [state]; found: before the choice
};

std::shared_ptr<const Graph> defer_in(const Graph& graph, Which which, const Tuning& tuning, PassLog* log) {
  return with_bodies(graph, [&](const Graph& g) -> std::shared_ptr<const Graph> {
    return rewrite(g, [&](const RewriteNode& at) -> std::vector<Value> {
      return at.node.op == Op::scan ? Deferral(at, which, tuning).run(log) : std::vector<Value>{};
    });
  }, log);
}

}  // namespace

std::shared_ptr<const Graph> defer(const Graph& graph, const Tuning& tuning, PassLog* log) {
  return defer_in(graph, Which::all, tuning, log);
}
std::shared_ptr<const Graph> defer_stateless(const Graph& graph, const Tuning& tuning, PassLog* log) {
  return defer_in(graph, Which::stateless, tuning, log);
}

}  // namespace unroll
