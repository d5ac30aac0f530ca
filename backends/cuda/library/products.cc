// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/library/products.h"

#include <algorithm>
#include <optional>

#include "backends/common/expression.h"
#include "core/support/formats.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/product_groups.h"

namespace unroll::cuda {

namespace {

using common::Expression;
using common::Instruction;
using common::Region;

// ---- epilogues

// The value of a register of an epilogue.
enum class Holds : std::uint8_t { other, product, bias, zero, biased, rectified, biased_rectified };

Holds held(const Instruction& instruction, const std::vector<Holds>& registers) {
  const Holds a = registers[instruction.a], b = registers[instruction.b];
  const auto either = [&](Holds x, Holds y) { return (a == x && b == y) || (a == y && b == x); };
  switch (instruction.op) {
    case Op::cast: return is_float(instruction.to) || is_half(instruction.to) ? a : Holds::other;
    case Op::add: return either(Holds::product, Holds::bias) ? Holds::biased : Holds::other;
    case Op::maximum:
      if (either(Holds::product, Holds::zero)) return Holds::rectified;
      return either(Holds::biased, Holds::zero) ? Holds::biased_rectified : Holds::other;
    default: return Holds::other;
  }
}

bool is_zero(const Graph& graph, ValueId value) {
  const Node& node = graph.node(value.node);
  return node.op == Op::constant && node.attributes.get<std::shared_ptr<const Tensor>>("value")->at(0) == 0;
}

// The library's form of an epilogue with one kept result; none: it has no such form.
std::optional<BlasExtras> extras_of(const Graph& graph, const Expression& e, const ProductGroup& group,
                                    std::size_t result) {
  using Role = ProductGroup::Role;
  std::vector<Holds> registers;
  for (std::size_t k = 0; k < group.operands.size(); ++k) {
    const Role role = group.operands[k].role;
    const bool zero = role == Role::scalar && is_zero(graph, graph.node(group.epilogue).inputs[k]);
    registers.push_back(role == Role::product ? Holds::product
                        : role == Role::bias  ? Holds::bias
                        : zero                ? Holds::zero
                                              : Holds::other);
  }
  for (const auto& constant : e.constants) registers.push_back(constant.second == 0 ? Holds::zero : Holds::other);
  for (const Instruction& instruction : e.instructions) registers.push_back(held(instruction, registers));
  switch (registers[e.results[result].from]) {
    case Holds::product: return BlasExtras{};  // in another format
    case Holds::biased: return BlasExtras{.bias = true};
    case Holds::rectified: return BlasExtras{.relu = true};
    case Holds::biased_rectified: return BlasExtras{.bias = true, .relu = true};
    default: return std::nullopt;
  }
}

bool overlap(const std::vector<Region>& some, const std::vector<Region>& others) {
  for (const Region& a : some)
    for (const Region& b : others) {
      if (a.space != b.space) continue;
      for (const common::ByteRange& r : a.ranges)
        for (const common::ByteRange& s : b.ranges)
          if (r.begin < s.end && s.begin < r.end) return true;
    }
  return false;
}

// True if the product may run in place of its epilogue, and store the epilogue's result while it reads its operands.
bool may_wait(const common::Hazards& hazards, std::int32_t product, std::int32_t epilogue) {
  const auto task = [&](std::int32_t n) -> const common::Task& { return hazards.tasks[n]; };
  for (std::int32_t n = product + 1; n < epilogue; ++n)
    if (overlap(task(n).writes, task(product).reads) || overlap(task(n).reads, task(product).writes)) return false;
  return !overlap(task(epilogue).writes, task(product).reads);
}

// True if the library can read a bias there: dense, at an address that is aligned in every run.
bool is_fit(const Plan& plan, ValueId bias, bool is_body) {
  const Storage& at = plan.storage[bias.node][bias.output];
  const bool moves = is_body && at.place != Storage::Place::arena && at.place != Storage::Place::constant;
  return at.strides.empty() && at.offset % k_bias_alignment == 0 && !moves;
}

std::optional<BlasGroup> blas_group(const Plan& plan, const ProductGroup& group, bool is_body) {
  const Graph& graph = *plan.graph;
  const Node& node = graph.node(group.epilogue);
  std::optional<std::size_t> kept;
  for (std::size_t k = 0; k < node.outputs.size(); ++k) {
    if (plan.storage[group.epilogue][k].place == Storage::Place::none) continue;
    if (kept) return std::nullopt;
    kept = k;
  }
  const bool is_whole = group.gates == 1 && kept &&
                        node.outputs[*kept].shape == graph.node(group.product).outputs[0].shape;
  if (!is_whole) return std::nullopt;
  const Expression e =
      node.op == Op::fused ? common::expression_of_body(*node.body) : common::expression_of_node(graph, node);
  const std::optional<BlasExtras> extras = extras_of(graph, e, group, *kept);
  if (!extras) return std::nullopt;
  BlasGroup made{group.product, group.epilogue, *extras, {}, {group.epilogue, static_cast<std::int32_t>(*kept)}};
  if (!extras->bias) return made;
  const auto is_bias = [](const ProductGroup::Operand& operand) { return operand.role == ProductGroup::Role::bias; };
  if (std::count_if(group.operands.begin(), group.operands.end(), is_bias) != 1) return std::nullopt;
  const auto at = std::find_if(group.operands.begin(), group.operands.end(), is_bias) - group.operands.begin();
  made.bias = node.inputs[at];
  const bool has_type = graph.type(made.bias).dtype == node.outputs[*kept].dtype;
  return has_type && is_fit(plan, made.bias, is_body) ? std::optional(made) : std::nullopt;
}

// ---- tf32

bool is_tf32(const Tensor& tensor) {
  if (tensor.dtype() != DType::f32) return false;
  for (std::int64_t i = 0; i < tensor.elements(); ++i)
    if (const auto x = static_cast<float>(tensor.at(i)); x == x && round_to(k_tf32, x) != x) return false;
  return true;
}

bool mentions_tf32(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
    return node.op == Op::round_tf32 || (node.body && mentions_tf32(*node.body));
  });
}

