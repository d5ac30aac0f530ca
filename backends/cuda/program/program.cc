// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/program/program.h"

#include <algorithm>

#include "backends/common/hazards.h"
#include "unroll/ir/ops.h"

namespace unroll::cuda {

namespace {

using device::LoopOutputs;
using device::Operand;

// A plan, or the body of a loop (then `loop` says what it keeps).
struct Part {
  std::shared_ptr<const Plan> plan;
  const common::Hazards& hazards;
  const Tf32Values& tf32;
  const LoopOutputs* loop = nullptr;
  const Plan* outer = nullptr;  // of the body of a packed loop: the plan with the loop `scan`
  std::int32_t scan = -1;
};
std::shared_ptr<PlanProgram> compile_plan(Program& out, const Part& part, const Means& means);

// A loop as one kernel that runs all steps: then its products are own kernels. The kernels of its body are texts only.
bool compile_whole(NodeWork& work, Program& out, const Part& body, Means means) {
  Program attempt = out;
  attempt.kernels = {};
  means.blas = nullptr;
  work.body = compile_plan(attempt, body, means);
  WholeLoop loop{.threads = k_loop_threads, .what = "all in one kernel"};
  std::string reason;
  if (!print_loop({attempt.kernels, *work.body}, loop, out.kernels, reason)) {
    work.note += (work.note.empty() ? "" : "; ") + std::string("steps, because ") + reason;
    return false;
  }
  attempt.kernels = std::move(out.kernels);
  out = std::move(attempt);
  work.whole = std::move(loop);
  return true;
}

// The body of a loop of `plan`: as launches, or as parts of one kernel.
void compile_body(NodeWork& work, Program& out, const Plan& plan, const Part& body, const Means& means) {
  if (means.loops.form == LoopForm::resident) {
    ResidentLoop made = compile_resident(out, plan, work.node, body.hazards, *body.loop, means.loops);
    if (made.loop) {
      work.body = std::move(made.body);
      work.whole = std::move(made.loop);
      return;
    }
    work.note = "not resident, because " + made.reason;
  }
  if (means.loops.form != LoopForm::steps && compile_whole(work, out, body, means)) return;
  work.body = compile_plan(out, body, means);
}

// Products that run with the node behind them: [epilogue] its work, which takes the place of both.
class Joined {
 public:
  Joined(const Part& part, const Means& means) {
    if (means.blas) groups_ = blas_groups(*part.plan, part.hazards, part.loop != nullptr);
  }
  // True if the node is such a product.
  bool takes(std::int32_t node, const common::Hazards& hazards, NodeCompiler& compiler) {
    for (const BlasGroup& group : groups_) {
      if (group.product != node) continue;
      NodeWork work{group.epilogue};
      if (!compiler.compile(work, group)) return false;
      work.writes = hazards.tasks[group.epilogue].writes;
      for (const std::int32_t each : {group.product, group.epilogue}) {
        const auto& reads = hazards.tasks[each].reads;
        work.reads.insert(work.reads.end(), reads.begin(), reads.end());
      }
      works_.emplace(group.epilogue, std::move(work));
      return true;
    }
    return false;
  }
  // Null: the node is no epilogue.
  NodeWork* of(std::int32_t node) {
    const auto at = works_.find(node);
    return at == works_.end() ? nullptr : &at->second;
  }

 private:
  std::vector<BlasGroup> groups_;
  std::map<std::int32_t, NodeWork> works_;
};

std::shared_ptr<PlanProgram> compile_plan(Program& out, const Part& part, const Means& means) {
  const Plan& plan = *part.plan;
  NodeCompiler compiler(out, plan, means, part.tf32);
  const LoopOutputs loop = part.loop && !part.outer ? *part.loop : LoopOutputs{};
  const std::shared_ptr<PlanProgram> made = places_of(out, part.plan, loop, compiler);
  std::vector<int> moved;  // outputs
  if (part.outer) moved = compiler.set_packed(*part.outer, part.scan, part.hazards, made->states);
  compiler.set_constants(made->constants);
  compiler.set_main(part.loop == nullptr);
  const auto nodes = plan.graph->nodes();
  Joined joined(part, means);
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const Node& node = nodes[n];
    const auto id = static_cast<std::int32_t>(n);
    if (part.hazards.tasks[n].writes.empty()) continue;  // nothing to do, or nothing that is kept
    if (joined.takes(id, part.hazards, compiler)) continue;
    if (NodeWork* const work = joined.of(id)) {
      made->works.push_back(std::move(*work));
      continue;
    }
    NodeWork work{id};
    work.reads = part.hazards.tasks[n].reads, work.writes = part.hazards.tasks[n].writes;
    if (node.op != Op::scan) {
      compiler.compile(work);
      compiler.add_second_places(work);
    } else {
      const LoopOutputs outputs = device::loop_outputs(plan, id);
      Part body{plan.bodies[n], *part.hazards.bodies[n], part.tf32.body(id), &outputs};
      const bool is_packed = scan_layout(node).packed;
      if (is_packed) body.outer = &plan, body.scan = id;
      compile_body(work, out, plan, body, means);
      work.loop = device::loop_places(plan, id, work.body, compiler);
      if (is_packed) compiler.around_packed(work);
    }
    made->works.push_back(std::move(work));
  }
  for (const int output : moved) {
    NodeWork work;
    compiler.compile_move(work, output);
    made->works.push_back(std::move(work));
  }
  return made;
}

}  // namespace

std::shared_ptr<PlanProgram> places_of(Program& out, std::shared_ptr<const Plan> plan, const LoopOutputs& loop,
                                       device::Lowering& compiler) {
  auto made = std::make_shared<PlanProgram>();
  made->plan = plan;
  for (const Node& node : plan->graph->nodes()) device::require_lowered("cuda", node, true);
  device::set_state_places(made->states, *plan, loop);
  if (made->states.two_arenas) made->second_arena = compiler.workspace(plan->arena_bytes);
  device::place_constants(*made, out.constants);
  return made;
}

Program compile_program(std::shared_ptr<const Plan> plan, int multiprocessors, Kernels kernels, const Blas* blas,
                        const LoopOptions& loops, const RnnLibrary* rnn) {
  Program out;
  out.kernels = std::move(kernels);
  if (plan->weights != WeightFormat::f32) device::refuse("cuda", "keeps weights in f32 only");
  const common::Hazards hazards = common::hazards_of(*plan);
  const Tf32Values tf32(*plan);
  out.main = compile_plan(out, {std::move(plan), hazards, tf32}, {multiprocessors, blas, rnn, loops});
  return out;
}

std::int64_t commands_per_step(const PlanProgram& body) {
  std::int64_t n = 0;
  for (const NodeWork& work : body.works) {
    n += static_cast<std::int64_t>(work.launches.size());
    if (work.body) n += scan_layout(body.plan->graph->node(work.node)).steps * commands_per_step(*work.body);
  }
  for (std::size_t k = 0; k < body.plan->outputs.size(); ++k) n += body.copies_output(k);
  return n;
}

}  // namespace unroll::cuda
