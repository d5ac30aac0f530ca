// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/work.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "unroll/ops.h"

namespace unroll::cpu {

namespace {

// Orders of magnitude of a core with AVX2 or AVX-512; measured beside `unroll bench --threads 1`.
constexpr double k_flop_per_ns = 150;
constexpr double k_bytes_per_ns = 50;      // weights of few rows, read from L2
constexpr double k_moved_per_ns = 10;      // bytes through copies and reductions
constexpr double k_cheap_ns = 0.08;        // an element of add, mul, ...
constexpr double k_expensive_ns = 0.6;     // an element of exp, tanh, ...
constexpr double k_call_ns = 40;
constexpr double k_barrier_ns = 700;       // with the wait for the slower thread
constexpr std::int64_t k_few_rows = 4;
constexpr double k_worth_threads = 0.8;    // of one thread's time: a guess, and the other cores are others' too

double elements(const Type& type) { return static_cast<double>(type.shape.elements()); }
double bytes(const Type& type) { return elements(type) * static_cast<double>(dtype_bytes(type.dtype)); }

double elementwise_ns(const Node& node) {
  return elements(node.outputs[0]) * (op_info(node.op).cost == OpCost::expensive ? k_expensive_ns : k_cheap_ns);
}

double matmul_ns(const Graph& graph, const Node& node) {
  const Type &a = graph.type(node.inputs[0]), &y = node.outputs[0];
  const int rank = a.shape.rank();
  const auto depth = static_cast<double>(a.shape[node.attributes.get<bool>("transpose_a") ? rank - 2 : rank - 1]);
  const double products = 2 * elements(y) * depth / k_flop_per_ns;
  return y.shape[y.shape.rank() - 2] > k_few_rows ? products : bytes(graph.type(node.inputs[1])) / k_bytes_per_ns;
}

double node_ns(const Graph& graph, const Node& node) {
  if (node.op == Op::matmul) return matmul_ns(graph, node);
  if (is_elementwise(node.op)) return elementwise_ns(node);
  double sum = 0;
  if (node.op == Op::fused) {
    for (const Node& inner : node.body->nodes())
      if (is_elementwise(inner.op)) sum += elementwise_ns(inner);
    return sum;
  }
  for (const ValueId& id : node.inputs) sum += bytes(graph.type(id));
  for (const Type& type : node.outputs) sum += bytes(type);
  return sum / k_moved_per_ns;
}

bool is_free(Op op) {  // sources, and what is nearly always a view
  return op == Op::input || op == Op::constant || op == Op::reshape || op == Op::slice || op == Op::broadcast;
}

}  // namespace

Work estimate_work(const Plan& plan) {
  Work work;
  const auto nodes = plan.graph->nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].op == Op::scan) {
      const ScanLayout layout = scan_layout(nodes[i]);
      const auto steps = static_cast<double>(layout.steps);
      const Work body = estimate_work(*plan.bodies[i]);
      work.nanoseconds += steps * body.nanoseconds;
      work.barriers += layout.n_states == 0 ? 1 : steps * body.barriers;
    } else if (!is_free(nodes[i].op)) {
      work.nanoseconds += node_ns(*plan.graph, nodes[i]) + k_call_ns;
      work.barriers += 1;
    }
  }
  return work;
}

