// SPDX-License-Identifier: Apache-2.0
// Gradient checkpointing (Chen et al. 2016, arXiv 1604.06174, with segments of sqrt(T) steps). A loop with too many
// saved values saves only the states before each segment, and the backward loop recomputes a segment before it
// differentiates it. Both become a loop over segments around a loop over steps. Products that were computed for all
// steps at once first move back into the steps, so that they are computed per segment too.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "core/passes/group/groups.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "unroll/ops.h"

namespace unroll {

namespace {

constexpr std::int64_t k_fewest_steps = 16;

std::size_t size_of(int n) { return static_cast<std::size_t>(n); }
bool can_cut(const Node& node) {
  if (node.op != Op::scan || node.attributes.get_or<bool>("segments", false)) return false;
  const ScanLayout l = scan_layout(node);
  return !l.has_lengths && !l.has_reset && !l.packed && l.n_states > 0 && l.steps >= k_fewest_steps;
}

// The divisor of T nearest to sqrt(T) by ratio; 0 when none is within a factor of 8.
std::int64_t segment_steps(std::int64_t steps) {
  const double root = std::sqrt(static_cast<double>(steps));
  std::int64_t best = 0;
  double least = std::log(8.0);
  for (std::int64_t d = 2; d < steps; ++d) {
    const double distance = std::abs(std::log(static_cast<double>(d) / root));
    if (steps % d == 0 && distance <= least) best = d, least = distance;
  }
  return best;
}

// A loop and the loop that goes back over it.
struct Pair {
  std::int32_t forward;
  std::set<std::int32_t> saved;  // outputs of the forward loop that nothing but the backward loop reads
};

std::map<std::int32_t, Pair> find_pairs(const Graph& graph) {
  std::map<std::int32_t, Pair> pairs;  // by backward loop
  std::map<ValueId, std::set<std::int32_t>> readers;
  for (std::int32_t n = 0; n < static_cast<std::int32_t>(graph.nodes().size()); ++n)
    for (const ValueId& id : graph.node(n).inputs) readers[id].insert(n);
  for (const NamedValue& output : graph.outputs()) readers[output.value].insert(-1);
  std::set<std::int32_t> taken;
  for (std::int32_t n = static_cast<std::int32_t>(graph.nodes().size()); n-- > 0;) {
    const Node& node = graph.node(n);
    if (!can_cut(node)) continue;
    const ScanLayout l = scan_layout(node);
    for (int k = l.n_states; k < l.n_states + l.n_sequences; ++k) {
      const ValueId id = node.inputs[size_of(k)];
      const Node& from = graph.node(id.node);
      if (!can_cut(from) || id.output < scan_layout(from).n_states || readers.at(id).size() != 1) continue;
      const ScanLayout f = scan_layout(from);
      if (f.steps != l.steps || f.reverse == l.reverse || taken.contains(id.node)) continue;
      const auto at = pairs.find(n);
      if (at != pairs.end() && at->second.forward != id.node) continue;
      pairs[n].forward = id.node;
      pairs[n].saved.insert(id.output);
    }
    if (pairs.contains(n)) taken.insert(pairs[n].forward), taken.insert(n);
  }
  return pairs;
}

// Operands and body of a loop while they grow. The body of the result has states, sequences, constants as its inputs.
class SegmentLoop {
 public:
  // An input of the body that stands for `outer`, the same one for the same value.
  Value input(Value outer, bool per_step) {
    auto& known = per_step ? sequences_ : constants_;
    for (const auto& [value, inner] : known)
      if (value == outer) return inner;
    known.emplace_back(outer, add(outer, per_step));
    return known.back().second;
  }
  Value state(Value start) {
    states_.emplace_back(start, add(start, false));
    return states_.back().second;
  }
  void next_state(Value next) { next_.push_back(next); }
  void output(Value value) { outputs_.push_back(value); }
  Graph& graph() { return *drawn_; }

