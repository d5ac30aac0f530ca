// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/program/program.h"

#include <algorithm>

#include "unroll/ir/ops.h"

namespace unroll::vulkan {

namespace {

[[noreturn]] void refuse(const std::string& what) { device::refuse("vulkan", what); }

void require_supported(const Graph& graph, const Limits& limits) {
  for (const Node& node : graph.nodes()) {
    device::require_lowered("vulkan", node, true);
    for (const Type& type : node.outputs) {
      kind_of(type.dtype);
      if (is_half(type.dtype) && !limits.halves)
        refuse("stores " + std::string(dtype_name(type.dtype)) +
               " on devices with storageBuffer16BitAccess only, which " + limits.name + " lacks");
    }
  }
}

using Emit = Assignment::Kind;

// Assigns each node of a plan, or of the body of a loop, to the work that computes it, then compiles these works.
class PlanCompiler {
 public:
  // `scan`: the loop of `outer` whose body the plan is, with the outputs `loop`; -1: the plan is no body.
  PlanCompiler(Context& context, Program& out, std::shared_ptr<const Plan> plan,
               std::shared_ptr<const common::Hazards> hazards, LoopOutputs loop = {}, const Plan* outer = nullptr,
               std::int32_t scan = -1)
      : context_(context), out_(out), plan_(*plan), graph_(*plan->graph), loop_(std::move(loop)),
        made_(std::make_shared<PlanProgram>()), compiler_(context, out, plan_) {
    made_->plan = std::move(plan);
    made_->hazards = std::move(hazards);
    concats_ = device::joined_concats(plan_, *made_->hazards);
    compiler_.set_concats(concats_);
    if (outer && scan_layout(outer->graph->node(scan)).packed) {
      moved_ = compiler_.set_packed(*outer, scan, *made_->hazards, made_->states);
    } else {
      device::set_state_places(made_->states, plan_, loop_);
      compiler_.store_ahead(made_->states);
    }
  }

  std::shared_ptr<const PlanProgram> compile() {
    require_supported(graph_, context_.device.limits());
    assign();
    if (made_->states.two_arenas) made_->second_arena = compiler_.workspace(plan_.arena_bytes);
    device::place_constants(*made_, out_.constants);
    for (const Assignment& each : assignments_) {
      const bool has_work = each.kind == Emit::moved_output || stores(each.node);
      if (has_work && each.kind != Emit::none) made_->works.push_back(compile(each));
    }
    return made_;
  }

 private:
  bool stores(std::int32_t node) const { return !made_->hazards->tasks[node].writes.empty(); }

  void assign() {
    for (std::int32_t n = 0; n < std::ssize(graph_.nodes()); ++n) {
      const Emit kind = graph_.node(n).op == Op::scan ? Emit::loop : Emit::node;
      assignments_.push_back({n, stores(n) ? kind : Emit::none, n});
    }
    for (const JoinedConcat& each : concats_) assignments_[each.concat].kind = Emit::none;
    for (const Joined& each : device::joined_products(plan_, *made_->hazards, loop_, concats_)) assign(each);
    if (loop_.stored.empty()) {  // weight gradients are products outside of loops
      shared_ = compiler_.shared_products(*made_->hazards, assignments_);
      for (int g = 0; g < std::ssize(shared_); ++g) {
        for (const std::int32_t n : shared_[g].products) assignments_[n].kind = Emit::none;
        if (shared_[g].sum >= 0) assignments_[shared_[g].sum].kind = Emit::none;
        assignments_[shared_[g].first] = {shared_[g].first, Emit::shared_products, g};
      }
    }
    for (const int output : moved_)
      assignments_.push_back({graph_.outputs()[output].value.node, Emit::moved_output, output});
  }

  void assign(const Joined& candidate) {
    auto work = compiler_.may_carry(candidate.state) ? compiler_.join(candidate) : std::nullopt;
    if (!work && !candidate.otherwise.empty()) work = compiler_.join(candidate.otherwise[0]);
    if (!work) return;
    const Joined& nodes = work->nodes;
    const bool is_carried = nodes.state >= 0;
    assignments_[nodes.product] = {nodes.product, is_carried ? Emit::last_step : Emit::none,
                                   is_carried ? nodes.state : nodes.epilogue};
    if (nodes.through >= 0) assignments_[nodes.through] = {nodes.through, Emit::last_step, nodes.state};
    assignments_[nodes.epilogue] = {nodes.epilogue, is_carried ? Emit::epilogue_of_carried : Emit::epilogue,
                                    static_cast<int>(joined_.size())};
    for (const auto& [copy, gate] : nodes.kept) assignments_[copy] = {copy, Emit::none, nodes.epilogue};
    made_->states.two_arenas = made_->states.two_arenas || is_carried;
    joined_.push_back(std::move(*work));
  }

  NodeWork compile(const Assignment& each) {
    NodeWork work{each.node};
    if (each.kind == Emit::moved_output) {
      compiler_.move_output(work, each.group);
      return work;
    }
    for (const JoinedConcat& concat : concats_)
      if (concat.node == each.node) work.joined.push_back(concat.concat);
    work.ahead = compiler_.stored_ahead(each.node);
    switch (each.kind) {
      case Emit::last_step:
        work.last_state = each.group;
        compiler_.compile(work);
        break;
      case Emit::epilogue: compiler_.compile(work, joined_[each.group]); break;
      case Emit::epilogue_of_carried:
        compiler_.compile(work);
        compiler_.compile(work, joined_[each.group]);
        break;
      case Emit::shared_products: compiler_.compile(work, shared_[each.group]); break;
      case Emit::loop: compile_loop(work); break;
      default: compiler_.compile(work);
    }
    return work;
  }

  void compile_loop(NodeWork& work) {
    const auto& body = plan_.bodies[work.node];
    const auto& hazards = made_->hazards->bodies[work.node];
    require_supported(*body->graph, context_.device.limits());
    if (compiler_.whole_loop(work, *hazards)) return;
    const LoopOutputs outputs = device::loop_outputs(plan_, work.node);
    work.body = PlanCompiler(context_, out_, body, hazards, outputs, &plan_, work.node).compile();
    work.loop = device::loop_places(plan_, work.node, work.body, compiler_);
    if (scan_layout(graph_.node(work.node)).packed) compiler_.around_packed(work);
  }

  Context& context_;
  Program& out_;
  const Plan& plan_;
  const Graph& graph_;
  const LoopOutputs loop_;
  std::shared_ptr<PlanProgram> made_;
  NodeCompiler compiler_;
  std::vector<JoinedConcat> concats_;
  std::vector<NodeCompiler::JoinedWork> joined_;
  std::vector<SharedProducts> shared_;
  std::vector<int> moved_;  // outputs
  std::vector<Assignment> assignments_;  // of the nodes, then of moved outputs
};

}  // namespace

Program compile_program(Context& context, std::shared_ptr<const Plan> plan) {
  Program out;
  if (plan->weights != WeightFormat::f32) refuse("keeps weights in f32 only");
  auto hazards = std::make_shared<const common::Hazards>(common::hazards_of(*plan));
  out.main = PlanCompiler(context, out, std::move(plan), std::move(hazards)).compile();
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
