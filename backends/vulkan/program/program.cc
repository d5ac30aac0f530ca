// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/program/program.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <map>
#include <numeric>
#include <set>

#include "unroll/ir/ops.h"

namespace unroll::vulkan {

namespace {

using device::aligned;

[[noreturn]] void refuse(const std::string& what) { device::refuse("vulkan", what); }

void require_supported(const Node& node, const Limits& limits) {
  device::require_lowered("vulkan", node, true);
  for (const Type& type : node.outputs) {
    kind_of(type.dtype);
    if (is_half(type.dtype) && !limits.halves)
      refuse("stores " + std::string(dtype_name(type.dtype)) +
             " on devices with storageBuffer16BitAccess only, which " + limits.name + " lacks");
  }
}

// Steps of the body run one after the other.
std::shared_ptr<PlanProgram> compile_plan(Context& context, Program& out, std::shared_ptr<const Plan> plan,
                                          std::shared_ptr<const common::Hazards> hazards, const LoopOutputs& loop,
                                          const Plan* outer = nullptr, std::int32_t scan = -1) {
  auto made = std::make_shared<PlanProgram>();
  made->plan = plan;
  made->hazards = hazards;
  const auto nodes = plan->graph->nodes();
  made->constants.resize(nodes.size());
  NodeCompiler compiler(context, out, *plan);
  std::map<std::int32_t, const NodeCompiler::JoinedWork*> by_product, by_epilogue;
  std::list<NodeCompiler::JoinedWork> joined;
  std::map<std::int32_t, int> last_states;  // nodes that make a state which the next step computes itself
  const std::vector<JoinedConcat> concats = device::joined_concats(*plan, *hazards);
  compiler.set_concats(concats);
  const bool is_packed = outer && scan_layout(outer->graph->node(scan)).packed;
  std::vector<int> moved;  // outputs
  if (is_packed) {
    compiler.set_packed(*outer, scan, made->states, *hazards, moved);
  } else {
    device::set_state_places(made->states, *plan, loop);
    compiler.store_ahead(made->states);
  }
  for (const Joined& each : device::joined_products(*plan, *hazards, loop, concats)) {
    auto work = compiler.may_carry(each.state) ? compiler.join(each) : std::nullopt;
    if (!work && !each.otherwise.empty()) work = compiler.join(each.otherwise[0]);
    if (!work) continue;
    joined.push_back(std::move(*work));
    const Joined& group = joined.back().nodes;
    by_product[group.product] = by_epilogue[group.epilogue] = &joined.back();
    if (group.state < 0) continue;
    made->states.two_arenas = true;
    last_states[group.product] = group.state;
    if (group.through >= 0) last_states[group.through] = group.state;
  }
  std::set<std::int32_t> absorbed;  // nodes whose work others do
  for (const JoinedConcat& each : concats) absorbed.insert(each.concat);
  for (const auto& work : joined)
    for (const auto& [copy, gate] : work.nodes.kept) absorbed.insert(copy);
  std::vector<SharedProducts> shared;
  if (loop.stored.empty()) {  // weight gradients are products outside of loops
    std::vector<std::int32_t> runs_at(nodes.size());
    std::iota(runs_at.begin(), runs_at.end(), 0);
    std::set<std::int32_t> taken = absorbed;
    for (const auto& work : joined) {
      taken.insert({work.nodes.product, work.nodes.epilogue});
      runs_at[static_cast<std::size_t>(work.nodes.product)] = work.nodes.epilogue;
      for (const auto& [copy, gate] : work.nodes.kept) runs_at[static_cast<std::size_t>(copy)] = work.nodes.epilogue;
    }
    shared = compiler.shared_products(*hazards, runs_at, taken);
  }
  std::map<std::int32_t, const SharedProducts*> by_first;
  for (const SharedProducts& each : shared) {
    by_first[each.first] = &each;
    absorbed.insert(each.products.begin(), each.products.end());
    if (each.sum >= 0) absorbed.insert(each.sum);
    absorbed.erase(each.first);
  }
  if (made->states.two_arenas) made->second_arena = compiler.workspace(plan->arena_bytes);
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const Node& node = nodes[n];
    require_supported(node, context.device.limits());
    if (node.op == Op::constant) {
      const auto bytes = node.attributes.get<std::shared_ptr<const Tensor>>("value")->bytes();
      made->constants[n] = out.constants.size();
      out.constants.resize(aligned(out.constants.size() + std::max<std::size_t>(bytes.size(), 1)));
      if (!bytes.empty()) std::memcpy(out.constants.data() + made->constants[n], bytes.data(), bytes.size());
    }
    if (hazards->tasks[n].writes.empty()) continue;  // nothing to do, or nothing that is kept
    NodeWork work{static_cast<std::int32_t>(n)};
    const auto product = by_product.find(work.node), epilogue = by_epilogue.find(work.node);
    if (const auto state = last_states.find(work.node); state != last_states.end()) work.last_state = state->second;
    else if (product != by_product.end()) continue;
    if (absorbed.count(work.node)) continue;
    for (const JoinedConcat& each : concats)
      if (each.node == work.node) work.joined.push_back(each.concat);
    work.ahead = compiler.stored_ahead(work.node);
    if (node.op == Op::scan) {
      for (const Node& each : plan->bodies[n]->graph->nodes()) require_supported(each, context.device.limits());
      if (compiler.whole_loop(work, *hazards->bodies[n])) {
        made->works.push_back(std::move(work));
        continue;
      }
      LoopOutputs outputs{scan_layout(node).n_states};
      for (const Storage& storage : plan->storage[n]) outputs.stored.push_back(storage.place != Storage::Place::none);
      work.body = compile_plan(context, out, plan->bodies[n], hazards->bodies[n], outputs, plan.get(), work.node);
      const int n_states = outputs.n_states;
      for (std::size_t k = 0; k < node.outputs.size(); ++k) {
        const bool lost = plan->storage[n][k].place == Storage::Place::none && static_cast<int>(k) >= n_states;
        work.loop.unread.push_back(lost ? compiler.workspace(node.outputs[k].bytes()) : Operand{});
      }
      work.loop.node = work.node;
      work.loop.body = work.body;
      if (scan_layout(node).packed) compiler.around_packed(work);
    } else if (const auto group = by_first.find(work.node); group != by_first.end()) {
      compiler.compile(work, *group->second);
    } else {
      const bool is_joined = epilogue != by_epilogue.end();
      if (!is_joined || epilogue->second->nodes.state >= 0) compiler.compile(work);
      if (is_joined) compiler.compile(work, *epilogue->second);
    }
    made->works.push_back(std::move(work));
  }
  for (const int output : moved) {
    NodeWork work{plan->graph->outputs()[static_cast<std::size_t>(output)].value.node};
    compiler.move_output(work, output);
    made->works.push_back(std::move(work));
  }
  return made;
}

}  // namespace