  // The loop's results: final states, then stacks.
  std::vector<Value> finish(std::int64_t steps, bool reverse, bool segments) const {
    auto body = std::make_shared<Graph>();
    std::vector<Value> operands, inputs(drawn_->inputs().size());
    for (const auto* list : {&states_, &sequences_, &constants_})
      for (const auto& [outer, inner] : *list) {
        operands.push_back(outer);
        inputs[static_cast<std::size_t>(inner.id().node)] =
            body->input("in" + std::to_string(body->inputs().size()), inner.type());
      }
    Graph& whole = *drawn_;
    int n = 0;
    for (const auto* list : {&next_, &outputs_})
      for (const Value& value : *list) whole.output("out" + std::to_string(n++), value);
    const auto results = inline_graph(*body, whole, inputs);
    for (std::size_t k = 0; k < results.size(); ++k) body->output("out" + std::to_string(k), results[k]);
    Attributes attributes{{"steps", steps},
                          {"states", static_cast<std::int64_t>(states_.size())},
                          {"sequences", static_cast<std::int64_t>(sequences_.size())},
                          {"reverse", reverse},
                          {"lengths", false},
                          {"reset", false}};
    if (segments) attributes.set("segments", true);
    return scan_body(operands, std::move(attributes), std::move(body));
  }

 private:
  // Inputs are the first nodes of the graph, whatever their kind.
  Value add(Value outer, bool per_step) {
    Type type = outer.type();
    if (per_step) type.shape = type.shape.removed(0);
    return drawn_->input("in" + std::to_string(drawn_->inputs().size()), type);
  }

  std::shared_ptr<Graph> drawn_ = std::make_shared<Graph>();
  std::vector<std::pair<Value, Value>> states_, sequences_, constants_;  // outer, inner
  std::vector<Value> next_, outputs_;
};

// x [T,B,I] and W when `value` [T,B,N] is x W for all steps at once.
struct RowProduct {
  Value x, w;
  Transposed t;
};
std::optional<RowProduct> as_row_product(Value value) {
  const auto operand = [](Value v, std::size_t i) { return v.graph().value(v.node().inputs[i]); };
  if (value.rank() != 3 || value.node().op != Op::reshape) return std::nullopt;
  const Value product = operand(value, 0);
  if (product.node().op != Op::matmul || product.node().inputs.size() != 2 || product.rank() != 2) return std::nullopt;
  const Transposed t{product.node().attributes.get<bool>("transpose_a"),
      product.node().attributes.get<bool>("transpose_b")};
  const Value rows = operand(product, 0), w = operand(product, 1);
  if (t.a || rows.node().op != Op::reshape) return std::nullopt;
  const Value x = operand(rows, 0);
  const bool of_steps = x.rank() == 3 && x.shape()[0] == value.shape()[0] && x.shape()[1] == value.shape()[1] &&
                        rows.shape() == Shape{x.shape()[0] * x.shape()[1], x.shape()[2]} &&
                            product.shape()[1] == value.shape()[2];
  return of_steps ? std::optional(RowProduct{x, w, t}) : std::nullopt;
}

// The same loop with products of all steps among its sequences made in its steps.
std::vector<Value> products_into_steps(const RewriteNode& at) {
  const ScanLayout l = scan_layout(at.node);
  const auto n_states = size_of(l.n_states), n_rows = n_states + size_of(l.n_sequences);
  std::vector<std::optional<RowProduct>> products(at.operands.size());
  bool any = false;
  for (std::size_t i = n_states; i < n_rows; ++i) {
    products[i] = as_row_product(at.operands[i]);
    any = any || products[i];
  }
  if (!any) return {};
  SegmentLoop loop;
  std::vector<Value> in(at.operands.size());
  for (std::size_t i = 0; i < n_states; ++i) in[i] = loop.state(at.operands[i]);
  std::vector<std::pair<Value, Value>> factors(at.operands.size());  // inputs come before all else
  for (std::size_t i = n_states; i < in.size(); ++i) {
    if (products[i]) factors[i] = {loop.input(products[i]->x, true), loop.input(products[i]->w, false)};
    else in[i] = loop.input(at.operands[i], i < n_rows);
  }
  for (std::size_t i = n_states; i < n_rows; ++i)
    if (products[i]) in[i] = matmul(factors[i].first, factors[i].second, products[i]->t);
  const auto out = inline_graph(loop.graph(), *at.node.body, in);
  for (std::size_t k = 0; k < out.size(); ++k) k < n_states ? loop.next_state(out[k]) : loop.output(out[k]);
  return loop.finish(l.steps, l.reverse, false);
}

// Products that read a stack [T,B,N] of a backward loop as rows: with weights, or with the rows of another stack.
class ProductsBehind {
 public:
  ProductsBehind(const Graph& graph, std::int32_t loop) : graph_(graph), loop_(loop),
      layout_(scan_layout(graph.node(loop))) {
    const auto n = static_cast<std::int32_t>(graph.nodes().size());
    for (std::int32_t k = layout_.n_states; k < static_cast<std::int32_t>(graph.node(loop).outputs.size()); ++k)
      if (all_readers_move({loop, k}, n)) moved_outputs_.insert(k);
  }
  bool empty() const { return gradients_.empty() && rows_.empty(); }
  std::vector<int> members() const {
    std::vector<int> all{loop_};
    all.insert(all.end(), members_.begin(), members_.end());
    std::sort(all.begin(), all.end());
    return all;
  }

