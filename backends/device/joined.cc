// SPDX-License-Identifier: Apache-2.0
#include "backends/device/joined.h"

#include <algorithm>
#include <map>
#include <optional>

#include "unroll/ir/ops.h"
#include "unroll/passes/product_groups.h"

namespace unroll::device {

namespace {

using common::Region;
using common::touch;

// True if a part of a concatenation is computed at its place there.
bool is_in_place(const Plan& plan, ValueId part, ValueId whole, int axis, std::int64_t first) {
  const auto& of = [&](ValueId id) -> const Storage& {
    return plan.storage[id.node][id.output];
  };
  const Storage &a = of(part), &b = of(whole);
  const Ints from = common::strides_of(plan, part), to = common::strides_of(plan, whole);
  const std::size_t distance = first * to[axis] * dtype_bytes(plan.graph->type(part).dtype);
  if (a.place != b.place || a.index != b.index || a.offset != b.offset + distance) return false;
  const Shape& shape = plan.graph->type(part).shape;
  for (int k = 0; k < shape.rank(); ++k)  // of size 1: any stride will do
    if (shape[k] != 1 && from[k] != to[k]) return false;
  return true;
}

class Finder {
 public:
  Finder(const Plan& plan, const common::Hazards& hazards, const LoopOutputs& loop,
         const std::vector<JoinedConcat>& concats)
      : graph_(*plan.graph), hazards_(hazards), loop_(loop), concats_(concats) {}

  std::optional<Joined> of_product(std::int32_t product) const {
    const Node& node = graph_.node(product);
    if (node.op != Op::matmul || node.outputs[0].shape.elements() == 0) return std::nullopt;
    if (graph_.type(node.inputs[1]).shape.rank() != 2) return std::nullopt;
    const ProductGates gates = product_gates(graph_, product);
    std::optional<Joined> joined = of_reader(product, gates);
    if (!joined && loop_.n_states > 0) joined = of_state(product, gates);
    return joined;
  }
  // With the next step, by way of the node that makes a state of the product.
  std::optional<Joined> through_state(const Joined& joined) const {
    const ProductGates gates = product_gates(graph_, joined.product);
    const Node& maker = graph_.node(joined.epilogue);
    if (loop_.n_states == 0 || joined.state >= 0 || joined.stores || !joined.kept.empty() || joined.n_gates != 1 ||
        maker.outputs.size() != 1 || gates.reads.size() != 1 || gates.reads[0].value.node != joined.product)
      return std::nullopt;
    const auto reads_it = [&](const ValueId& id) { return id.node == joined.epilogue; };
    for (const Node& node : graph_.nodes())
      if (std::any_of(node.inputs.begin(), node.inputs.end(), reads_it)) return std::nullopt;
    std::optional<Joined> next = made_by(joined.product, ValueId{joined.epilogue, 0});
    if (!next || !reads_stay(joined.epilogue) || !is_last(joined.epilogue, -1)) return std::nullopt;
    next->through = joined.epilogue;
    next->otherwise = {joined};
    return next;
  }

 private:
  bool has_elements(const Node& node, std::int64_t n) const {
    return std::all_of(node.outputs.begin(), node.outputs.end(),
                       [&](const Type& type) { return type.shape.elements() == n; });
  }
  // True if nothing before the epilogue must come after `node`, except copies that wait too.
  bool may_wait(std::int32_t node, const Joined& joined) const {
    const auto waits = [&](std::int32_t n) {
      return std::any_of(joined.kept.begin(), joined.kept.end(), [&](const auto& copy) { return copy.first == n; });
    };
    return std::none_of(hazards_.edges.begin(), hazards_.edges.end(), [&](const auto& edge) {
      return edge.first == node && edge.second < joined.epilogue && !waits(edge.second);
    });
  }
  bool overwrites(std::int32_t node, std::int32_t product) const {
    const auto& reads = task(product).reads;
    if (touch(reads, task(node).writes)) return true;
    return std::any_of(concats_.begin(), concats_.end(), [&](const JoinedConcat& each) {
      return each.node == node && touch(reads, task(each.concat).writes);
    });
  }
  const common::Task& task(std::int32_t node) const { return hazards_.tasks[node]; }

