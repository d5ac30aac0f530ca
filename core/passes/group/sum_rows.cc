// SPDX-License-Identifier: Apache-2.0
// Fused reductions that return sums over rows. If only sums over the last axes of L read a result [L, W] of a fused
// reduction, such as the gradient of a layer norm's gain, the group adds up a few neighboring rows at a time. It
// returns [rows / n, W] (unroll/ir/row_sums.h), so the terms never go through memory. If the result leaves a loop, a
// stack of these sums replaces the stack of rows. Rows stay independent but for the few that are added up.
// A result that others read too, such as the gradient of logits, is added up in the same way if it is too large to be
// read again from a cache: the sums are then one more result.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "core/ir/ops/row_ops.h"
#include "core/passes/group/groups.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "unroll/ir/ops.h"
#include "unroll/ir/row_sums.h"

namespace unroll {

namespace {

using Index = std::int64_t;

// More rows are fewer sums to store, but threads share the rows of a loop in multiples of this.
constexpr Index k_most_rows = 8, k_most_of_many = 64, k_least_sums = 32;

Index rows_together(Index rows) {
  const Index most = std::clamp(rows / k_least_sums, k_most_rows, k_most_of_many);
  for (Index n = std::min(most, rows); n > 1; --n)
    if (rows % n == 0) return n;
  return 1;
}

Ints all_but_last(const Shape& shape) {
  Ints axes;
  for (int axis = 0; axis + 1 < shape.rank(); ++axis) axes.push_back(axis);
  return axes;
}
bool sums_all_rows(const Graph& graph, const Node& node) {
  if (node.op != Op::reduce_sum) return false;
  const Shape& from = graph.type(node.inputs[0]).shape;
  return from.rank() >= 2 && node.attributes.get<Ints>("axes") == all_but_last(from);
}

// Who reads each value: how many nodes and outputs, and how many of them are sums over all rows, or over the last axes
// of the rows.
class SumReads {
 public:
  explicit SumReads(const Graph& graph) : uses_(count_uses(graph)), all_(graph), last_(graph) {
    for (const Node& node : graph.nodes()) {
      const Index rows = summed_rows(graph, node);
      if (rows == 0) continue;
      const ValueId id = node.inputs[0];
      ++last_[id];
      if (sums_all_rows(graph, node)) ++all_[id];
      fewest_[id] = std::gcd(fewest_[id], rows);
    }
  }
  int uses(const ValueId& id) const { return uses_[id]; }
  bool only_sums_of_all(const ValueId& id) const { return uses(id) > 0 && uses(id) == all_[id]; }
  bool only_sums(const ValueId& id) const { return uses(id) > 0 && uses(id) == last_[id]; }
  bool some_sums_of_all(const ValueId& id) const { return all_[id] > 0; }
  // The greatest common divisor of the numbers of rows that the sums of a value add up.
  Index summed(const ValueId& id) const { return fewest_.at(id); }

 private:
  PerValue<int> uses_, all_, last_;
  std::map<ValueId, Index> fewest_;
};

// True if a group may add up rows of this result.
bool may_sum(const Graph& graph, const ValueId& id) {
  const Node& node = graph.node(id.node);
  const Type& type = graph.type(id);
  if (node.op != Op::fused_reduction || rows_per_sum(node, id.output) > 0) return false;
  return type.dtype != DType::b8 && !is_half(type.dtype);
}

// Results that groups add up, and what divides the numbers of rows in their sums.
using Summed = std::map<ValueId, Index>;

// The number of rows that a group adds up for its results. 1: none. Results that it adds up already fix the number.
Index rows_of_group(const Graph& graph, std::int32_t group, const Summed& results) {
  Index rows = 0;
  for (const auto& [id, summed] : results)
    if (id.node == group) rows = std::gcd(rows, summed);
  const Index n = graph.node(group).attributes.get_or<Index>("sum_rows", rows_together(rows));
  return rows > 0 && rows % n == 0 ? n : 1;
}

// The group with these results added up too. Results in `kept` stay, and their sums are further results.
std::vector<Value> with_sums(const RewriteNode& at, const Summed& results, const std::set<ValueId>& kept) {
  const Index n = rows_of_group(at.source, at.id, results);
  if (n == 1) return {};
  Ints sums = at.node.attributes.get_or<Ints>("sums", {});
  const std::shared_ptr<Graph> body = drop_dead(*at.node.body);
  for (std::size_t k = 0; k < at.node.outputs.size(); ++k) {
    const ValueId id{at.id, static_cast<std::int32_t>(k)};
    if (!results.contains(id)) continue;
    if (kept.contains(id)) {
      const NamedValue result = body->outputs()[k];
      body->output("sums of " + result.name, body->value(result.value));
    }
    sums.push_back(static_cast<Index>(kept.contains(id) ? body->outputs().size() - 1 : k));
  }
  Attributes attributes = at.node.attributes;
  attributes.set("sums", std::move(sums));
  attributes.set("sum_rows", n);
  return at.target.append(at.node.op, at.operands, std::move(attributes), body);
}

class RowSums {
 public:
  RowSums(const Graph& source, const Tuning& tuning, PassLog* log) : source_(source), reads_(source), log_(log) {
    const auto is_large = [&](const ValueId& id) {
      return std::cmp_greater(source.type(id).bytes(), tuning.summed_result_bytes);
    };
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(source.nodes().size()); ++i)
      for (std::int32_t k = 0; k < static_cast<std::int32_t>(source.node(i).outputs.size()); ++k) {
        const ValueId id{i, k};
        if (!may_sum(source, id)) continue;
        const bool keeps = !reads_.only_sums(id);
        if (keeps && !(reads_.some_sums_of_all(id) && is_large(id))) continue;
        results_[id] = reads_.summed(id);
        if (keeps) kept_.insert(id);
      }
  }