  void emit(ValueMap& values) const {
    const Node& node = graph_.node(loop_);
    const auto n_states = size_of(layout_.n_states), n_rows = n_states + size_of(layout_.n_sequences);
    SegmentLoop loop;
    std::vector<Value> in, sums;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Value outer = values.at(node.inputs[i]);
      in.push_back(i < n_states ? loop.state(outer) : loop.input(outer, i < n_rows));
    }
    Graph& target = values.at(node.inputs[0]).graph();
    for (const Gradient& g : gradients_) sums.push_back(loop.state(filled(target, graph_.type({g.product, 0}), 0)));
    std::vector<Value> others, weights;
    for (const Gradient& g : gradients_) others.push_back(loop.input(values.at(g.other), true));
    for (const Rows& r : rows_) weights.push_back(loop.input(values.at(r.weight), false));
    const auto out = inline_graph(loop.graph(), *node.body, in);
    for (std::size_t k = 0; k < n_states; ++k) loop.next_state(out[k]);
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      const Gradient& g = gradients_[i];
      const Value mine = out[size_of(g.output)];
      loop.next_state(sums[i] + (g.first ? matmul(mine, others[i], g.t) : matmul(others[i], mine, g.t)));
    }
    for (std::size_t k = n_states; k < out.size(); ++k)
      if (!moved_outputs_.contains(static_cast<std::int32_t>(k))) loop.output(out[k]);
    for (std::size_t i = 0; i < rows_.size(); ++i)
      loop.output(matmul(out[size_of(rows_[i].output)], weights[i], rows_[i].t));
    const auto results = loop.finish(layout_.steps, layout_.reverse, false);
    std::size_t at = 0;
    for (std::int32_t k = 0; k < layout_.n_states; ++k) values[{loop_, k}] = results[at++];
    for (const Gradient& g : gradients_) values[{g.product, 0}] = results[at++];
    for (std::int32_t k = layout_.n_states; k < static_cast<std::int32_t>(out.size()); ++k)
      if (!moved_outputs_.contains(k)) values[{loop_, k}] = results[at++];
    for (const Rows& r : rows_) {
      const Value stack = results[at++];
      values[{r.product, 0}] = reshape(stack, graph_.type({r.product, 0}).shape);
    }
  }

