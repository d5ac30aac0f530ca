// SPDX-License-Identifier: Apache-2.0
// Unifies the step of a scan with the one-step body of each composite, both in normal form. The parameters of the
// composite are then assembled from parts of the loop's constants.
#include "core/ir/match/recognize.h"

#include <algorithm>
#include <set>

#include "core/ir/match/unify.h"
#include "core/ir/ops/composite.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

// Rows of both are the input and the states; of the composite the order is x, h, [c].
struct Form {
  Op op;
  std::size_t n_states;
  bool relu = false, reset_after = true, projects = false;
};
constexpr Form k_forms[] = {
    {.op = Op::rnn, .n_states = 1},
    {.op = Op::rnn, .n_states = 1, .relu = true},
    {.op = Op::gru, .n_states = 1},
    {.op = Op::gru, .n_states = 1, .reset_after = false},
    {.op = Op::lstm, .n_states = 2},
    {.op = Op::lstm, .n_states = 2, .projects = true},
};
constexpr std::size_t k_most_nodes = 1024;

// Facts about the loop that need no comparison.
struct Subject {
  const Graph& graph;
  const Node& node;
  ScanLayout layout;
  DType dtype;
  std::int64_t batch, input;
  std::vector<std::int64_t> widths;  // of the states
};

std::optional<Subject> subject_of(const Graph& graph, const Node& node) {
  const ScanLayout l = scan_layout(node);
  if (l.reverse || l.has_reset || l.packed || l.steps < 1 || l.n_sequences != 1 || l.n_states < 1 || l.n_states > 2)
    return {};
  const auto nodes = node.body->nodes();
  const auto products = std::count_if(nodes.begin(), nodes.end(), [](const Node& n) { return n.op == Op::matmul; });
  if (products == 0 || nodes.size() > k_most_nodes) return {};  // one is enough: x and h side by side
  const Type x = graph.type(node.inputs[l.n_states]);
  if (x.shape.rank() != 3 || x.shape.elements() == 0 || !is_float(x.dtype)) return {};
  Subject s{graph, node, l, x.dtype, x.shape[1], x.shape[2], {}};
  for (int i = 0; i < l.n_states; ++i) {
    const Type state = graph.type(node.inputs[i]);
    if (state.shape.rank() != 2 || state.shape[0] != s.batch || state.shape[1] == 0 || state.dtype != s.dtype)
      return {};
    s.widths.push_back(state.shape[1]);
  }
  return s;
}

// A composite of one layer with all its parameters, for one step.
struct Pattern {
  Node node;                 // inputs x, h0, [c0], parameters
  std::vector<Shape> shapes; // of the inputs
};
Pattern pattern_of(const Form& form, const Subject& s, std::int64_t output, std::int64_t hidden) {
  const std::int64_t gates = form.op == Op::rnn ? 1 : form.op == Op::gru ? 3 : 4;
  Pattern p{{}, {{1, s.batch, s.input}, {1, s.batch, output}}};
  if (form.n_states == 2) p.shapes.push_back({1, s.batch, hidden});
  for (const Shape& shape : {Shape{gates * hidden, s.input}, Shape{gates * hidden, output}, Shape{gates * hidden},
      Shape{gates * hidden}})
    p.shapes.push_back(shape);
  if (form.projects) p.shapes.push_back({output, hidden});
  if (form.op == Op::lstm) p.shapes.insert(p.shapes.end(), 3, Shape{hidden});
  Graph graph;
  std::vector<Value> in;
  for (const Shape& shape : p.shapes) in.push_back(graph.input("in" + std::to_string(in.size()), {s.dtype, shape}));
  const auto first = static_cast<std::ptrdiff_t>(1 + form.n_states);
  recurrent(form.op, {.x = in[0], .h0 = in[1], .c0 = form.n_states == 2 ? in[2] : Value(), .lengths = {}, .key = {},
                      .parameters = {in.begin() + first, in.end()}},
            {.hidden = hidden, .relu = form.relu, .reset_after = form.reset_after,
             .projection = form.projects ? output : 0, .peephole = form.op == Op::lstm});
  p.node = graph.nodes().back();
  return p;
}

std::optional<Polynomial> whole(const std::optional<Row>& row) {
  return row && row->size() == 1 ? std::optional((*row)[0].value) : std::nullopt;
}

// The composite's parameters from parts of the loop's constants.
class Join {
 public:
  Join(const Atoms& pattern, const Atoms& subject, const Unified& unified, std::vector<Value> inputs, const Subject& s)
      : pattern_(pattern), subject_(subject), unified_(unified), in_(std::move(inputs)), s_(s) {
    for (const UnknownSum& sum : unified.sums)
      if (sum.unknowns.size() == 1 && sum.value.size() == 1 && sum.value.begin()->first.size() == 1)
        owner_[subject[sum.value.begin()->first[0]].input] = pattern[sum.unknowns[0]].input;
    for (const UnknownSum& sum : unified.sums) spread(sum);
  }

