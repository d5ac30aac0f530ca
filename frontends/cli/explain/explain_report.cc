// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/explain/explain_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/support/text/counted.h"
#include "frontends/cli/explain/explain.h"
#include "unroll/passes/product_groups.h"
#include "unroll/passes/scan_form.h"

namespace unroll::cli {
namespace {

double predicted_of(const PlanTable& table) {
  double sum = 0;
  for (const PlaceTime& time : table.places) sum += time.predicted_ms;
  return sum;
}
// 0 if nothing was timed.
double gflops(double flop, double milliseconds) { return milliseconds > 0 ? flop / milliseconds / 1e6 : 0; }

std::string layer_of(const PassNote& note) { return note.layer.empty() ? k_shared : note.layer; }

// ---- missed optimizations

constexpr std::string_view k_left_columns[] = {"kept ", "left ", "expanded "};
// Reasons that no pass can change, because they are inherent in the recurrence.
constexpr std::string_view k_inherent = "it depends on a state, and a state depends on it";

struct Left {
  std::string pass, layer, what, why;
  std::int64_t count = 0;  // of notes
  std::string text() const { return count > 1 ? fmt::format("{} and {} more", what, count - 1) : what; }
};

// Returns one entry per reason and layer.
std::vector<Left> left_of(const NamedPlan& plan) {
  std::vector<Left> all;
  for (const PassNote& note : plan.explained.plan->notes) {
    const bool left = std::any_of(std::begin(k_left_columns), std::end(k_left_columns),
                                  [&](std::string_view word) { return note.what.starts_with(word); });
    if (!left || note.why == k_inherent) continue;
    // A backend that claims no composite reports that once.
    const std::string layer = note.pass == "claim" ? k_shared : layer_of(note);
    const auto same = std::find_if(all.begin(), all.end(), [&](const Left& l) {
      return l.pass == note.pass && l.layer == layer && l.why == note.why;
    });
    if (same == all.end()) all.push_back({note.pass, layer, note.what, note.why, note.count});
    else same->count += note.count;
  }
  return all;
}

// ---- for programs

Report place_json(const PlaceTime& time, const PlanTable& table) {
  Report row;
  row.add("phase", std::string(phase_name(time.place.phase))).add("layer", time.place.layer);
  row.add("calls", time.calls).add("milliseconds", time.milliseconds);
  row.add("share", table.milliseconds > 0 ? time.milliseconds / table.milliseconds : 0.0);
  row.add("predicted_ms", time.predicted_ms).add("flop", time.flop).add("gflops", gflops(time.flop, time.milliseconds));
  row.add("most", table.calls[time.longest].line.step);
  return row;
}

Report call_json(const PlanCall& call) {
  Report row;
  row.add("depth", call.line.depth).add("step", call.line.step);
  row.add("kernel", call.line.implementation).add("phase", std::string(phase_name(call.place.phase)));
  row.add("layer", call.place.layer).add("milliseconds", call.line.milliseconds);
  row.add("predicted_ms", call.line.predicted_ms).add("flop", call.flop);
  row.add("gflops", gflops(call.flop, call.line.milliseconds));
  row.add("bytes", call.line.bytes).add("shapes", call.shapes).add("loop", call.is_loop);
  row.add("inner", call.is_inner);
  return row;
}

ReportList edges_json(const PlanTable& table) {
  ReportList rows;
  for (const PlanEdge& edge : table.edges)
    rows.push_back(Report()
                       .add("from", edge.from)
                       .add("to", edge.to)
                       .add("what", edge.what));
  return rows;
}

// ---- for people

constexpr std::size_t k_longest_calls = 6, k_left_shown = 6;

// At least three digits.
std::string milliseconds_text(double value) {
  return value <= 0 ? "-" : fmt::format("{:.{}f}", value, value < 0.1 ? 5 : value < 10 ? 4 : 2);
}
std::string rate_text(double flop, double milliseconds) {
  const double rate = gflops(flop, milliseconds);
  return rate > 0 ? fmt::format("{:.3g}", rate) : "-";
}
std::string share_of_all(double part, double all) { return all > 0 ? fmt::format("{:.0f} %", 100 * part / all) : "-"; }

// Returns the implementation without the reason for its choice.
std::string short_of(const std::string& implementation) { return implementation.substr(0, implementation.find(';')); }

void add_times(TextTable& table, const NamedPlan& plan, Origin::Phase phase) {
  PlaceTime sum{{"all", phase}};
  std::vector<PlaceTime> places;
  for (const PlaceTime& time : plan.table.places) {
    if (time.place.phase != phase) continue;
    places.push_back(time);
    sum.milliseconds += time.milliseconds;
    sum.predicted_ms += time.predicted_ms;
    sum.flop += time.flop;
  }
  if (places.size() > 1) places.insert(places.begin(), sum);
  std::string name(phase_name(phase));
  for (const PlaceTime& t : places) {
    table.rows.push_back({name, t.place.layer, milliseconds_text(t.milliseconds),
                          share_of_all(t.milliseconds, plan.table.milliseconds), milliseconds_text(t.predicted_ms),
                          rate_text(t.flop, t.milliseconds)});
    name = "";
  }
}

TextTable times(const NamedPlan& plan) {
  TextTable table{{"phase", "layer", "ms", "share", "predicted ms", "GFLOP/s"}, {}};
  for (const Origin::Phase phase : {Origin::Phase::forward, Origin::Phase::backward, Origin::Phase::update})
    add_times(table, plan, phase);
  table.rows.push_back({"all calls", "", milliseconds_text(plan.table.milliseconds), "",
                        milliseconds_text(predicted_of(plan.table)), ""});
  table.rows.push_back({"one run", "", milliseconds_text(plan.explained.milliseconds), "", "", ""});
  return table;
}

// The work of each phase and layer, for a backend that measures no time.
TextTable work(const NamedPlan& plan) {
  TextTable table{{"phase", "layer", "calls", "GFLOP"}, {}};
  for (const PlaceTime& place : plan.table.places)
    table.rows.push_back({std::string(phase_name(place.place.phase)), place.place.layer, std::to_string(place.calls),
                          fmt::format("{:.4g}", place.flop * 1e-9)});
  return table;
}

// Calls whose time is not part of another call's.
TextTable longest_calls(const NamedPlan& plan) {
  std::vector<const PlanCall*> calls;
  for (const PlanCall& call : plan.table.calls)
    if (call.counts && call.line.milliseconds > 0) calls.push_back(&call);
  const std::size_t n = std::min(calls.size(), k_longest_calls);
  std::partial_sort(calls.begin(), calls.begin() + static_cast<std::ptrdiff_t>(n), calls.end(),
                    [](const PlanCall* a, const PlanCall* b) { return a->line.milliseconds > b->line.milliseconds; });
  TextTable table{{"ms", "share", "phase", "layer", "call"}, {}};
  for (std::size_t i = 0; i < n; ++i) {
    const PlanCall& c = *calls[i];
    table.rows.push_back({milliseconds_text(c.line.milliseconds),
                          share_of_all(c.line.milliseconds, plan.table.milliseconds),
                          std::string(phase_name(c.place.phase)), c.place.layer,
                          c.line.step + ": " + short_of(c.line.implementation)});
  }
  return table;
}

TextTable left_table(const NamedPlan& plan, std::size_t at_most) {
  TextTable table{{"pass", "layer", "left as it was, and why"}, {}};
  const std::vector<Left> all = left_of(plan);
  for (std::size_t i = 0; i < std::min(all.size(), at_most); ++i)
    table.rows.push_back({all[i].pass, all[i].layer, all[i].text() + ": " + all[i].why});
  if (all.size() > at_most)
    table.rows.push_back({"...", "", fmt::format("{} more with --full", all.size() - at_most)});
  if (all.empty()) table.rows.push_back({"none", "", ""});
  return table;
}

TextTable note_table(const NamedPlan& plan) {
  TextTable table{{"pass", "layer", "change, reason and place"}, {}};
  for (const PassNote& note : plan.explained.plan->notes) {
    std::string text = note.count > 1 ? fmt::format("{} times ", note.count) : "";
    text += note.what;
    if (!note.why.empty()) text += ": " + note.why;
    if (!note.where.empty()) text += " (" + note.where + ")";
    table.rows.push_back({note.pass, layer_of(note), text});
  }
  return table;
}

TextTable call_table(const NamedPlan& plan, bool timed) {
  TextTable table{timed ? std::vector<std::string>{"ms", "predicted", "GFLOP/s", "call"}
                        : std::vector<std::string>{"GFLOP", "call"}, {}};
  for (const PlanCall& call : plan.table.calls) {
    const ReportLine& line = call.line;
    const std::string place =
        call.is_inner ? "" : fmt::format(" [{}, {}]", phase_name(call.place.phase), call.place.layer);
    const std::string text = std::string(2 * line.depth, '.') + line.step + place + ": " +
                             line.implementation + "; " + call.shapes;
    if (timed)
      table.rows.push_back({milliseconds_text(line.milliseconds), milliseconds_text(line.predicted_ms),
                            rate_text(call.flop, line.milliseconds), text});
    else table.rows.push_back({fmt::format("{:.4g}", call.flop * 1e-9), text});
  }
  return table;
}

// Lines about the plan, which has no name, or about one of its loops.
using NamedLines = std::pair<std::string, std::vector<std::string>>;

// Calls `visit(plan, name)` for the plan and, recursively, the bodies of its loops.
template <class Visit>
void for_each_body(const Plan& plan, const std::string& name, const Visit& visit) {
  visit(plan, name);
  for (std::size_t i = 0; i < plan.bodies.size(); ++i)
    if (plan.bodies[i] && plan.graph->nodes()[i].op == Op::scan)
      for_each_body(*plan.bodies[i], fmt::format("{}{}%{} scan", name, name.empty() ? "" : ", ", i), visit);
}

// Returns the forms of the loops with states.
std::vector<NamedLines> loops_of(const Plan& plan) {
  std::vector<NamedLines> loops;
  for_each_body(plan, "", [&](const Plan& outer, const std::string& name) {
    for (std::size_t i = 0; i < outer.bodies.size(); ++i) {
      const auto id = static_cast<std::int32_t>(i);
      const Node& node = outer.graph->node(id);
      if (!outer.bodies[i] || node.op != Op::scan || scan_layout(node).n_states == 0) continue;
      loops.emplace_back(fmt::format("{}{}%{} scan", name, name.empty() ? "" : ", ", i),
                         describe(scan_form(outer, id), *outer.bodies[i]));
    }
  });
  return loops;
}

// Returns matmuls with the nodes fused into them.
std::vector<NamedLines> product_groups_of(const Plan& plan) {
  std::vector<NamedLines> groups;
  for_each_body(plan, "", [&](const Plan& body, const std::string& name) {
    std::vector<std::string> lines;
    for (const ProductGroup& group : product_groups(*body.graph)) lines.push_back(describe(group, *body.graph));
    if (!lines.empty()) groups.emplace_back(name, std::move(lines));
  });
  return groups;
}

TextTable lines_table(const std::string& what, const std::vector<NamedLines>& all) {
  TextTable table{{"loop", what}, {}};
  for (const auto& [name, lines] : all)
    for (const std::string& line : lines) table.rows.push_back({&line == lines.data() ? name : "", line});
  return table;
}

}  // namespace

Report plan_json(const NamedPlan& plan) {
  ReportList places, left, calls;
  for (const PlaceTime& time : plan.table.places) places.push_back(place_json(time, plan.table));
  for (const Left& l : left_of(plan))
    left.push_back(
        Report().add("pass", l.pass).add("layer", l.layer).add("count", l.count).add("what", l.what).add("why", l.why));
  for (const PlanCall& call : plan.table.calls) calls.push_back(call_json(call));
  ReportList loops, groups;
  for (const auto& [name, lines] : loops_of(*plan.explained.plan))
    loops.push_back(Report().add("loop", name).add("form", lines));
  for (const auto& [name, lines] : product_groups_of(*plan.explained.plan))
    groups.push_back(Report().add("loop", name).add("groups", lines));
  Report report;
  report.add("plan", plan.name).add("runs", plan.explained.runs).add("milliseconds", plan.explained.milliseconds);
  report.add("calls_ms", plan.table.milliseconds).add("predicted_ms", predicted_of(plan.table));
  report.add("memory", memory_report(*plan.explained.plan)).add("places", places).add("left", left);
  report.add("passes", pass_report(*plan.explained.plan, /*with_layer=*/true)).add("calls", calls);
  report.add("edges", edges_json(plan.table)).add("loops", loops).add("product_groups", groups);
  return report;
}

Report plan_text(const NamedPlan& plan, bool full) {
  const auto title = [&](const std::string& words) { return plan.name + ": " + words; };
  const bool timed = plan.explained.runs > 0;  // false on a profile
  Report report;
  if (timed) {
    report.add(title("time by phase and layer, mean of " + counted(plan.explained.runs, "run")), times(plan));
    report.add(title("longest calls"), longest_calls(plan));
  } else {
    report.add(title("work by phase and layer"), work(plan));
  }
  report.add(title("optimizations not applied"), left_table(plan, full ? SIZE_MAX : k_left_shown));
  report.add(title("memory"), memory_report(*plan.explained.plan));
  if (full || !timed) {
    report.add(title("loops"), lines_table("what a step consists of", loops_of(*plan.explained.plan)));
    report.add(title("product groups"), lines_table("product and epilogue", product_groups_of(*plan.explained.plan)));
  }
  if (full) report.add(title("passes"), note_table(plan));
  if (full || !timed) report.add(title("calls"), call_table(plan, timed));
  return report;
}

}  // namespace unroll::cli