 private:
  struct Gradient {  // d^T x or x^T d over all steps
    std::int32_t product, output;
    ValueId other;  // [T,B,K]
    bool first;     // the loop's stack is the first factor
    Transposed t;
  };
  struct Rows {  // d W
    std::int32_t product, output;
    ValueId weight;
    Transposed t;
  };

  // The stack whose rows `id` is.
  std::optional<ValueId> stack_of(const ValueId& id) const {
    const Node& node = graph_.node(id.node);
    if (node.op != Op::reshape) return std::nullopt;
    const Shape &from = graph_.type(node.inputs[0]).shape, &to = node.outputs[0].shape;
    const bool rows = from.rank() == 3 && from[0] == layout_.steps && to == Shape{from[0] * from[1], from[2]};
    return rows ? std::optional(node.inputs[0]) : std::nullopt;
  }
  bool depends_on_loop(const ValueId& id) const {
    std::vector<bool> depends(graph_.nodes().size(), false);
    depends[size_of(loop_)] = true;
    for (std::size_t n = size_of(loop_) + 1; n <= size_of(id.node); ++n)
      for (const ValueId& input : graph_.nodes()[n].inputs) depends[n] = depends[n] || depends[size_of(input.node)];
    return depends[size_of(id.node)];
  }
  bool all_readers_move(const ValueId& stack, std::int32_t n) {
    if (graph_.type(stack).shape.rank() != 3) return false;
    std::vector<std::int32_t> members;
    std::vector<Gradient> gradients;
    std::vector<Rows> rows;
    for (const NamedValue& output : graph_.outputs())
      if (output.value == stack) return false;
    for (std::int32_t r = 0; r < n; ++r) {
      const Node& reader = graph_.node(r);
      if (std::find(reader.inputs.begin(), reader.inputs.end(), stack) == reader.inputs.end()) continue;
      if (!stack_of({r, 0})) return false;
      members.push_back(r);
      for (const NamedValue& output : graph_.outputs())
        if (output.value.node == r) return false;
      for (std::int32_t p = 0; p < n; ++p) {
        const Node& product = graph_.node(p);
        const auto place = std::find(product.inputs.begin(), product.inputs.end(), ValueId{r, 0});
        if (place == product.inputs.end()) continue;
        if (product.op != Op::matmul || product.inputs.size() != 2 || product.inputs[0] == product.inputs[1])
          return false;
        const Transposed t{product.attributes.get<bool>("transpose_a"), product.attributes.get<bool>("transpose_b")};
        const bool first = place == product.inputs.begin();
        const ValueId other = product.inputs[first ? 1 : 0];
        if (depends_on_loop(other)) return false;
        if (t.a && !t.b) {
          const auto stacked = stack_of(other);
          if (!stacked) return false;
          gradients.push_back({p, stack.output, *stacked, first, t});
        } else if (first && !t.a) {
          rows.push_back({p, stack.output, other, t});
        } else {
          return false;
        }
        members.push_back(p);
      }
    }
    if (gradients.empty() && rows.empty()) return false;
    members_.insert(members_.end(), members.begin(), members.end());
    gradients_.insert(gradients_.end(), gradients.begin(), gradients.end());
    rows_.insert(rows_.end(), rows.begin(), rows.end());
    return true;
  }

  const Graph& graph_;
  std::int32_t loop_;
  ScanLayout layout_;
  std::set<std::int32_t> moved_outputs_;
  std::vector<std::int32_t> members_;
  std::vector<Gradient> gradients_;
  std::vector<Rows> rows_;
};

std::shared_ptr<const Graph> products_behind_into_steps(const Graph& graph, std::int32_t loop) {
  const ProductsBehind products(graph, loop);
  if (products.empty()) return nullptr;
  Units units{{products.members()}, std::vector<int>(graph.nodes().size(), -1)};
  for (const int m : units.members[0]) units.of[size_of(m)] = 0;
  return with_units(graph, units, [&](const std::vector<int>&, const Boundary&, Graph&, ValueMap& values) {
    products.emit(values);
  });
}