  std::optional<Joined> of_reader(std::int32_t product, const ProductGates& gates) const {
    Joined joined{product, -1, {}, static_cast<int>(gates.gates)};
    for (const auto& read : gates.reads)
      if (read.node >= 0 && (joined.epilogue < 0 || read.node < joined.epilogue)) joined.epilogue = read.node;
    if (joined.epilogue < 0) return std::nullopt;
    const Node& node = graph_.node(joined.epilogue);
    const std::int64_t elements = gates.m * gates.units;
    if (!is_pointwise(node) || !has_elements(node, elements)) return std::nullopt;
    joined.gates.assign(node.inputs.size(), -1);
    const auto is_copy = [&](std::int32_t n) { return n != product && !task(n).writes.empty(); };
    for (const auto& read : gates.reads) {
      const Shape& shape = graph_.type(read.value).shape;
      const bool is_gate = shape.elements() == elements && shape == node.outputs[0].shape;
      if (read.node == joined.epilogue) {
        if (!is_gate) return std::nullopt;
        joined.gates[read.operand] = static_cast<int>(read.gate);
      } else if (!is_copy(read.value.node)) {
        joined.stores = true;
      }
      const std::pair copy{read.value.node, static_cast<int>(read.gate)};
      if (!is_copy(copy.first) || std::count(joined.kept.begin(), joined.kept.end(), copy)) continue;
      if (!is_gate || !may_wait(copy.first, joined)) return std::nullopt;
      joined.kept.push_back(copy);
    }
    const auto is_kept = [&](std::int32_t n) {
      return std::any_of(joined.kept.begin(), joined.kept.end(), [&](const auto& copy) { return copy.first == n; });
    };
    for (const std::int32_t movement : gates.movement)
      if (is_copy(movement) && !is_kept(movement)) return std::nullopt;
    for (const auto& copy : joined.kept)
      if (!std::count(joined.gates.begin(), joined.gates.end(), copy.second) ||
          touch(task(product).reads, task(copy.first).writes))
        return std::nullopt;
    if (!may_wait(product, joined) || overwrites(joined.epilogue, product)) return std::nullopt;
    return joined;
  }

  std::optional<Joined> of_state(std::int32_t product, const ProductGates& gates) const {
    if (gates.reads.size() != 1 || gates.reads[0].node >= 0) return std::nullopt;
    return made_by(product, ValueId{product, 0});
  }
  // `value`: the product, or what is made of it.
  std::optional<Joined> made_by(std::int32_t product, ValueId value) const {
    const auto outputs = graph_.outputs();
    const auto is_value = [&](const NamedValue& o) { return o.value == value; };
    const auto output = std::find_if(outputs.begin(), outputs.end(), is_value);
    const int state = static_cast<int>(output - outputs.begin());
    if (output == outputs.end() || state >= loop_.n_states || std::count_if(output, outputs.end(), is_value) != 1)
      return std::nullopt;
    const ValueId input = graph_.inputs()[state].value;
    Joined joined{.product = product, .state = state};
    for (std::int32_t n = 0; n < static_cast<std::int32_t>(graph_.nodes().size()); ++n)
      for (const ValueId& id : graph_.node(n).inputs) {
        if (id != input) continue;
        if (joined.epilogue >= 0 && joined.epilogue != n) return std::nullopt;
        joined.epilogue = n;
      }
    for (const NamedValue& o : outputs)
      if (o.value == input) return std::nullopt;
    if (joined.epilogue < 0) return std::nullopt;
    const Node& node = graph_.node(joined.epilogue);
    const Shape& shape = graph_.type(value).shape;
    if (!is_pointwise(node) || !has_elements(node, shape.elements())) return std::nullopt;
    if (shape != graph_.type(input).shape || shape != node.outputs[0].shape) return std::nullopt;
    for (const ValueId& id : node.inputs) joined.gates.push_back(id == input ? 0 : -1);
    return reads_stay(product) && is_last(product, value.node) ? std::optional(joined) : std::nullopt;
  }
  // True if nothing of this step but `maker` must come after the node: its operands remain until the next step.
  bool is_last(std::int32_t node, std::int32_t maker) const {
    return std::none_of(hazards_.edges.begin(), hazards_.edges.end(), [&](const auto& edge) {
      return edge.first == node && edge.second != maker &&
             edge.second < static_cast<std::int32_t>(graph_.nodes().size());
    });
  }
  // True if the next step keeps the operands of a product. It overwrites the states that this step read, and outputs
  // that the loop does not keep.
  bool reads_stay(std::int32_t product) const {
    for (const Region& region : hazards_.tasks[product].reads) {
      const auto [place, index] = region.space;
      if (place == Storage::Place::input && index < loop_.n_states) return false;
      const bool is_stack = place == Storage::Place::output && index >= loop_.n_states;
      if (is_stack && !loop_.stored[index]) return false;
    }
    return true;
  }

