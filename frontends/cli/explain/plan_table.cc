// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/explain/plan_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/support/text/counted.h"
#include "unroll/ir/ops.h"
#include "unroll/nn/scope.h"
#include "unroll/passes/work.h"

namespace unroll::cli {
namespace {

// Context of the current report lines: the plan that contains them, and the number of executions per run.
struct Inside {
  const Plan* plan = nullptr;  // of the lines one level deeper; null: not known
  double times = 1;
  bool in_loop = false;
  // Factor for their times: those of concurrent branches add up to the time of all together.
  double share = 1, predicted_share = 1;
};

const Node* node_of(const Inside& inside, const ReportLine& line) {
  if (!inside.plan || line.node < 0) return nullptr;
  const auto nodes = inside.plan->graph->nodes();
  return std::cmp_less(line.node, nodes.size()) ? &nodes[line.node] : nullptr;
}

std::string types_text(const std::vector<Type>& types) {
  constexpr std::size_t k_most = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(types.size(), k_most); ++i) text += (i == 0 ? "" : " ") + types[i].text();
  return types.size() > k_most ? text + fmt::format(" and {} more", types.size() - k_most) : text;
}

std::string shapes_of(const Graph& graph, const Node& node) {
  std::vector<Type> inputs;
  for (const ValueId id : node.inputs) inputs.push_back(graph.type(id));
  const std::string text = types_text(inputs) + (inputs.empty() ? "" : " ") + "-> " + types_text(node.outputs);
  return node.op == Op::scan ? counted(scan_layout(node).steps, "step") + ", " + text : text;
}

bool is_loop(const Node& node) {
  if (node.op == Op::scan) return scan_layout(node).n_states > 0;  // without states: blocks of rows
  return node.op == Op::gradient || op_info(node.op).tier == OpTier::composite;
}

// Returns a line's time relative to the sum of the lines one level deeper.
double share_of_inner(const std::vector<ReportLine>& lines, std::size_t outer, double ReportLine::*time) {
  double sum = 0;
  for (std::size_t i = outer + 1; i < lines.size() && lines[i].depth > lines[outer].depth; ++i)
    if (lines[i].depth == lines[outer].depth + 1) sum += lines[i].*time;
  return sum > 0 ? lines[outer].*time / sum : 0;
}

// Returns the context of the calls one level deeper than line i.
Inside within(const Inside& inside, const std::vector<ReportLine>& lines, std::size_t i, const Node* node) {
  Inside inner = inside;
  if (!node && lines[i].node < 0) {
    inner.share *= share_of_inner(lines, i, &ReportLine::milliseconds);
    inner.predicted_share *= share_of_inner(lines, i, &ReportLine::predicted_ms);
    return inner;
  }
  const bool is_scan = node && node->op == Op::scan;
  inner.plan = is_scan ? inside.plan->bodies[lines[i].node].get() : nullptr;
  if (is_scan) inner.times *= static_cast<double>(scan_layout(*node).steps);
  inner.in_loop = true;
  return inner;
}

bool has_inner(const std::vector<ReportLine>& lines, std::size_t i) {
  return i + 1 < lines.size() && lines[i + 1].depth > lines[i].depth;
}

}  // namespace

std::vector<PlanCall> plan_calls(const Plan& plan, const std::vector<ReportLine>& lines) {
  const std::vector<Origin> places = line_places(lines, plan_places(plan));
  std::vector<PlanCall> calls;
  std::vector<Inside> around{{&plan}};
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const ReportLine& line = lines[i];
    around.resize(std::clamp<std::size_t>(line.depth + 1, 1, around.size()));
    const Inside& inside = around.back();
    const Node* node = node_of(inside, line);
    PlanCall call{line, places[i], ""};
    call.line.milliseconds *= inside.share;
    call.line.predicted_ms *= inside.predicted_share;
    call.is_inner = inside.in_loop;
    call.counts = !inside.in_loop && !(line.node < 0 && has_inner(lines, i));
    if (node) {
      const NodeWork work = node_work(*inside.plan->graph, *node);
      call.flop = inside.times * work.flop;
      call.bytes = inside.times * work.bytes;
      call.shapes = shapes_of(*inside.plan->graph, *node);
      call.is_loop = is_loop(*node) && !inside.in_loop;
    }
    calls.push_back(std::move(call));
    around.push_back(within(inside, lines, i, node));
  }
  return calls;
}