// [T/L,L,...] as [T,...].
Value joined_stack(Value stack) {
  const Shape& s = stack.shape();
  return reshape(stack, s.removed(0).with(0, s[0] * s[1]));
}

class Cutter {
 public:
  explicit Cutter(const Graph& graph) : graph_(graph), pairs_(find_pairs(graph)) {
    for (const auto& [backward, pair] : pairs_) backward_of_[pair.forward] = backward;
  }

  std::shared_ptr<const Graph> run() {
    return rewrite(graph_, [this](const RewriteNode& at) -> std::vector<Value> {
      if (backward_of_.contains(at.id)) return forward(at, pairs_.at(backward_of_.at(at.id)));
      if (pairs_.contains(at.id)) return backward(at, pairs_.at(at.id));
      return {};
    });
  }

 private:
  struct Forward {
    std::vector<Value> operands;      // of the target
    std::vector<Value> checkpoints;   // states before each segment, [n,...]
  };
  static std::int64_t length_of(const Node& node) { return segment_steps(scan_layout(node).steps); }

  // One segment of the loop `node` in the body of `outer`: the loop itself, fewer steps.
  static std::vector<Value> segment(const Node& node, const std::vector<Value>& operands) {
    Attributes attributes = node.attributes;
    attributes.set("steps", length_of(node));
    return scan_body(operands, std::move(attributes), node.body);
  }

  std::vector<Value> forward(const RewriteNode& at, const Pair& pair) {
    const ScanLayout l = scan_layout(at.node);
    const std::int64_t length = length_of(at.node);
    if (length == 0) return {};
    SegmentLoop outer;
    std::vector<Value> in = inputs(outer, at, length);
    const auto out = segment(at.node, in);
    std::vector<std::int32_t> kept;
    for (std::int32_t k = 0; k < l.n_states; ++k) outer.next_state(out[size_of(k)]);
    for (std::int32_t k = l.n_states; k < static_cast<std::int32_t>(out.size()); ++k) {
      if (pair.saved.contains(k)) continue;
      kept.push_back(k);
      outer.output(out[size_of(k)]);
    }
    for (std::int32_t k = 0; k < l.n_states; ++k) outer.output(in[size_of(k)]);
    const auto results = outer.finish(l.steps / length, l.reverse, true);
    std::vector<Value> mine(out.size());
    std::size_t next = 0;
    for (std::int32_t k = 0; k < l.n_states; ++k) mine[size_of(k)] = results[next++];
    for (const std::int32_t k : kept) mine[size_of(k)] = joined_stack(results[next++]);
    // What is saved is read by the backward loop alone, which will not: something of the type stands there.
    for (const std::int32_t k : pair.saved) mine[size_of(k)] = filled(at.target, at.node.outputs[size_of(k)], 0);
    Forward& forward = forwards_[at.id];
    forward.operands.assign(at.operands.begin(), at.operands.end());
    forward.checkpoints.assign(results.begin() + static_cast<std::ptrdiff_t>(next), results.end());
    return mine;
  }