  const Graph& graph_;
  const common::Hazards& hazards_;
  const LoopOutputs& loop_;
  const std::vector<JoinedConcat>& concats_;
};

}  // namespace

bool is_overwritten(const Plan& plan, const Joined& joined, std::int32_t copy) {
  std::vector<common::Region> results;
  for (std::int32_t k = 0; k < std::ssize(plan.graph->node(joined.epilogue).outputs); ++k)
    results.push_back(common::region_of(plan, {joined.epilogue, k}));
  return common::touch(results, {common::region_of(plan, {copy, 0})});
}

bool is_pointwise(const Node& node) { return node.op == Op::fused || is_elementwise(node.op); }

std::vector<Joined> joined_products(const Plan& plan, const common::Hazards& hazards, const LoopOutputs& loop,
                                    const std::vector<JoinedConcat>& concats) {
  const Finder finder(plan, hazards, loop, concats);
  std::map<std::int32_t, Joined> by_epilogue;  // the latest product of each
  for (std::int32_t n = 0; n < static_cast<std::int32_t>(plan.graph->nodes().size()); ++n)
    if (auto joined = finder.of_product(n)) {
      Joined& other = by_epilogue[joined->epilogue];
      // A product of the same step is computed anyway; one of the state saves a dispatch as well.
      if (other.product < 0 || other.state >= 0 || joined->state < 0) other = std::move(*joined);
    }
  std::vector<Joined> through;
  for (const auto& [epilogue, joined] : by_epilogue)
    if (auto next = finder.through_state(joined); next && !by_epilogue.count(next->epilogue))
      through.push_back(std::move(*next));
  for (Joined& joined : through)
    if (by_epilogue.count(joined.through) && by_epilogue.try_emplace(joined.epilogue, joined).second)
      by_epilogue.erase(joined.through);
  std::vector<Joined> all;
  for (auto& [epilogue, joined] : by_epilogue) all.push_back(std::move(joined));
  return all;
}

std::vector<JoinedConcat> joined_concats(const Plan& plan, const common::Hazards& hazards) {
  std::vector<JoinedConcat> all;
  for (std::int32_t n = 0; n < static_cast<std::int32_t>(plan.graph->nodes().size()); ++n) {
    const Node& node = plan.graph->node(n);
    const auto& writes = hazards.tasks[n].writes;
    if (node.op != Op::concat || writes.empty()) continue;
    JoinedConcat joined{n};
    const int axis = static_cast<int>(node.attributes.get<std::int64_t>("axis"));
    std::int64_t first = 0;
    bool joins = true;
    for (const ValueId in : node.inputs) {
      const std::int64_t begin = first;
      first += plan.graph->type(in).shape[axis];
      if (is_in_place(plan, in, {n, 0}, axis, begin)) continue;
      joins = joins && is_pointwise(plan.graph->node(in.node)) && (joined.node < 0 || joined.node == in.node);
      joined.node = in.node;
      joined.parts.push_back({in.output, begin});
    }
    if (!joins || joined.node < 0) continue;
    // Nothing between the two uses the memory, and the node itself neither.
    for (const auto& [a, b] : hazards.edges) joins = joins && (b != n || a <= joined.node);
    const common::Task& task = hazards.tasks[joined.node];
    if (joins && !touch(task.reads, writes) && !touch(task.writes, writes)) all.push_back(std::move(joined));
  }
  return all;
}

}  // namespace unroll::device
