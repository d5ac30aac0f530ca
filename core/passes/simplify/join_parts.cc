// SPDX-License-Identifier: Apache-2.0
// When a loop reads or stacks all parts of a value separately, it reads or stacks the whole value instead. The product
// of four gates from concat_products.cc is thus saved for the gradient once, not as four copies.
#include <algorithm>
#include <map>

#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

std::int64_t start_of(const Node& slice) { return slice.attributes.get<std::int64_t>("start"); }
std::int64_t size_of(const Node& slice) { return slice.attributes.get<std::int64_t>("size"); }

// The value that a slice along the last axis is part of.
Value whole_of(const Value& part) {
  const Node& node = part.node();
  if (node.op != Op::slice || node.attributes.get<std::int64_t>("axis") != part.rank() - 1) return {};
  return part.graph().value(node.inputs[0]);
}

// Positions in `values`, from `begin` to `end`, of the slices that make up one value together; by that value.
std::map<ValueId, std::vector<std::size_t>> find_parts(const std::vector<Value>& values, std::size_t begin,
                                                       std::size_t end) {
  std::map<ValueId, std::vector<std::size_t>> parts;
  for (std::size_t i = begin; i < end; ++i)
    if (const Value whole = whole_of(values[i])) parts[whole.id()].push_back(i);
  const auto before = [&](std::size_t a, std::size_t b) {
    return start_of(values[a].node()) < start_of(values[b].node());
  };
  const auto make_up = [&](const std::vector<std::size_t>& list) {
    const Shape whole = whole_of(values[list[0]]).shape();
    std::int64_t next = 0;
    for (const std::size_t i : list) {
      if (start_of(values[i].node()) != next) return false;
      next += size_of(values[i].node());
    }
    return next == whole[whole.rank() - 1];
  };
  for (auto entry = parts.begin(); entry != parts.end();) {
    std::sort(entry->second.begin(), entry->second.end(), before);
    entry = make_up(entry->second) ? std::next(entry) : parts.erase(entry);
  }
  return parts;
}

std::vector<Value> join(const RewriteNode& at) {
  const ScanLayout l = scan_layout(at.node);
  const auto n_states = static_cast<std::size_t>(l.n_states);
  const auto n_data = n_states + static_cast<std::size_t>(l.n_sequences);
  const std::vector<Value> operands(at.operands.begin(), at.operands.end());
  const auto taken = find_parts(operands, n_states, n_data);
  // The new body's inputs: states, sequences that stay, whole ones, constants. `seen` is what the old body sees.
  Graph inner;
  std::vector<Value> seen(at.node.body->inputs().size()), outer;
  const auto take = [&](std::size_t i) {
    const NamedValue& input = at.node.body->inputs()[i];
    seen[i] = inner.input(input.name, at.node.body->type(input.value));
    outer.push_back(operands[i]);
  };
  const auto is_part = [&](std::size_t i) {
    const Value whole = i < n_states ? Value{} : whole_of(operands[i]);
    return whole && taken.contains(whole.id());
  };
  for (std::size_t i = 0; i < n_data; ++i)
    if (!is_part(i)) take(i);
  for (const auto& [id, parts] : taken) {
    const Value whole = at.target.value(id);
    outer.push_back(whole);
    const Value input = inner.input("whole" + std::to_string(outer.size()), {whole.dtype(), whole.shape().removed(0)});
    for (const std::size_t i : parts)
      seen[i] = slice(input, input.rank() - 1, start_of(operands[i].node()), size_of(operands[i].node()));
  }
  const auto n_sequences = static_cast<std::int64_t>(outer.size() - n_states);
  for (std::size_t i = n_data; i < seen.size(); ++i) take(i);
  outer.insert(outer.end(), operands.begin() + static_cast<std::ptrdiff_t>(seen.size()), operands.end());

  const std::vector<Value> results = inline_graph(inner, *at.node.body, seen);
  const auto stacked = find_parts(results, n_states, results.size());
  if (taken.empty() && stacked.empty()) return {};
  std::vector<std::size_t> place(results.size(), results.size());  // among the new outputs
  std::size_t n_outputs = 0;
  for (std::size_t k = 0; k < results.size(); ++k) {
    const Value whole = k < n_states ? Value{} : whole_of(results[k]);
    if (whole && stacked.contains(whole.id())) continue;
    inner.output(at.node.body->outputs()[k].name, results[k]);
    place[k] = n_outputs++;
  }
  for (const auto& [id, parts] : stacked) {
    inner.output("whole" + std::to_string(n_outputs), inner.value(id));
    for (const std::size_t k : parts) place[k] = n_outputs;
    ++n_outputs;
  }
  Attributes attributes = at.node.attributes;
  attributes.set("sequences", n_sequences);
  const auto values = at.target.append(Op::scan, outer, std::move(attributes), drop_dead(inner));
  std::vector<Value> all;
  for (std::size_t k = 0; k < results.size(); ++k) {
    const Value value = values[place[k]];
    const bool part = value.shape() != at.node.outputs[k].shape;
    all.push_back(part ? slice(value, value.rank() - 1, start_of(results[k].node()), size_of(results[k].node()))
                       : value);
  }
  return all;
}

}  // namespace

std::shared_ptr<const Graph> join_parts(const Graph& graph) {
  return with_bodies(graph, [](const Graph& g) {
    return rewrite(g, [](const RewriteNode& at) -> std::vector<Value> {
      return at.node.op == Op::scan && !scan_layout(at.node).packed ? join(at) : std::vector<Value>{};
    });
  });
}

}  // namespace unroll