namespace {

// Of a step, in this schedule.
double step_ns(Schedule schedule, const Plan& body, int threads, std::int64_t rows) {
  const Work work = estimate_work(body);
  const double least_barriers = std::min(1.0, work.barriers);
  const auto parts = static_cast<double>(threads);
  switch (schedule) {
    case Schedule::calls: return work.nanoseconds / parts + work.barriers * k_barrier_ns;
    case Schedule::columns: return work.nanoseconds / parts + least_barriers * k_barrier_ns;
    case Schedule::one:
    case Schedule::side_by_side: return work.nanoseconds;
    case Schedule::rows: break;
  }
  const auto most = static_cast<double>((rows + threads - 1) / threads);  // of one part, which reads all weights
  double weights = 0;
  for (const Node& node : body.graph->nodes())
    if (node.op == Op::matmul) weights += bytes(body.graph->type(node.inputs[1])) / k_bytes_per_ns;
  return std::max(work.nanoseconds * most / static_cast<double>(rows), weights);
}

// Nodes [begin, end) on so many threads, their loops in the best schedule.
double nodes_ns(const Plan& plan, std::int32_t begin, std::int32_t end, int threads) {
  double sum = 0;
  for (std::int32_t i = begin; i < end; ++i) {
    const Node& node = plan.graph->node(i);
    if (is_free(node.op)) continue;
    const double barrier = threads > 1 ? k_barrier_ns : 0;
    if (node.op == Op::scan && scan_layout(node).n_states > 0) {
      const Plan& body = *plan.bodies[static_cast<std::size_t>(i)];
      const double step =
          std::min(step_ns(Schedule::columns, body, threads, 0), step_ns(Schedule::one, body, threads, 0));
      sum += static_cast<double>(scan_layout(node).steps) * step + barrier;
    } else {
      const double alone = node.op == Op::scan
                               ? static_cast<double>(scan_layout(node).steps) *
                                     estimate_work(*plan.bodies[static_cast<std::size_t>(i)]).nanoseconds
                               : node_ns(*plan.graph, node) + k_call_ns;
      sum += alone / threads + barrier;
    }
  }
  return sum;
}

}  // namespace

std::vector<RankedSchedule> rank_schedules(const Plan& body, int threads, std::int64_t rows,
                                           const std::vector<Schedule>& possible) {
  constexpr double k_hopeless = 2;  // times the best guess
  std::vector<RankedSchedule> ranked;
  for (const Schedule schedule : possible) ranked.push_back({schedule, step_ns(schedule, body, threads, rows)});
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.step_ns < b.step_ns; });
  std::erase_if(ranked, [best = ranked.front().step_ns](const auto& r) { return r.step_ns > k_hopeless * best; });
  return ranked;
}

ForkSplit split_fork(const Plan& plan, const Fork& fork, int parts) {
  const auto branch_ns = [&](std::size_t b, int threads) {
    return nodes_ns(plan, fork.bounds[b], fork.bounds[b + 1], threads);
  };
  std::vector<std::pair<double, std::size_t>> branches;  // longest first
  for (std::size_t b = 0; b < fork.n_branches(); ++b) branches.emplace_back(branch_ns(b, 1), b);
  std::stable_sort(branches.begin(), branches.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  ForkSplit split;
  split.lanes.resize(std::min(fork.n_branches(), static_cast<std::size_t>(parts)));
  std::vector<double> work(split.lanes.size(), 0);
  for (const auto& [ns, branch] : branches) {  // each to the lane with the least work
    const auto least = static_cast<std::size_t>(std::min_element(work.begin(), work.end()) - work.begin());
    split.lanes[least].branches.push_back(branch);
    work[least] += ns;
  }
  for (int part = 0; part < parts; ++part) {  // each to the lane with the most work for a part
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
  split.in_turn_ns = nodes_ns(plan, fork.bounds.front(), fork.bounds.back(), parts);
  return split;
}

bool threads_pay(const Plan& plan, int threads) {
  const auto n = static_cast<std::int32_t>(plan.graph->nodes().size());
  double together = 0;
  std::int32_t done = 0;
  for (const Fork& fork : plan.forks) {
    const ForkSplit split = split_fork(plan, fork, threads);
    together += nodes_ns(plan, done, fork.bounds.front(), threads);
    together += std::min(split.side_by_side_ns + k_barrier_ns, split.in_turn_ns);
    done = fork.bounds.back();
  }
  together += nodes_ns(plan, done, n, threads);
  return together < k_worth_threads * nodes_ns(plan, 0, n, 1);
}

}  // namespace unroll::cpu