  std::vector<Value> operator()(const RewriteNode& at) {
    if (at.node.op == Op::fused_reduction) return sum_in_group(at);
    if (at.node.op == Op::scan) return sum_in_steps(at);
    if (const auto sums = kept_sums_.find(at.node.op == Op::reduce_sum ? at.node.inputs[0] : ValueId{});
        sums != kept_sums_.end() && sums_all_rows(at.source, at.node))
      return {reshape(reduce_sum(sums->second, all_but_last(sums->second.shape())), at.node.outputs[0].shape)};
    // The sum over rows of what is a sum of some by now.
    if (at.node.op == Op::reduce_sum && at.operands[0].type() != source_.type(at.node.inputs[0]))
      return {reshape(sum_of_sums(at), at.node.outputs[0].shape)};
    return {};
  }

 private:
  std::vector<Value> sum_in_group(const RewriteNode& at) {
    note(at.source, results_, at.id);
    std::vector<Value> results = with_sums(at, results_, kept_);
    std::size_t next = at.node.outputs.size();
    for (std::size_t k = 0; k < at.node.outputs.size() && next < results.size(); ++k)
      if (const ValueId id{at.id, static_cast<std::int32_t>(k)}; kept_.contains(id)) kept_sums_[id] = results[next++];
    if (!results.empty()) results.resize(at.node.outputs.size());
    return results;
  }
  Value sum_of_sums(const RewriteNode& at) const {
    const Value x = at.operands[0];
    if (sums_all_rows(source_, at.node)) return reduce_sum(x, all_but_last(x.shape()));
    const Shape& before = source_.type(at.node.inputs[0]).shape;
    const Index columns = before[before.rank() - 1];
    const Index sums = before.elements() / columns / summed_rows(source_, at.node);  // of each column
    return reduce_sum(reshape(x, Shape{sums, x.shape().elements() / columns / sums, columns}), {1});
  }

  // Stacks of rows, or of sums over all rows, become stacks of what the group in the step adds up.
  std::vector<Value> sum_in_steps(const RewriteNode& at) {
    const ScanLayout l = scan_layout(at.node);
    if (l.has_lengths || l.has_reset || l.packed) return {};
    const Graph& body = *at.node.body;
    const SumReads reads(body);
    Summed results;  // of groups in the body
    std::set<std::int32_t> dropped;  // sums of what a group adds up already
    for (std::size_t k = l.n_states; k < at.node.outputs.size(); ++k) {
      const ValueId value = body.outputs()[k].value;
      if (!reads_.only_sums_of_all({at.id, static_cast<std::int32_t>(k)}) || reads.uses(value) != 1) continue;
      if (may_sum(body, value)) results[value] = leading_axes(body.type(value).shape).elements();
      else if (sums_all_rows(body, body.node(value.node)) && is_summed(body, body.node(value.node).inputs[0]) &&
               reads.uses(body.node(value.node).inputs[0]) == 1)
        dropped.insert(value.node);
    }
    if (results.empty() && dropped.empty()) return {};
    const InLoop in_loop(log_, at.source, at.node);
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(body.nodes().size()); ++i) note(body, results, i);
    return copy_node(at, rewrite(body, [&](const RewriteNode& inner) -> std::vector<Value> {
                       if (inner.node.op == Op::fused_reduction) return with_sums(inner, results, {});
                       if (dropped.contains(inner.id)) return {inner.operands[0]};
                       return {};
                     }));
  }
  static bool is_summed(const Graph& graph, const ValueId& id) {
    const Node& node = graph.node(id.node);
    return node.op == Op::fused_reduction && rows_per_sum(node, id.output) > 0;
  }

  void note(const Graph& graph, const Summed& results, std::int32_t group) {
    const Index n = rows_of_group(graph, group, results);
    for (const auto& [id, rows] : results)
      if (log_ && id.node == group && n > 1)
        log_->add("summed " + graph.type(id).text() + " over " + std::to_string(n) + " rows at a time in its "
                      "fused reduction",
                  kept_.contains(id) ? "it is large, and its sum over all rows is read too"
                                     : "only the sum over all rows is read");
  }

  const Graph& source_;
  const SumReads reads_;
  PassLog* const log_;
  Summed results_;  // of groups in the graph
  std::set<ValueId> kept_;  // of these, those that others read too
  std::map<ValueId, Value> kept_sums_;  // what their groups add up, in the new graph
};

}  // namespace

std::shared_ptr<const Graph> sum_rows(const Graph& graph, const Tuning& tuning, PassLog* log) {
  return with_bodies(graph, [&](const Graph& g) -> std::shared_ptr<const Graph> {
    RowSums sums(g, tuning, log);
    return rewrite(g, [&](const RewriteNode& at) { return sums(at); });
  }, log);
}

}  // namespace unroll