  // Empty when parts are missing or overlap.
  Value matrix(std::int32_t parameter, const Shape& shape) const {
    std::vector<Value> parts;
    std::int64_t row = 0;
    for (const auto& [wanted, given] : unified_.matrices) {  // ascending by row
      if (wanted.input != parameter) continue;
      if (wanted.transposed || wanted.row != row || wanted.column != 0 || wanted.columns != shape[1]) return {};
      parts.push_back(part(given));
      row += wanted.rows;
    }
    return row == shape[0] ? concat(parts, 0) : Value();
  }
  bool is_zero(std::int32_t parameter) const {
    const auto at = vectors_.find(parameter);
    return at == vectors_.end() || std::all_of(at->second.begin(), at->second.end(),
        [](const auto& piece) { return piece.second.second.empty(); });
  }
  Value vector(std::int32_t parameter, const Shape& shape) const {
    std::vector<Value> parts;
    std::int64_t start = 0;
    const auto at = vectors_.find(parameter);
    if (at == vectors_.end()) return {};
    for (const auto& [first, piece] : at->second) {
      if (first != start) return {};
      parts.push_back(polynomial(piece.second, piece.first));
      start += piece.first;
    }
    return start == shape[0] ? concat(parts, 0) : Value();
  }
  bool twice() const { return twice_; }

 private:
  Value input(std::int32_t i) const { return in_[i]; }
  static Value cut(Value x, int axis, std::int64_t start, std::int64_t size) {
    return x.shape()[axis] == size ? x : slice(x, axis, start, size);
  }
  Value part(const MatrixPart& m) const {
    const Value leaf = input(m.input);
    if (!m.transposed) return cut(cut(leaf, 0, m.row, m.rows), 1, m.column, m.columns);
    return transpose(cut(cut(leaf, 0, m.column, m.columns), 1, m.row, m.rows), {1, 0});
  }
  Value polynomial(const Polynomial& p, std::int64_t width) const {
    Value total;
    for (const auto& [monomial, coefficient] : p) {
      Value term;
      for (const int a : monomial) {
        const Atom& atom = subject_[a];
        const Value leaf = input(atom.input);
        const Value own = leaf.rank() == 0 ? leaf : cut(leaf, 0, atom.start, atom.size);
        const Value factor = broadcast(own, Shape{width});
        term = term ? term * factor : factor;
      }
      if (!term) term = filled(in_[0].graph(), {s_.dtype, {width}}, coefficient);
      else if (coefficient != 1) term = term * coefficient;
      total = total ? total + term : term;
    }
    return total ? total : filled(in_[0].graph(), {s_.dtype, {width}}, 0);
  }

  // A sum of two unknowns: each gets the terms of the vector that it is elsewhere, or the first in the graph's order.
  void spread(const UnknownSum& sum) {
    std::vector<Polynomial> shares(sum.unknowns.size());
    std::vector<std::pair<ValueId, Monomial>> order;
    for (const auto& [monomial, coefficient] : sum.value)
      order.emplace_back(
          monomial.empty() ? ValueId{} : s_.node.inputs[subject_[monomial[0]].input],
          monomial);
    std::sort(order.begin(), order.end());
    std::vector<bool> given(sum.unknowns.size(), false);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Monomial& monomial = order[i].second;
      std::size_t share = std::min(i, shares.size() - 1);
      const auto owner = monomial.empty() ? owner_.end() : owner_.find(subject_[monomial[0]].input);
      for (std::size_t u = 0; owner != owner_.end() && u < shares.size(); ++u)
        if (pattern_[sum.unknowns[u]].input == owner->second) share = u;
      shares[share][monomial] = sum.value.at(monomial);
    }
    for (std::size_t u = 0; u < shares.size(); ++u) {
      const Atom& unknown = pattern_[sum.unknowns[u]];
      const auto [at, is_new] = vectors_[unknown.input].try_emplace(unknown.start, unknown.size, shares[u]);
      twice_ = twice_ || !is_new;
    }
  }

  const Atoms &pattern_, &subject_;
  const Unified& unified_;
  std::vector<Value> in_;
  const Subject& s_;
  std::map<std::int32_t, std::int32_t> owner_;  // vector of the loop -> parameter it is part of
  // [parameter][start]: size, value
  std::map<std::int32_t, std::map<std::int64_t, std::pair<std::int64_t, Polynomial>>> vectors_;
  bool twice_ = false;
};

