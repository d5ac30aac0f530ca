// SPDX-License-Identifier: Apache-2.0
// Offers each composite to the backend. A refused composite is replaced by its body.
#include <algorithm>
#include <functional>
#include <map>

#include "core/ir/ops/composite.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

using AskClaim = std::function<Claim(const Graph&, const Node&)>;

// A composite or gradient that nobody has claimed yet.
bool is_open(const Node& node) {
  return op_info(node.op).kind == OpKind::composite && !node.attributes.get_or<bool>("claimed", false);
}

// Bodies may hold composites again; deeper than this is a cycle of definitions.
constexpr int k_max_expansions = 32;

// The forward node of a gradient node: a node with the same op, inputs and attributes.
Node forward_of(const Node& gradient) {
  const auto n = static_cast<std::ptrdiff_t>(gradient.attributes.get<std::int64_t>("n_inputs"));
  const Op op = find_op(gradient.attributes.get<std::string>("of"))->op;
  Node forward{op, {}, gradient.attributes, nullptr, {}, gradient.origin};
  forward.inputs.assign(gradient.inputs.begin(), gradient.inputs.begin() + n);
  for (const char* name : {"of", "d_outputs", "d_inputs", "n_inputs"}) forward.attributes.erase(name);
  return forward;
}

// The claim of the forward node of a gradient that reads what it saves.
Claim saving(const Claim& gradient) {
  Claim claim;
  claim.yes = true;
  claim.saved_bytes = gradient.saved_bytes;
  claim.scratch_bytes = gradient.saving_scratch_bytes;
  claim.format = gradient.format;
  claim.tf32 = gradient.tf32;
  return claim;
}

// Nodes the backend takes, with their claims; saved_bytes of a forward node are those of its gradients. A forward node
// and its gradients are taken together or not at all: what one implementation saves another could not read.
class Claims {
 public:
  Claims(const Graph& graph, const AskClaim& ask) : graph_(graph) {
    ask_all(ask);
    drop_broken_pairs(ask);
    for (const Pair& pair : pairs_)
      for (const std::int32_t f : pair.forwards)
        if (has(f) && of(pair.gradient).saved_bytes > 0) taken_.at(f) = saving(of(pair.gradient));
  }

  bool has(std::int32_t node) const { return taken_.count(node) > 0; }
  const Claim& of(std::int32_t node) const { return taken_.at(node); }
  // Why an open node was not taken.
  const std::string& refusal(std::int32_t node) const {
    static const std::string k_pair = "the backend accepted only one of forward and gradient";
    const auto found = refusals_.find(node);
    return found == refusals_.end() ? k_pair : found->second;
  }

 private:
  struct Pair {
    std::int32_t gradient;
    std::vector<std::int32_t> forwards;  // equal nodes, usually one; none when only the gradient is needed
  };
  void ask_all(const AskClaim& ask) {
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph_.nodes().size()); ++i) {
      const Node& node = graph_.node(i);
      if (!is_open(node)) continue;
      Claim claim = ask(graph_, node);
      if (node.op == Op::gradient) pairs_.push_back({i, partners_of(node)});
      else claim.saved_bytes = 0;
      if (claim.yes) taken_.emplace(i, claim);
      else refusals_.emplace(i, claim.reason);
    }
  }
  void drop_broken_pairs(const AskClaim& ask) {
    for (const Pair& pair : pairs_) {
      const auto& forwards = pair.forwards;
      const bool forward = forwards.empty()
                               ? ask(graph_, forward_of(graph_.node(pair.gradient))).yes
                               : std::all_of(forwards.begin(), forwards.end(), [&](auto f) { return has(f); });
      if (forward && has(pair.gradient)) continue;
      taken_.erase(pair.gradient);
      for (const std::int32_t f : forwards) taken_.erase(f);
    }
    for (const Pair& pair : pairs_)  // a forward node may have been lost through another of its gradients
      for (const std::int32_t f : pair.forwards)
        if (!has(f)) taken_.erase(pair.gradient);
  }
  std::vector<std::int32_t> partners_of(const Node& gradient) const {
    const Node wanted = forward_of(gradient);
    std::vector<std::int32_t> found;
    for (std::int32_t f = 0; f < static_cast<std::int32_t>(graph_.nodes().size()); ++f) {
      const Node& node = graph_.node(f);
      if (node.op == wanted.op && node.inputs == wanted.inputs && node.attributes == wanted.attributes)
        found.push_back(f);
    }
    return found;
  }

  const Graph& graph_;
  std::map<std::int32_t, Claim> taken_;
  std::map<std::int32_t, std::string> refusals_;
  std::vector<Pair> pairs_;
};

