// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "frontends/cli/profile.h"
#include "unroll/ops.h"
#include "unroll/work.h"

namespace unroll::cli {
namespace {

// What the lines at one depth are about.
struct Around {
  const Plan* plan;
  double times;      // in a run
  bool whole;        // lines are parts of the run
  double share = 1;  // of their time that counts: branches side by side take the time of one
};

// Time of the lines one deeper than `line`, which follow it.
double inner_ms(const std::vector<ReportLine>& lines, std::size_t line) {
  double sum = 0;
  for (std::size_t i = line + 1; i < lines.size() && lines[i].depth > lines[line].depth; ++i)
    if (lines[i].depth == lines[line].depth + 1) sum += lines[i].milliseconds;
  return sum;
}
bool has_inner(const std::vector<ReportLine>& lines, std::size_t line) {
  return line + 1 < lines.size() && lines[line + 1].depth > lines[line].depth;
}

void add_plan(const TimedBackend::Ran& ran, double updates, const std::set<std::string>& parameters,
              UpdateProfile& profile) {
  const std::vector<NodePlace> places = line_places(ran.lines, plan_phases(*ran.plan, parameters));
  const double runs = static_cast<double>(ran.runs) / updates;
  std::vector<Around> around{{ran.plan.get(), runs, true}};
  for (std::size_t i = 0; i < ran.lines.size(); ++i) {
    const ReportLine& line = ran.lines[i];
    around.resize(static_cast<std::size_t>(line.depth) + 1, around.back());
    const Around here = around.back();
    const bool branches = line.node < 0 && has_inner(ran.lines, i);
    CallTime call{places[i],
                  line.step,
                  line.implementation,
                  line.depth,
                  here.share * line.milliseconds / updates,
                  line.predicted_ms * runs,
                  0,
                  0,
                  here.whole && !branches};
    Around inside = here;
    if (branches) {
      const double sum = inner_ms(ran.lines, i);
      inside.share *= sum > 0 ? line.milliseconds / sum : 0;
    } else if (line.node >= 0) {
      const Node& node = here.plan->graph->node(line.node);
      const NodeWork work = node_work(*here.plan->graph, node);
      call.flop = work.flop * here.times;
      call.bytes = work.bytes * here.times;
      if (node.op == Op::scan) {
        inside = {here.plan->bodies[static_cast<std::size_t>(line.node)].get(),
                  here.times * static_cast<double>(scan_layout(node).steps), false};
      }
    }
    if (line.depth == 0) profile.predicted_ms += call.predicted_ms;
    if (call.whole) profile.phase_ms[static_cast<std::size_t>(call.place.phase)] += call.milliseconds;
    profile.calls.push_back(std::move(call));
    around.push_back(inside);
  }
}

}  // namespace

UpdateProfile profile_updates(const std::vector<TimedBackend::Ran>& ran, std::int64_t updates,
                              const std::set<std::string>& parameters) {
  UpdateProfile profile;
  for (const TimedBackend::Ran& one : ran) {
    add_plan(one, static_cast<double>(updates), parameters, profile);
    profile.run_ms += 1e3 * one.seconds / static_cast<double>(updates);
  }
  return profile;
}

}  // namespace unroll::cli
