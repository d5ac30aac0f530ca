// SPDX-License-Identifier: Apache-2.0
// Dead-code elimination in scans: drops values that neither a used output nor a live state needs, and stacks that are
// part of a wider stack.
#include <algorithm>
#include <optional>
#include <set>

#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

// Nodes of `body` that the outputs marked in `wanted` need.
std::vector<bool> reach(const Graph& body, const std::vector<bool>& wanted) {
  std::vector<bool> live(body.nodes().size(), false);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i]) live[static_cast<std::size_t>(body.outputs()[i].value.node)] = true;
  for (std::size_t i = live.size(); i-- > 0;)
    if (live[i])
      for (const ValueId& id : body.nodes()[i].inputs) live[static_cast<std::size_t>(id.node)] = true;
  return live;
}

// The same body with only the marked inputs and outputs.
std::shared_ptr<const Graph> cut(const Graph& body, const std::vector<bool>& inputs, const std::vector<bool>& outputs) {
  Graph marked;
  std::vector<Value> all;
  for (const NamedValue& input : body.inputs()) all.push_back(marked.input(input.name, body.type(input.value)));
  const auto values = inline_graph(marked, body, all);
  auto result = std::make_shared<Graph>();
  std::vector<std::vector<Value>> map(marked.nodes().size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i]) map[i] = {result->input(body.inputs()[i].name, all[i].type())};  // inputs are the first nodes
  std::vector<bool> live(marked.nodes().size(), false);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i]) live[static_cast<std::size_t>(values[i].id().node)] = true;
  for (std::size_t i = live.size(); i-- > 0;)
    if (live[i])
      for (const ValueId& id : marked.nodes()[i].inputs) live[static_cast<std::size_t>(id.node)] = true;
  const auto at = [&](const ValueId& id) {
    return map[static_cast<std::size_t>(id.node)][static_cast<std::size_t>(id.output)];
  };
  for (std::size_t i = inputs.size(); i < live.size(); ++i) {
    if (!live[i]) continue;
    const Node& node = marked.nodes()[i];
    std::vector<Value> operands;
    for (const ValueId& id : node.inputs) operands.push_back(at(id));
    map[i] = result->append_copy(marked, node, operands);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i]) result->output(body.outputs()[i].name, at(values[i].id()));
  return result;
}

// Whether products alone read output k of a scan, as rows: they take a part of wider rows as it lies.
bool only_products_read(const Graph& graph, std::int32_t scan, std::int32_t k) {
  std::set<ValueId> values{{scan, k}};
  for (std::int32_t n = scan + 1; n < static_cast<std::int32_t>(graph.nodes().size()); ++n)
    for (const ValueId& id : graph.node(n).inputs) {
      if (!values.contains(id)) continue;
      const Node& reader = graph.node(n);
      if (reader.op == Op::reshape && reader.outputs[0].shape.rank() == 2) values.insert({n, 0});
      else if (reader.op != Op::matmul || reader.inputs.size() > 2 || reader.outputs[0].shape.rank() != 2) return false;
    }
  const auto named = graph.outputs();
  return std::none_of(named.begin(), named.end(),
      [&](const NamedValue& output) { return values.contains(output.value); });
}

// Where a per-step output lies in another one that is a concat.
struct Within {
  std::size_t output;
  int axis;  // of the stack
  std::int64_t start, size;
};
std::optional<Within> find_within(const RewriteNode& at, std::size_t i, std::size_t n_states) {
  const Graph& body = *at.node.body;
  for (std::size_t k = n_states; k < body.outputs().size(); ++k) {
    const Node& whole = body.node(body.outputs()[k].value.node);
    if (k == i || whole.op != Op::concat) continue;
    const auto axis = static_cast<int>(whole.attributes.get<std::int64_t>("axis"));
    std::int64_t start = 0;
    for (const ValueId& part : whole.inputs) {
      const std::int64_t size = body.type(part).shape[axis];
      if (part == body.outputs()[i].value && only_products_read(at.source, at.id, static_cast<std::int32_t>(i)))
        return Within{k, axis + 1, start, size};
      start += size;
    }
  }
  return std::nullopt;
}