  std::vector<Value> backward(const RewriteNode& at, const Pair& pair) {
    const ScanLayout l = scan_layout(at.node);
    const Node& forward = graph_.node(pair.forward);
    const std::int64_t length = length_of(at.node);
    if (length == 0) return {};
    const Forward& made = forwards_.at(pair.forward);
    const ScanLayout f = scan_layout(forward);
    SegmentLoop outer;
    // Inputs first: those of the backward loop, then those of the forward loop.
    std::vector<Value> in(at.operands.size()), again;
    for (std::size_t i = 0; i < in.size(); ++i) {
      const ValueId id = at.node.inputs[i];
      const bool per_step = i >= size_of(l.n_states) && i < size_of(l.n_states + l.n_sequences);
      if (per_step && id.node == pair.forward && pair.saved.contains(id.output)) continue;
      in[i] = i < size_of(l.n_states) ? outer.state(at.operands[i])
              : per_step              ? outer.input(cut(at.operands[i], length), true)
                                      : outer.input(at.operands[i], false);
    }
    for (std::size_t i = 0; i < made.operands.size(); ++i)
      again.push_back(i < size_of(f.n_states)                    ? outer.input(made.checkpoints[i], true)
                      : i < size_of(f.n_states + f.n_sequences) ? outer.input(cut(made.operands[i], length), true)
                                                                 : outer.input(made.operands[i], false));
    const auto saved = segment(forward, again);
    for (std::size_t i = 0; i < in.size(); ++i)
      if (!in[i]) in[i] = saved[size_of(at.node.inputs[i].output)];
    const auto out = segment(at.node, in);
    for (std::size_t k = 0; k < out.size(); ++k)
      k < size_of(l.n_states) ? outer.next_state(out[k]) : outer.output(out[k]);
    auto results = outer.finish(l.steps / length, l.reverse, true);
    for (std::size_t k = size_of(l.n_states); k < results.size(); ++k) results[k] = joined_stack(results[k]);
    return results;
  }

  // [T,...] as [T/L,L,...], the same value each time.
  Value cut(Value stack, std::int64_t length) {
    Value& known = cuts_[stack.id()];
    if (!known) known = reshape(stack, stack.shape().with(0, length).inserted(0, stack.shape()[0] / length));
    return known;
  }

  std::vector<Value> inputs(SegmentLoop& outer, const RewriteNode& at, std::int64_t length) {
    const ScanLayout l = scan_layout(at.node);
    std::vector<Value> in;
    for (std::size_t i = 0; i < at.operands.size(); ++i)
      in.push_back(i < size_of(l.n_states)                    ? outer.state(at.operands[i])
                   : i < size_of(l.n_states + l.n_sequences) ? outer.input(cut(at.operands[i], length), true)
                                                              : outer.input(at.operands[i], false));
    return in;
  }

  const Graph& graph_;
  std::map<std::int32_t, Pair> pairs_;  // by backward loop
  std::map<std::int32_t, std::int32_t> backward_of_;
  std::map<std::int32_t, Forward> forwards_;
  std::map<ValueId, Value> cuts_;  // of the target
};

}  // namespace

std::shared_ptr<const Graph> checkpoint(const Graph& graph, PassLog* log) {
  std::shared_ptr<const Graph> result = drop_dead(graph);
  // From the last loop on: what an earlier one changes moves the numbers of later nodes only.
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& [backward, pair] : find_pairs(*result)) {
      if (segment_steps(scan_layout(result->node(backward)).steps) == 0) continue;
      if (auto moved = products_behind_into_steps(*result, backward)) {
        result = drop_dead(*moved);
        changed = true;
        break;
      }
    }
  }
  const auto pairs = find_pairs(*result);
  std::set<std::int32_t> loops;
  for (const auto& [backward, pair] : pairs)
    if (segment_steps(scan_layout(result->node(backward)).steps) > 0) loops.insert({backward, pair.forward});
  for (const std::int32_t loop : loops) {
    const std::int64_t steps = scan_layout(result->node(loop)).steps, length = segment_steps(steps);
    if (log)
      log->add("split a loop of " + std::to_string(steps) + " steps into " + std::to_string(steps / length) +
                   " segments of " + std::to_string(length),
               "the plan needs more than the memory limit");
  }
  result = drop_dead(*rewrite(*result, [&](const RewriteNode& at) {
    return loops.contains(at.id) ? products_into_steps(at) : std::vector<Value>{};
  }));
  return drop_dead(*Cutter(*result).run());
}

}  // namespace unroll