// Outputs of a node (not a scan) that are tf32 numbers, given those operands; `inputs`: of the graph.
std::vector<bool> tf32_outputs(const Graph& graph, const Node& node, const std::vector<std::vector<bool>>& values,
                               const std::vector<bool>& inputs) {
  const auto is = [&](const ValueId& id) {
    return values[id.node][id.output];
  };
  const auto all = [&](std::size_t first) {
    return std::all_of(node.inputs.begin() + static_cast<std::ptrdiff_t>(first), node.inputs.end(), is);
  };
  switch (node.op) {
    case Op::round_tf32: return {true};
    case Op::constant: return {is_tf32(*node.attributes.get<std::shared_ptr<const Tensor>>("value"))};
    case Op::reshape:
    case Op::transpose:
    case Op::slice:
    case Op::broadcast:
    case Op::windows:
    case Op::concat:
    case Op::pad:  // zeros
    case Op::neg: return {all(0)};
    case Op::gather: return {is(node.inputs[0])};
    case Op::select: return {all(1)};
    case Op::input: {
      const auto same = [&](const NamedValue& input) { return &graph.node(input.value.node) == &node; };
      const auto at = std::find_if(graph.inputs().begin(), graph.inputs().end(), same) - graph.inputs().begin();
      return {static_cast<std::size_t>(at) < inputs.size() && inputs[at]};
    }
    case Op::fused:
    case Op::fused_reduction: {
      std::vector<bool> operands, outputs;
      for (const ValueId& id : node.inputs) operands.push_back(is(id));
      std::vector<std::vector<bool>> inner;
      for (const Node& each : node.body->nodes()) inner.push_back(tf32_outputs(*node.body, each, inner, operands));
      for (const NamedValue& output : node.body->outputs())
        outputs.push_back(inner[output.value.node][output.value.output]);
      if (!node.attributes.get_or<Ints>("sums", {}).empty()) outputs.assign(outputs.size(), false);
      return outputs;
    }
    default: return std::vector<bool>(node.outputs.size(), false);
  }
}

}  // namespace

std::vector<BlasGroup> blas_groups(const Plan& plan, const common::Hazards& hazards, bool is_body) {
  std::vector<BlasGroup> groups;
  for (const ProductGroup& group : product_groups(*plan.graph)) {
    const auto made = blas_group(plan, group, is_body);
    if (made && may_wait(hazards, group.product, group.epilogue)) groups.push_back(*made);
  }
  return groups;
}

Tf32Values::Tf32Values(const Plan& plan) {
  if (mentions_tf32(*plan.graph)) *this = Tf32Values(plan, {});
}

Tf32Values::Tf32Values(const Plan& plan, const std::vector<bool>& inputs) {
  for (std::int32_t n = 0; n < static_cast<std::int32_t>(plan.graph->nodes().size()); ++n) {
    const Node& node = plan.graph->node(n);
    values_.push_back(node.op == Op::scan ? scan_outputs(plan, n) : tf32_outputs(*plan.graph, node, values_, inputs));
  }
}

const Tf32Values& Tf32Values::body(std::int32_t scan) const {
  static const Tf32Values none;
  const auto at = bodies_.find(scan);
  return at == bodies_.end() ? none : at->second;
}

// A state is one where all steps leave one, and the first finds one.
std::vector<bool> Tf32Values::scan_outputs(const Plan& plan, std::int32_t n) {
  const Node& node = plan.graph->node(n);
  const Plan& body = *plan.bodies[n];
  const std::size_t n_states = scan_layout(node).n_states;
  std::vector<bool> inputs, outputs;
  for (const ValueId& id : node.inputs) inputs.push_back(has(id));
  for (bool changed = true; changed;) {
    changed = false;
    const Tf32Values& step = bodies_[n] = Tf32Values(body, inputs);
    outputs.clear();
    for (const NamedValue& output : body.graph->outputs()) outputs.push_back(step.has(output.value));
    for (std::size_t k = 0; k < n_states; ++k) {
      if (!inputs[k] || outputs[k]) continue;
      inputs[k] = false;
      changed = true;
    }
  }
  for (std::size_t k = 0; k < n_states; ++k) outputs[k] = inputs[k];
  return outputs;
}

}  // namespace unroll::cuda