Program compile_program(Context& context, std::shared_ptr<const Plan> plan) {
  Program out;
  if (plan->weights != WeightFormat::f32) refuse("keeps weights in f32 only");
  auto hazards = std::make_shared<const common::Hazards>(common::hazards_of(*plan));
  out.main = compile_plan(context, out, std::move(plan), std::move(hazards), {});
  if (out.params.size() * sizeof(std::uint32_t) > context.device.limits().range)
    refuse("the plan has more parameters than the device binds");
  return out;
}

std::size_t NodeCompiler::most_operands() const {
  const Limits& limits = context_.device.limits();
  return std::min(limits.buffers, limits.push_words) - (packed_ ? 2 : 1);
}

Dispatch& NodeCompiler::add(NodeWork& work, std::string key, Operands operands, Params params,
                            std::uint64_t invocations, const std::function<Words()>& make, std::uint32_t local_size,
                            std::uint32_t row_items) {
  const Limits& limits = context_.device.limits();
  mark_live(key, operands, params, row_items);
  Dispatch dispatch;
  dispatch.kernel = &context_.pipelines.get(key, static_cast<int>(operands.size()) + 1, make);
  dispatch.operands = std::move(operands);
  dispatch.params = static_cast<std::uint32_t>(out_.params.size());
  out_.params.insert(out_.params.end(), params.begin(), params.end());
  const std::uint64_t size = local_size > 0 ? local_size : limits.local_size;
  dispatch.groups = (invocations + size - 1) / size;
  if (dispatch.groups > std::uint64_t{limits.groups_x} * limits.groups_y || invocations > 0xffffffffu)
    refuse("a value of " + std::to_string(invocations) + " elements is more than the device dispatches at once");
  work.dispatches.push_back(std::move(dispatch));
  return work.dispatches.back();
}

void NodeCompiler::require_iterations(const Node& node, std::int64_t iterations, const std::string& what) const {
  const std::uint32_t most = context_.device.limits().iterations;
  if (iterations > most)
    refuse(std::string(op_info(node.op).name) + " over " + std::to_string(iterations) + " " + what +
           "; a shader may loop " + std::to_string(most) + " times on this device");
}

std::int64_t commands_per_step(const PlanProgram& body) {
  std::int64_t n = 0;
  for (const NodeWork& work : body.works) {
    if (work.last_state >= 0) continue;
    n += static_cast<std::int64_t>((work.carried.empty() ? work.dispatches : work.carried).size());
    if (!work.body) continue;
    n += scan_layout(body.plan->graph->node(work.node)).steps * commands_per_step(*work.body);
  }
  for (std::size_t k = 0; k < body.plan->outputs.size(); ++k) n += body.copies_output(k);
  return n;
}

}  // namespace unroll::vulkan
