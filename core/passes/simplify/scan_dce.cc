// SPDX-License-Identifier: Apache-2.0
// Dead-code elimination in scans: drops values that neither a used output nor a live state needs, and stacks that are
// part of a wider stack.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "core/autodiff/transplant.h"
#include "core/ir/ops/scan_parts.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

// The same body with only the marked inputs and outputs.
std::shared_ptr<const Graph> cut(const Graph& body, const std::vector<bool>& inputs, const std::vector<bool>& outputs) {
  auto result = std::make_shared<Graph>();
  std::map<ValueId, Value> given;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (const auto& [name, value] = body.inputs()[i]; inputs[i]) given[value] = result->input(name, body.type(value));
  std::vector<ValueId> wanted;
  for (std::size_t k = 0; k < outputs.size(); ++k)
    if (outputs[k]) wanted.push_back(body.outputs()[k].value);
  const std::vector<Value> copies = transplant(*result, body, wanted, std::move(given));
  for (std::size_t k = 0, next = 0; k < outputs.size(); ++k)
    if (outputs[k]) result->output(body.outputs()[k].name, copies[next++]);
  return result;
}

// True if only products read output k of a scan, as rows. A product reads a part of wider rows in place.
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

// A per-step output that is a part of another one, which is a concat.
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

class DeadScanParts {
 public:
  DeadScanParts(const RewriteNode& at, const std::vector<int>& uses)
      : at_(at), body_(*at.node.body), layout_(scan_layout(at.node)), same_(uses.size()), within_(uses.size()),
        outputs_(uses.size()), inputs_(body_.inputs().size()) {
    merge_equal_stacks(uses);
    if (!layout_.packed) drop_parts_of_stacks();
    keep_needed();
  }

  // The scan without its dead parts; empty if it has none.
  std::vector<Value> run() const {
    const auto all = [](const std::vector<bool>& flags) { return std::ranges::count(flags, false) == 0; };
    if (all(inputs_) && all(outputs_)) return {};
    ScanParts parts(at_.node, at_.operands);
    std::size_t next = 0;
    for (auto* list : {&parts.states, &parts.sequences, &parts.constants}) {
      std::vector<Value> kept;
      for (const Value& operand : *list)
        if (inputs_[next++]) kept.push_back(operand);
      *list = std::move(kept);
    }
    if (parts.operands().empty()) return {};
    return spread(parts.emit(cut(body_, inputs_, outputs_)));
  }

 private:
  std::size_t n_states() const { return static_cast<std::size_t>(layout_.n_states); }

  // Per-step outputs of one value are stacked once.
  void merge_equal_stacks(const std::vector<int>& uses) {
    for (std::size_t i = 0; i < uses.size(); ++i) {
      same_[i] = i;
      for (std::size_t k = n_states(); k < i && same_[i] == i; ++k)
        if (body_.outputs()[k].value == body_.outputs()[i].value) same_[i] = k;
      if (uses[i] > 0) outputs_[same_[i]] = true;
    }
  }
  void drop_parts_of_stacks() {
    for (std::size_t i = n_states(); i < outputs_.size(); ++i) {
      if (!outputs_[i]) continue;
      within_[i] = find_within(at_, i, n_states());
      if (!within_[i]) continue;
      within_[i]->output = same_[within_[i]->output];
      if (outputs_[within_[i]->output]) outputs_[i] = false;
      else within_[i].reset();
    }
  }
  // A state that is read keeps its next value alive, which may read other states.
  void keep_needed() {
    std::vector<ValueId> all_inputs;
    for (const NamedValue& input : body_.inputs()) all_inputs.push_back(input.value);
    for (bool grown = true; grown;) {
      grown = false;
      std::vector<ValueId> wanted;
      for (std::size_t k = 0; k < outputs_.size(); ++k)
        if (outputs_[k]) wanted.push_back(body_.outputs()[k].value);
      const std::vector<ValueId> read = frontier(body_, wanted, all_inputs);
      for (std::size_t i = 0; i < inputs_.size(); ++i) inputs_[i] = std::ranges::count(read, all_inputs[i]) > 0;
      for (std::size_t i = 0; i < n_states(); ++i) {
        inputs_[i] = inputs_[i] || outputs_[i];
        if (inputs_[i] && !outputs_[i]) outputs_[i] = grown = true;
      }
    }
  }

  // Values for all results of the scan, made from those that are left.
  std::vector<Value> spread(const std::vector<Value>& values) const {
    std::vector<Value> result(outputs_.size());
    for (std::size_t i = 0, k = 0; i < outputs_.size(); ++i)
      if (outputs_[i]) result[i] = values[k++];
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      if (const auto& part = within_[i]) result[i] = slice(result[part->output], part->axis, part->start, part->size);
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      if (same_[i] != i) result[i] = result[same_[i]];
    return result;
  }

  const RewriteNode& at_;
  const Graph& body_;
  const ScanLayout layout_;
  std::vector<std::size_t> same_;              // [output] the first output with the same value
  std::vector<std::optional<Within>> within_;  // [output]
  std::vector<bool> outputs_, inputs_;         // of the body: those that stay
};

}  // namespace

std::shared_ptr<const Graph> scan_dce(const Graph& graph) {
  // Outer loops first: what an outer body drops, inner ones need not give.
  const auto pruned = [](const Graph& g) {
    const auto uses = count_uses(g);
    return rewrite(g, [&](const RewriteNode& at) -> std::vector<Value> {
      return at.node.op == Op::scan ? DeadScanParts(at, uses.of_node(at.id)).run() : std::vector<Value>{};
    });
  }(graph);
  return rewrite(*pruned, [](const RewriteNode& at) -> std::vector<Value> {
    return at.node.op == Op::scan ? copy_node(at, scan_dce(*at.node.body)) : std::vector<Value>{};
  });
}

}  // namespace unroll