// The composite in the place of the loop; null when a parameter cannot be joined.
std::shared_ptr<const Graph> replace(const Subject& s, const Form& form, const Pattern& p, const Atoms& pattern_atoms,
                                     const Atoms& atoms, const Unified& unified,
                                     const std::vector<std::int32_t>& rows) {
  auto graph = std::make_shared<Graph>();
  std::vector<Value> in;
  for (const ValueId& id : s.node.inputs)
    in.push_back(graph->input("in" + std::to_string(in.size()), s.graph.type(id)));
  const Join join(pattern_atoms, atoms, unified, in, s);
  if (join.twice()) return nullptr;
  const auto first = static_cast<std::int32_t>(1 + form.n_states);
  const auto n = static_cast<std::int32_t>(p.shapes.size());
  RecurrentOptions o{.hidden = p.node.attributes.get<std::int64_t>("hidden"),
                     .relu = form.relu,
                     .reset_after = form.reset_after,
                     .projection = form.projects ? p.shapes[1][2] : 0};
  o.bias = !join.is_zero(first + 2) || !join.is_zero(first + 3);
  const std::int32_t peepholes = form.op == Op::lstm ? n - 3 : n;
  for (std::int32_t i = peepholes; i < n; ++i) o.peephole = o.peephole || !join.is_zero(i);
  std::vector<Value> parameters;
  for (std::int32_t i = first; i < n; ++i) {
    const Shape& shape = p.shapes[i];
    const bool is_bias = i == first + 2 || i == first + 3;
    if ((is_bias && !o.bias) || (i >= peepholes && !o.peephole)) continue;
    parameters.push_back(shape.rank() == 2 ? join.matrix(i, shape) : join.vector(i, shape));
    if (!parameters.back()) return nullptr;
  }
  const auto state = [&](std::size_t k) {  // h or c before the first step
    const Value x = in[rows[k + 1]];
    return reshape(x, x.shape().inserted(0, 1));
  };
  const RecurrentResult r =
      recurrent(form.op,
                {.x = in[rows[0]],
                 .h0 = state(0),
                 .c0 = form.n_states == 2 ? state(1) : Value(),
                 .lengths = s.layout.has_lengths ? in.back() : Value(),
                 .key = {},
                 .parameters = parameters},
                o);
  for (std::size_t k = 0; k < s.node.outputs.size(); ++k) {
    Value result = r.y;
    if (k < form.n_states)
      result = reshape(static_cast<std::int32_t>(k) == rows[1] ? r.hn : r.cn, s.node.outputs[k].shape);
    graph->output("out" + std::to_string(k), result);
  }
  return graph;
}

std::shared_ptr<const Graph> match(const Subject& s, const Form& form, const std::vector<std::int32_t>& states,
                                   const Atoms& atoms, const std::vector<std::optional<Row>>& results) {
  const std::int64_t output = s.widths[states[0]];
  const std::int64_t hidden = s.widths[states.back()];
  if (form.projects ? output >= hidden : output != hidden) return nullptr;
  const Pattern p = pattern_of(form, s, output, hidden);
  std::vector<Type> types;
  for (const Shape& shape : p.shapes) types.push_back({s.dtype, shape});
  const auto body = build_composite(form.op, types, p.node.attributes);
  Atoms pattern_atoms;
  const auto forms = normal_forms(pattern_atoms, *body, 1 + form.n_states);
  Side pattern{pattern_atoms, 1 + form.n_states, {}}, subject{atoms, 1 + form.n_states, {}};
  std::vector<std::int32_t> rows{s.layout.n_states};
  for (std::size_t k = 0; k < form.n_states; ++k) {
    const auto wanted = whole(forms[1 + k]), there = whole(results[states[k]]);
    if (!wanted || !there) return nullptr;
    pattern.results.push_back(*wanted);
    subject.results.push_back(*there);
    rows.push_back(states[k]);
  }
  for (std::size_t k = form.n_states; k < results.size(); ++k)  // per step nothing but h' comes out
    if (whole(results[k]) != subject.results[0]) return nullptr;
  const auto unified = unify(pattern, subject, rows);
  return unified ? replace(s, form, p, pattern_atoms, atoms, *unified, rows) : nullptr;
}

}  // namespace

std::shared_ptr<const Graph> recognize_scan(const Graph& graph, const Node& scan) {
  const auto s = subject_of(graph, scan);
  if (!s) return nullptr;
  Atoms atoms;
  const auto n_states = s->widths.size();
  const auto results = normal_forms(atoms, *scan.body, n_states + 1);
  for (const auto& row : results)
    if (!whole(row)) return nullptr;
  for (const Form& form : k_forms) {
    if (form.n_states != n_states) continue;
    std::vector<std::int32_t> states{0};
    if (n_states == 2) states.push_back(1);
    do {
      if (auto found = match(*s, form, states, atoms, results)) return found;
    } while (std::next_permutation(states.begin(), states.end()));
  }
  return nullptr;
}

}  // namespace unroll
