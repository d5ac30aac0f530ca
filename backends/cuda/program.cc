// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/program.h"

#include <algorithm>
#include <cstring>

#include "backends/common/hazards.h"
#include "unroll/ops.h"

namespace unroll::cuda {

namespace {

using device::LoopOutputs;
using device::Operand;

std::shared_ptr<PlanProgram> compile_plan(Program& out, std::shared_ptr<const Plan> plan,
                                          const common::Hazards& hazards, const LoopOutputs& loop,
                                          int multiprocessors, const Blas* blas, bool whole_loops);

// The body as launches, or of one kernel that runs all steps: then its products are own kernels.
void compile_body(NodeWork& work, Program& out, const std::shared_ptr<const Plan>& body, const common::Hazards& hazards,
                  const LoopOutputs& outputs, int multiprocessors, const Blas* blas, bool whole_loops) {
  if (whole_loops) {
    Program attempt = out;
    work.body = compile_plan(attempt, body, hazards, outputs, multiprocessors, nullptr, true);
    work.whole = whole_loop(attempt.kernels, *work.body);
    if (work.whole) {
      out = std::move(attempt);
      return;
    }
  }
  work.body = compile_plan(out, body, hazards, outputs, multiprocessors, blas, whole_loops);
}

std::shared_ptr<PlanProgram> compile_plan(Program& out, std::shared_ptr<const Plan> plan,
                                          const common::Hazards& hazards, const LoopOutputs& loop,
                                          int multiprocessors, const Blas* blas, bool whole_loops) {
  auto made = std::make_shared<PlanProgram>();
  made->plan = plan;
  const auto nodes = plan->graph->nodes();
  made->constants.resize(nodes.size());
  NodeCompiler compiler(out, *plan, multiprocessors, blas);
  device::set_state_places(made->states, *plan, loop);
  if (made->states.two_arenas) made->second_arena = compiler.workspace(plan->arena_bytes);
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const Node& node = nodes[n];
    device::require_lowered("cuda", node);
    if (node.op == Op::constant) {
      const auto bytes = node.attributes.get<std::shared_ptr<const Tensor>>("value")->bytes();
      made->constants[n] = out.constants.size();
      out.constants.resize(device::aligned(out.constants.size() + std::max<std::size_t>(bytes.size(), 1)));
      if (!bytes.empty()) std::memcpy(out.constants.data() + made->constants[n], bytes.data(), bytes.size());
    }
    if (hazards.tasks[n].writes.empty()) continue;  // nothing to do, or nothing that is kept
    NodeWork work{static_cast<std::int32_t>(n)};
    work.reads = hazards.tasks[n].reads, work.writes = hazards.tasks[n].writes;
    if (node.op != Op::scan) {
      compiler.compile(work);
    } else {
      LoopOutputs outputs{scan_layout(node).n_states};
      for (const Storage& storage : plan->storage[n]) outputs.stored.push_back(storage.place != Storage::Place::none);
      compile_body(work, out, plan->bodies[n], *hazards.bodies[n], outputs, multiprocessors, blas, whole_loops);
      work.loop = {work.node, work.body, {}};
      for (std::size_t k = 0; k < node.outputs.size(); ++k) {
        const bool lost = !outputs.stored[k] && static_cast<int>(k) >= outputs.n_states;
        work.loop.unread.push_back(lost ? compiler.workspace(node.outputs[k].bytes()) : Operand{});
      }
    }
    made->works.push_back(std::move(work));
  }
  return made;
}

}  // namespace

Program compile_program(std::shared_ptr<const Plan> plan, int multiprocessors, Kernels kernels, const Blas* blas,
                        bool whole_loops) {
  Program out;
  out.kernels = std::move(kernels);
  if (plan->weights != WeightFormat::f32) device::refuse("cuda", "keeps weights in f32 only");
  const common::Hazards hazards = common::hazards_of(*plan);
  out.main = compile_plan(out, std::move(plan), hazards, {}, multiprocessors, blas, whole_loops);
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
