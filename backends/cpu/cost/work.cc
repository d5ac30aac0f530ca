// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/cost/work.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "unroll/ir/ops.h"

namespace unroll::cpu {

namespace {

constexpr double k_worth_threads = 0.8;  // of one thread's time: an estimate; other programs need cores too

std::int32_t size_of(const Plan& plan) { return static_cast<std::int32_t>(plan.graph->nodes().size()); }

// Costs of a loop's body in its surroundings.
class WorkLoop {
 public:
  WorkLoop(const MachineModel& machine, const Costs& around, const Plan& plan, std::int32_t scan)
      : machine_(machine),
        body_(*plan.bodies[scan]),
        layout_(scan_layout(plan.graph->node(scan))),
        costs_(machine, body_, around.place_of_loop(scan)) {}

  bool has_states() const { return layout_.n_states > 0; }

  double all_steps_ns(Schedule schedule, int parts) const {
    double pack = 0;
    for (std::int32_t i = 0; i < size_of(body_); ++i) pack += costs_.pack_ns(i, schedule == Schedule::one ? 1 : parts);
    return pack + static_cast<double>(layout_.steps) * step_ns(schedule, parts);
  }
  // Independent steps, divided among workers.
  double independent_ns(int parts) const {
    return std::ceil(static_cast<double>(layout_.steps) / parts) * step_ns(Schedule::one, 1);
  }

 private:
  double step_ns(Schedule schedule, int parts) const {
    const Share share = share_of(schedule);
    double ns = machine_.call_ns;  // advancing its operands
    double calls = 0, products = 0;
    for (std::int32_t i = 0; i < size_of(body_); ++i) {
      const Node& node = body_.graph->node(i);
      if (node.op == Op::scan)
        ns += WorkLoop(machine_, costs_, body_, i).independent_ns(share == Share::none ? 1 : parts);
      else ns += costs_.call_ns(i, share, parts);
      calls += node.op == Op::scan || costs_.is_call(i);
      products += node.op == Op::matmul;
    }
    if (schedule == Schedule::calls && parts > 1) ns += calls * machine_.barrier_ns;
    if (schedule == Schedule::columns) ns += std::max(1.0, products) * machine_.barrier_ns;
    return ns;
  }

  const MachineModel& machine_;
  const Plan& body_;
  ScanLayout layout_;
  Costs costs_;
};

double nodes_ns(const MachineModel& machine, const Costs& costs, const Plan& plan, std::int32_t begin, std::int32_t end,
                int parts) {
  double sum = 0;
  for (std::int32_t i = begin; i < end; ++i) sum += node_ns(machine, costs, plan, i, parts);
  return sum;
}

}  // namespace

Share share_of(Schedule schedule) {
  switch (schedule) {
    case Schedule::columns: return Share::columns;
    case Schedule::rows: return Share::rows;
    case Schedule::calls: return Share::calls;
    case Schedule::one:
    case Schedule::side_by_side: break;
  }
  return Share::none;
}

double node_ns(const MachineModel& machine, const Costs& costs, const Plan& plan, std::int32_t id, int parts) {
  const double barrier = parts > 1 ? machine.barrier_ns : 0;
  if (plan.graph->node(id).op != Op::scan)
    return costs.is_call(id) ? costs.call_ns(id, Share::calls, parts) + barrier : 0;
  const WorkLoop loop(machine, costs, plan, id);
  if (!loop.has_states()) return loop.independent_ns(parts) + barrier;
  const double one = loop.all_steps_ns(Schedule::one, 1);
  return (parts == 1 ? one : std::min(one, loop.all_steps_ns(Schedule::columns, parts))) + barrier;
}

double loop_ns(const MachineModel& machine, const Costs& costs, const Plan& plan, std::int32_t scan, Schedule schedule,
               int parts) {
  return WorkLoop(machine, costs, plan, scan).all_steps_ns(schedule, parts);
}

std::vector<Schedule> rank_schedules(const MachineModel& machine, const Costs& costs, const Plan& plan,
                                     std::int32_t scan,
                                     int parts, const std::vector<Schedule>& possible) {
  constexpr double k_hopeless = 2;  // times the best estimate
  std::vector<std::pair<double, Schedule>> ranked;
  for (const Schedule schedule : possible)
    ranked.emplace_back(loop_ns(machine, costs, plan, scan, schedule, parts), schedule);
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Schedule> best;
  for (const auto& [ns, schedule] : ranked)
    if (ns <= k_hopeless * ranked.front().first) best.push_back(schedule);
  return best;
}

ForkSplit split_fork(const MachineModel& machine, const Costs& costs, const Plan& plan, const Fork& fork, int parts) {
  const auto branch_ns = [&](std::size_t b, int threads) {
    return nodes_ns(machine, costs, plan, fork.bounds[b], fork.bounds[b + 1], threads);
  };
  std::vector<std::pair<double, std::size_t>> branches;  // longest first
  for (std::size_t b = 0; b < fork.n_branches(); ++b) branches.emplace_back(branch_ns(b, 1), b);
  std::stable_sort(branches.begin(), branches.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  ForkSplit split;
  split.lanes.resize(std::min<std::size_t>(fork.n_branches(), parts));
  std::vector<double> work(split.lanes.size(), 0);
  for (const auto& [ns, branch] : branches) {  // each to the lane with the least work
    const std::size_t least = std::min_element(work.begin(), work.end()) - work.begin();
    split.lanes[least].branches.push_back(branch);
    work[least] += ns;
  }
  for (int part = 0; part < parts; ++part) {  // each to the lane with the most work per worker
    std::size_t most = 0;
    const auto share = [&](std::size_t l) {
      return split.lanes[l].parts == 0 ? HUGE_VAL : work[l] / split.lanes[l].parts;
    };
    for (std::size_t l = 1; l < work.size(); ++l)
      if (share(l) > share(most)) most = l;
    ++split.lanes[most].parts;
  }
  for (const ForkLane& lane : split.lanes) {
    double ns = 0;
    for (const std::size_t b : lane.branches) ns += branch_ns(b, lane.parts);
    split.side_by_side_ns = std::max(split.side_by_side_ns, ns);
  }
  split.in_turn_ns = nodes_ns(machine, costs, plan, fork.bounds.front(), fork.bounds.back(), parts);
  return split;
}

double plan_ns(const MachineModel& machine, const Plan& plan, int parts) {
  const Costs costs(machine, plan);
  double ns = parts > 1 ? machine.pool_ns : 0;
  std::int32_t done = 0;
  if (parts > 1)
    for (const Fork& fork : plan.forks) {
      const ForkSplit split = split_fork(machine, costs, plan, fork, parts);
      ns += nodes_ns(machine, costs, plan, done, fork.bounds.front(), parts);
      ns += std::min(split.side_by_side_ns + machine.barrier_ns, split.in_turn_ns);
      done = fork.bounds.back();
    }
  return ns + nodes_ns(machine, costs, plan, done, size_of(plan), parts);
}

bool threads_pay(const MachineModel& machine, const Plan& plan, int threads) {
  return plan_ns(machine, plan, threads) < k_worth_threads * plan_ns(machine, plan, 1);
}

}  // namespace unroll::cpu
