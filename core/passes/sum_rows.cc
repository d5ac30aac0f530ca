// SPDX-License-Identifier: Apache-2.0
// Row groups that return sums over rows. Where only a sum over all rows reads a result [L, W] of a row group, such as
// the gradient of a layer norm's gain, the group adds up a few neighboring rows at a time and returns [rows / n, W]
// (unroll/row_sums.h): the terms never go through memory. Where the result leaves a loop, a stack of these sums
// takes the place of the stack of rows. Rows stay independent but for the few that are added up.
#include <algorithm>
#include <set>

#include "core/ir/row_ops.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "unroll/ops.h"
#include "unroll/row_sums.h"

namespace unroll {

namespace {

using Index = std::int64_t;

// More rows are fewer sums to store, but threads share the rows of a loop in multiples of this.
constexpr Index k_most_rows = 8;

Index rows_together(Index rows) {
  for (Index n = std::min(k_most_rows, rows); n > 1; --n)
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

// How many nodes and outputs read each value, and how many of them are sums over all rows.
class Reads {
 public:
  explicit Reads(const Graph& graph) : uses_(count_uses(graph)), sums_(uses_) {
    for (auto& node : sums_) std::fill(node.begin(), node.end(), 0);
    for (const Node& node : graph.nodes())
      if (sums_all_rows(graph, node)) ++sums_[index(node.inputs[0].node)][index(node.inputs[0].output)];
  }
  int uses(const ValueId& id) const { return uses_[index(id.node)][index(id.output)]; }
  bool only_sums(const ValueId& id) const {
    return uses(id) > 0 && uses(id) == sums_[index(id.node)][index(id.output)];
  }

 private:
  static std::size_t index(std::int32_t n) { return static_cast<std::size_t>(n); }

  std::vector<std::vector<int>> uses_, sums_;  // [node][output]
};

// How many rows of this result a group may add up; 0: it is none, or there are no rows to add up.
Index may_sum(const Graph& graph, const ValueId& id) {
  const Node& node = graph.node(id.node);
  const Type& type = graph.type(id);
  if (node.op != Op::row_group || rows_per_sum(node, static_cast<std::size_t>(id.output)) > 0) return 0;
  if (type.dtype == DType::b8 || is_half(type.dtype)) return 0;
  const Index n = rows_together(leading_axes(type.shape).elements());
  return n > 1 ? n : 0;
}

// The group with these results added up, besides those that are already.
std::vector<Value> with_sums(const RewriteNode& at, const std::set<ValueId>& results) {
  Ints sums = at.node.attributes.get_or<Ints>("sums", {});
  Index n = 0;
  for (std::size_t k = 0; k < at.node.outputs.size(); ++k) {
    const ValueId id{at.id, static_cast<std::int32_t>(k)};
    if (!results.contains(id)) continue;
    n = may_sum(at.source, id);
    sums.push_back(static_cast<Index>(k));
  }
  if (n == 0) return {};
  Attributes attributes = at.node.attributes;
  attributes.set("sums", std::move(sums));
  attributes.set("sum_rows", n);
  return at.target.append(at.node.op, at.operands, std::move(attributes), at.node.body);
}

class RowSums {
 public:
  RowSums(const Graph& source, PassLog* log) : source_(source), reads_(source), log_(log) {
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(source.nodes().size()); ++i)
      for (std::int32_t k = 0; k < static_cast<std::int32_t>(source.node(i).outputs.size()); ++k)
        if (may_sum(source, {i, k}) > 0 && reads_.only_sums({i, k})) results_.insert({i, k});
  }

  std::vector<Value> operator()(const RewriteNode& at) {
    if (at.node.op == Op::row_group) {
      note(at.source, results_, at.id);
      return with_sums(at, results_);
    }
    if (at.node.op == Op::scan) return sum_in_steps(at);
    // The sum over all rows of what is a sum of some by now.
    if (at.node.op == Op::reduce_sum && at.operands[0].type() != source_.type(at.node.inputs[0]))
      return {reshape(reduce_sum(at.operands[0], all_but_last(at.operands[0].shape())), at.node.outputs[0].shape)};
    return {};
  }

 private:
  // Stacks of rows, or of sums over all rows, become stacks of what the group in the step adds up.
  std::vector<Value> sum_in_steps(const RewriteNode& at) {
    const ScanLayout l = scan_layout(at.node);
    if (l.has_lengths || l.has_reset || l.packed) return {};
    const Graph& body = *at.node.body;
    const Reads reads(body);
    std::set<ValueId> results;  // of groups in the body
    std::set<std::int32_t> dropped;  // sums of what a group adds up already
    for (std::size_t k = static_cast<std::size_t>(l.n_states); k < at.node.outputs.size(); ++k) {
      const ValueId value = body.outputs()[k].value;
      if (!reads_.only_sums({at.id, static_cast<std::int32_t>(k)}) || reads.uses(value) != 1) continue;
      if (may_sum(body, value) > 0) results.insert(value);
      else if (sums_all_rows(body, body.node(value.node)) && is_summed(body, body.node(value.node).inputs[0]) &&
               reads.uses(body.node(value.node).inputs[0]) == 1)
        dropped.insert(value.node);
    }
    if (results.empty() && dropped.empty()) return {};
    const InLoop in_loop(log_, at.source, at.node);
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(body.nodes().size()); ++i) note(body, results, i);
    return copy_node(at, rewrite(body, [&](const RewriteNode& inner) -> std::vector<Value> {
                       if (inner.node.op == Op::row_group) return with_sums(inner, results);
                       if (dropped.contains(inner.id)) return {inner.operands[0]};
                       return {};
                     }));
  }
  static bool is_summed(const Graph& graph, const ValueId& id) {
    const Node& node = graph.node(id.node);
    return node.op == Op::row_group && rows_per_sum(node, static_cast<std::size_t>(id.output)) > 0;
  }

  void note(const Graph& graph, const std::set<ValueId>& results, std::int32_t group) {
    for (const ValueId& id : results)
      if (log_ && id.node == group)
        log_->add("summed " + graph.type(id).text() + " over " + std::to_string(may_sum(graph, id)) +
                      " rows at a time in its row group",
                  "only the sum over all rows is read");
  }

  const Graph& source_;
  const Reads reads_;
  PassLog* const log_;
  std::set<ValueId> results_;  // of groups in the graph
};

}  // namespace

std::shared_ptr<const Graph> sum_rows(const Graph& graph, PassLog* log) {
  return with_bodies(graph, [&](const Graph& g) -> std::shared_ptr<const Graph> {
    RowSums sums(g, log);
    return rewrite(g, [&](const RewriteNode& at) { return sums(at); });
  }, log);
}

}  // namespace unroll
