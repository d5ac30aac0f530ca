// SPDX-License-Identifier: Apache-2.0
// When a loop reads or stacks all parts of a value separately, it reads or stacks the whole value instead. The product
// of four gates from concat_products.cc is thus saved for the gradient once, not as four copies.
#include <algorithm>
#include <map>

#include "core/ir/ops/scan_parts.h"
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

// Positions in `values`, from `begin` on, of the slices that make up one value together; by that value.
using Slices = std::map<ValueId, std::vector<std::size_t>>;
Slices find_parts(const std::vector<Value>& values, std::size_t begin) {
  Slices parts;
  for (std::size_t i = begin; i < values.size(); ++i)
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

Value same_slice(Value whole, const Node& part) {
  return slice(whole, whole.rank() - 1, start_of(part), size_of(part));
}

class JoinedLoop {
 public:
  explicit JoinedLoop(const RewriteNode& at)
      : body_(*at.node.body), parts_(at.node, at.operands), n_states_(parts_.states.size()), loop_(parts_),
        target_(at.target) {}

  // Empty if the loop reads and stacks no value in parts.
  std::vector<Value> run() {
    const Slices read = find_parts(parts_.sequences, 0);
    const std::vector<Value> results = inline_graph(loop_.step(), body_, inputs(read));
    const Slices stacked = find_parts(results, n_states_);
    if (read.empty() && stacked.empty()) return {};
    std::vector<std::size_t> place(results.size());  // among the results of the new loop
    std::vector<Value> wholes;
    for (std::size_t k = 0; k < results.size(); ++k) {
      if (k >= n_states_ && is_part(stacked, results[k])) continue;
      place[k] = wholes.size();
      wholes.push_back(results[k]);
    }
    for (const auto& [id, parts] : stacked) {
      for (const std::size_t k : parts) place[k] = wholes.size();
      wholes.push_back(loop_.step().value(id));
    }
    const std::vector<Value> values = loop_.emit(wholes);
    std::vector<Value> all;
    for (std::size_t k = 0; k < results.size(); ++k) {
      const Value value = values[place[k]];
      all.push_back(wholes[place[k]] == results[k] ? value : same_slice(value, results[k].node()));
    }
    return all;
  }

 private:
  static bool is_part(const Slices& slices, const Value& value) {
    const Value whole = whole_of(value);
    return whole && slices.contains(whole.id());
  }

  // The inputs of the body: slices of the whole sequences in `read`, all else as before.
  std::vector<Value> inputs(const Slices& read) {
    std::vector<Value> in;
    for (const Value& state : parts_.states) in.push_back(loop_.state(state));
    for (const Value& x : parts_.sequences) in.push_back(is_part(read, x) ? Value() : loop_.sequence(x));
    for (const Value& constant : parts_.constants) in.push_back(loop_.constant(constant));
    for (const auto& [id, parts] : read) {
      const Value whole = loop_.sequence(target_.value(id));
      for (const std::size_t i : parts) in[n_states_ + i] = same_slice(whole, parts_.sequences[i].node());
    }
    return in;
  }

  const Graph& body_;
  const ScanParts parts_;
  const std::size_t n_states_;
  ScanBuilder loop_;
  Graph& target_;
};

}  // namespace

std::shared_ptr<const Graph> join_parts(const Graph& graph) {
  return with_bodies(graph, [](const Graph& g) {
    return rewrite(g, [](const RewriteNode& at) -> std::vector<Value> {
      return at.node.op == Op::scan && !scan_layout(at.node).packed ? JoinedLoop(at).run() : std::vector<Value>{};
    });
  });
}

}  // namespace unroll