namespace {

// Searches from each loop backwards through other calls to the previous loops.
std::vector<PlanEdge> edges_between(const Graph& graph, const std::vector<PlanCall>& calls) {
  std::map<std::int32_t, std::size_t> loops;  // by node
  for (std::size_t i = 0; i < calls.size(); ++i)
    if (calls[i].is_loop) loops.emplace(calls[i].line.node, i);
  std::vector<PlanEdge> edges;
  for (const auto& [to, call] : loops) {
    std::set<std::int32_t> seen, from;
    std::vector<ValueId> open = graph.node(to).inputs;
    while (!open.empty()) {
      const ValueId id = open.back();
      open.pop_back();
      const auto loop = loops.find(id.node);
      if (loop != loops.end()) {
        if (from.insert(id.node).second) edges.push_back({loop->second, call, graph.type(id).text()});
        continue;
      }
      if (!seen.insert(id.node).second) continue;
      const auto& inputs = graph.node(id.node).inputs;
      open.insert(open.end(), inputs.begin(), inputs.end());
    }
  }
  return edges;
}

// Returns layers in the order of their longest forward calls, because a dropout mask is drawn long before it is used.
// Calls without a layer come last.
std::vector<std::string> layers_of(const std::vector<PlanCall>& calls) {
  std::map<std::string, std::size_t> longest;
  const auto rank = [&](std::size_t i) {
    return std::pair(calls[i].place.phase == Origin::Phase::forward, calls[i].line.milliseconds);
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const auto [at, is_new] = longest.try_emplace(calls[i].place.layer, i);
    if (!is_new && rank(i) > rank(at->second)) at->second = i;
  }
  std::vector<std::string> layers;
  for (const auto& [layer, i] : longest) layers.push_back(layer);
  std::sort(layers.begin(), layers.end(), [&](const std::string& a, const std::string& b) {
    const auto order = [&](const std::string& l) {
      return std::tuple(l == k_shared, l == k_loss_layer, longest.at(l));
    };
    return order(a) < order(b);
  });
  return layers;
}

std::vector<PlaceTime> times_by_place(const std::vector<PlanCall>& calls) {
  const std::vector<std::string> layers = layers_of(calls);
  std::vector<PlaceTime> times;
  for (const Origin::Phase phase : {Origin::Phase::forward, Origin::Phase::backward, Origin::Phase::update})
    for (const std::string& layer : layers) {
      PlaceTime time{{layer, phase}};
      for (std::size_t i = 0; i < calls.size(); ++i) {
        if (calls[i].place != time.place || !calls[i].counts) continue;
        const ReportLine& line = calls[i].line;
        if (time.calls++ == 0 || line.milliseconds > calls[time.longest].line.milliseconds) time.longest = i;
        time.milliseconds += line.milliseconds;
        time.predicted_ms += line.predicted_ms;
        time.flop += calls[i].flop;
      }
      if (time.calls > 0) times.push_back(time);
    }
  return times;
}

}  // namespace

PlanTable plan_table(const ProfiledPlan& explained) {
  PlanTable table;
  table.calls = plan_calls(*explained.plan, explained.lines);
  table.edges = edges_between(*explained.plan->graph, table.calls);
  table.places = times_by_place(table.calls);
  for (const PlaceTime& time : table.places) table.milliseconds += time.milliseconds;
  return table;
}

UpdateProfile profile_updates(const std::vector<ProfiledPlan>& plans, std::int64_t updates) {
  UpdateProfile profile;
  for (const ProfiledPlan& plan : plans) {
    if (plan.runs == 0) continue;
    const double runs = static_cast<double>(plan.runs) / static_cast<double>(updates);
    profile.run_ms += plan.milliseconds * runs;
    for (PlanCall& call : plan_calls(*plan.plan, plan.lines)) {
      for (double* part : {&call.line.milliseconds, &call.line.predicted_ms, &call.flop, &call.bytes}) *part *= runs;
      if (call.counts) {
        profile.phase_ms.at(static_cast<unsigned>(call.place.phase)) += call.line.milliseconds;
        profile.predicted_ms += call.line.predicted_ms;
      }
      profile.calls.push_back(std::move(call));
    }
  }
  return profile;
}

}  // namespace unroll::cli