Attributes claimed(Attributes attributes, const Claim& claim) {
  attributes.set("claimed", true);
  if (claim.saved_bytes > 0) attributes.set("saved_bytes", static_cast<std::int64_t>(claim.saved_bytes));
  if (claim.scratch_bytes > 0) attributes.set("scratch_bytes", static_cast<std::int64_t>(claim.scratch_bytes));
  if (claim.format != DType::f32) attributes.set("format", claim.format);
  if (claim.tf32) attributes.set("tf32", true);
  return attributes;
}

// Forward nodes that save, as values of the new graph, found by what they are made of.
class SavingNodes {
 public:
  void add(const RewriteNode& at, const std::vector<Value>& results) {
    made_.push_back({at.node.op, at.node.inputs, at.node.attributes, results});
  }

  // Its results, saved bytes last. Appends the forward node when the graph has none, or one that comes later.
  const std::vector<Value>& of(const RewriteNode& gradient, const Claim& claim) {
    const Node wanted = forward_of(gradient.node);
    for (const Made& made : made_)
      if (made.op == wanted.op && made.inputs == wanted.inputs && made.attributes == wanted.attributes)
        return made.results;
    const auto operands = gradient.operands.first(wanted.inputs.size());
    made_.push_back({wanted.op, wanted.inputs, wanted.attributes,
                     gradient.target.append(wanted.op, operands, claimed(wanted.attributes, saving(claim)))});
    return made_.back().results;
  }

 private:
  struct Made {
    Op op;
    std::vector<ValueId> inputs;  // of the source
    Attributes attributes;
    std::vector<Value> results;
  };
  std::vector<Made> made_;
};

void require_body(const Node& node, const std::string& refusal) {
  const Composite* composite = find_composite(node.op);
  if (composite && composite->needs_kernel && composite->needs_kernel(node.attributes))
    throw Error(ErrorKind::unsupported, op_info(node.op).name, "needs a kernel of the backend: " + refusal,
                "Use a backend that works with several ranks: cpu or onednn");
}

std::shared_ptr<const Graph> claim_all(const Graph& graph, const AskClaim& ask, PassLog* log);

std::shared_ptr<const Graph> claim_once(const Graph& graph, const AskClaim& ask, PassLog* log, bool& changed) {
  const Claims claims(graph, ask);
  SavingNodes savers;
  return rewrite(graph, [&](const RewriteNode& at) -> std::vector<Value> {
    if (at.node.op == Op::scan) {
      const InLoop in_loop(log, at.source, at.node);
      return copy_node(at, claim_all(*at.node.body, ask, log));
    }
    if (!is_open(at.node)) return {};
    changed = true;
    const std::string text = log ? log->named_text(at.source, at.node) : "";
    if (log && !claims.has(at.id)) log->add("expanded " + text, claims.refusal(at.id), at.node.origin.layer);
    if (!claims.has(at.id)) require_body(at.node, claims.refusal(at.id));
    if (!claims.has(at.id)) return inline_graph(at.target, *composite_body(at.source, at.node), at.operands);
    const Claim& claim = claims.of(at.id);
    if (log)
      log->add("claimed " + text, "saves " + std::to_string(claim.saved_bytes) + " bytes", at.node.origin.layer);
    std::vector<Value> operands(at.operands.begin(), at.operands.end());
    if (at.node.op == Op::gradient && claim.saved_bytes > 0) {
      const auto& results = savers.of(at, claim);
      operands.insert(operands.end(), results.begin(), results.end());
    }
    auto results = at.target.append(at.node.op, operands, claimed(at.node.attributes, claim));
    if (at.node.op == Op::gradient || claim.saved_bytes == 0) return results;
    savers.add(at, results);
    results.pop_back();  // the node of the source has no saved bytes
    return results;
  });
}

std::shared_ptr<const Graph> claim_all(const Graph& graph, const AskClaim& ask, PassLog* log) {
  bool changed = false;
  auto result = claim_once(graph, ask, log, changed);
  for (int i = 0; changed; ++i) {
    if (i == k_max_expansions)
      throw Error(ErrorKind::internal, "claim", "composites expand into each other without end");
    changed = false;
    result = claim_once(*result, ask, log, changed);
  }
  return result;
}

}  // namespace

std::shared_ptr<const Graph> claim(const Graph& graph, const Backend& backend, Precision precision, PassLog* log) {
  const AskClaim ask = [&](const Graph& g, const Node& node) {
    return precision == Precision::f32 ? backend.claim(g, node) : backend.claim_in(g, node, precision);
  };
  return claim_all(graph, ask, log);
}

}  // namespace unroll