std::vector<Value> prune(const RewriteNode& at, const std::vector<int>& uses) {
  const ScanLayout l = scan_layout(at.node);
  const Graph& body = *at.node.body;
  const auto n_states = static_cast<std::size_t>(l.n_states);
  const auto n_data = n_states + static_cast<std::size_t>(l.n_sequences + l.n_constants);
  std::vector<bool> outputs(uses.size());
  std::vector<std::size_t> same(uses.size());  // per-step outputs of one value are stacked once
  for (std::size_t i = 0; i < uses.size(); ++i) {
    same[i] = i;
    for (std::size_t k = n_states; k < i && same[i] == i; ++k)
      if (body.outputs()[k].value == body.outputs()[i].value) same[i] = k;
    if (uses[i] > 0) outputs[same[i]] = true;
  }
  std::vector<std::optional<Within>> within(uses.size());
  for (std::size_t i = n_states; i < uses.size() && !l.packed; ++i) {
    if (!outputs[i]) continue;
    within[i] = find_within(at, i, n_states);
    if (!within[i]) continue;
    within[i]->output = same[within[i]->output];
    if (outputs[within[i]->output]) outputs[i] = false;
    else within[i].reset();
  }
  std::vector<bool> inputs(n_data, false);
  for (bool grown = true; grown;) {  // a state that is read keeps its next value alive
    grown = false;
    const std::vector<bool> live = reach(body, outputs);
    for (std::size_t i = 0; i < n_data; ++i) inputs[i] = live[static_cast<std::size_t>(body.inputs()[i].value.node)];
    for (std::size_t i = 0; i < n_states; ++i) {
      inputs[i] = inputs[i] || outputs[i];
      if (inputs[i] && !outputs[i]) outputs[i] = grown = true;
    }
  }
  std::vector<Value> operands;
  std::int64_t states = 0, sequences = 0;
  bool all = true;
  for (std::size_t i = 0; i < at.operands.size(); ++i) {
    const bool kept = i >= n_data || inputs[i];
    all &= kept;
    if (!kept) continue;
    operands.push_back(at.operands[i]);
    states += i < n_states;
    sequences += i >= n_states && i < n_states + static_cast<std::size_t>(l.n_sequences);
  }
  for (const bool kept : outputs) all &= kept;
  if (all || operands.empty()) return {};
  Attributes attributes = at.node.attributes;
  attributes.set("states", states);
  attributes.set("sequences", sequences);
  const auto values = at.target.append(Op::scan, operands, std::move(attributes), cut(body, inputs, outputs));
  std::vector<Value> result(outputs.size());
  for (std::size_t i = 0, k = 0; i < outputs.size(); ++i)
    if (outputs[i]) result[i] = values[k++];
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (within[i]) result[i] = slice(result[within[i]->output], within[i]->axis, within[i]->start, within[i]->size);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (same[i] != i) result[i] = result[same[i]];
  return result;
}

}  // namespace

std::shared_ptr<const Graph> scan_dce(const Graph& graph) {
  // Outer loops first: what an outer body drops, inner ones need not give.
  const auto pruned = [](const Graph& g) {
    const auto uses = count_uses(g);
    return rewrite(g, [&](const RewriteNode& at) -> std::vector<Value> {
      return at.node.op == Op::scan ? prune(at, uses[static_cast<std::size_t>(at.id)]) : std::vector<Value>{};
    });
  }(graph);
  return rewrite(*pruned, [](const RewriteNode& at) -> std::vector<Value> {
    return at.node.op == Op::scan ? copy_node(at, scan_dce(*at.node.body)) : std::vector<Value>{};
  });
}

}  // namespace unroll
