// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/explain_report.h"

#include <fmt/format.h>

#include <algorithm>

namespace unroll::cli {
namespace {

double predicted_of(const PlanTable& table) {
  double sum = 0;
  for (const PlaceTime& time : table.places) sum += time.predicted_ms;
  return sum;
}
// 0 where nothing was timed.
double gflops(double flop, double milliseconds) { return milliseconds > 0 ? flop / milliseconds / 1e6 : 0; }

// ---- what passes left as it was

constexpr std::string_view k_left[] = {"kept ", "left ", "expanded "};
// What no pass could change: it is the recurrence itself.
constexpr std::string_view k_inherent = "it depends on a state, and a state depends on it";

struct Left {
  std::string pass, layer, what, why;
  std::int64_t count = 0;  // of notes
  std::string text() const { return count > 1 ? fmt::format("{} and {} more", what, count - 1) : what; }
};

// One for each reason in each layer.
std::vector<Left> left_of(const NamedPlan& plan) {
  std::vector<Left> all;
  for (const PassNote& note : plan.explained.plan->notes) {
    const bool left = std::any_of(std::begin(k_left), std::end(k_left),
                                  [&](std::string_view word) { return note.what.starts_with(word); });
    if (!left || note.why == k_inherent) continue;
    // A backend that takes no composite says so once.
    const std::string layer = note.pass == "claim" ? k_shared : layer_of_note(note, plan.parameters);
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
  row.add("calls", static_cast<std::int64_t>(time.calls)).add("milliseconds", time.milliseconds);
  row.add("share", table.milliseconds > 0 ? time.milliseconds / table.milliseconds : 0.0);
  row.add("predicted_ms", time.predicted_ms).add("flop", time.flop).add("gflops", gflops(time.flop, time.milliseconds));
  row.add("most", table.calls[time.longest].line.step);
  return row;
}

Report call_json(const PlanCall& call) {
  Report row;
  row.add("depth", static_cast<std::int64_t>(call.line.depth)).add("step", call.line.step);
  row.add("kernel", call.line.implementation).add("phase", std::string(phase_name(call.place.phase)));
  row.add("layer", call.place.layer).add("milliseconds", call.line.milliseconds);
  row.add("predicted_ms", call.line.predicted_ms).add("flop", call.flop);
  row.add("gflops", gflops(call.flop, call.line.milliseconds));
  row.add("bytes", static_cast<std::int64_t>(call.line.bytes)).add("shapes", call.shapes).add("loop", call.is_loop);
  row.add("inner", call.is_inner);
  return row;
}

ReportList edges_json(const PlanTable& table) {
  ReportList rows;
  for (const PlanEdge& edge : table.edges)
    rows.push_back(Report()
                       .add("from", static_cast<std::int64_t>(edge.from))
                       .add("to", static_cast<std::int64_t>(edge.to))
                       .add("what", edge.what));
  return rows;
}

ReportList notes_json(const NamedPlan& plan) {
  ReportList rows;
  for (const PassNote& note : plan.explained.plan->notes) {
    Report& row = rows.emplace_back();
    row.add("pass", note.pass).add("layer", layer_of_note(note, plan.parameters));
    row.add("count", static_cast<std::int64_t>(note.count)).add("what", note.what);
    row.add("where", note.where).add("why", note.why);
  }
  return rows;
}

// ---- for people

// Three figures at least.
std::string milliseconds_text(double value) {
  return value <= 0 ? "-" : fmt::format("{:.{}f}", value, value < 0.1 ? 5 : value < 10 ? 4 : 2);
}
std::string rate_text(double flop, double milliseconds) {
  const double rate = gflops(flop, milliseconds);
  return rate > 0 ? fmt::format("{:.3g}", rate) : "-";
}
std::string share_text(double part, double all) { return all > 0 ? fmt::format("{:.0f} %", 100 * part / all) : "-"; }

Report row_of(const std::vector<std::string>& cells) {
  Report row;
  for (const std::string& cell : cells) row.add("", cell);
  return row;
}

// What runs, without how it came to be chosen.
std::string short_of(const std::string& implementation) { return implementation.substr(0, implementation.find(';')); }

void add_times(ReportList& rows, const NamedPlan& plan, PlanPhase phase) {
  const PlanTable& table = plan.table;
  PlaceTime sum{{phase, "all"}};
  std::vector<const PlaceTime*> places;
  for (const PlaceTime& time : table.places) {
    if (time.place.phase != phase) continue;
    places.push_back(&time);
    sum.milliseconds += time.milliseconds;
    sum.predicted_ms += time.predicted_ms;
    sum.flop += time.flop;
  }
  std::string name(phase_name(phase));
  const auto add = [&](const PlaceTime& t, const std::string& layer, const std::string& most) {
    rows.push_back(
        row_of({name, layer, milliseconds_text(t.milliseconds), share_text(t.milliseconds, table.milliseconds),
                milliseconds_text(t.predicted_ms), rate_text(t.flop, t.milliseconds), most}));
    name = "";
  };
  if (places.size() > 1) add(sum, "all", "");
  for (const PlaceTime* time : places) {
    const ReportLine& most = table.calls[time->longest].line;
    const std::string share = time->calls > 1 ? share_text(most.milliseconds, time->milliseconds) + " " : "";
    add(*time, time->place.layer, share + most.step + ": " + short_of(most.implementation));
  }
}

ReportList summary(const NamedPlan& plan) {
  ReportList rows{row_of({"phase", "layer", "ms", "share", "predicted", "GFLOP/s", "most of it"})};
  for (const PlanPhase phase : {PlanPhase::forward, PlanPhase::backward, PlanPhase::update})
    add_times(rows, plan, phase);
  const double calls = plan.table.milliseconds, all = plan.explained.milliseconds;
  rows.push_back(row_of({"all calls", "", milliseconds_text(calls), "", milliseconds_text(predicted_of(plan.table))}));
  rows.push_back(
      row_of({"a run", "", milliseconds_text(all), "", "", "", fmt::format("mean of {} runs", plan.explained.runs)}));
  return rows;
}

ReportList left_rows(const NamedPlan& plan) {
  ReportList rows;
  for (const Left& left : left_of(plan)) rows.push_back(row_of({left.pass, left.layer, left.text(), left.why}));
  if (rows.empty()) rows.push_back(row_of({"nothing"}));
  return rows;
}

ReportList note_rows(const NamedPlan& plan) {
  ReportList rows;
  for (const PassNote& note : plan.explained.plan->notes) {
    const std::string times = note.count > 1 ? fmt::format("{} times ", note.count) : "";
    rows.push_back(row_of({note.pass, layer_of_note(note, plan.parameters), times + note.what, note.why, note.where}));
  }
  return rows;
}

ReportList call_rows(const NamedPlan& plan) {
  ReportList rows{row_of({"call", "phase", "layer", "ms", "predicted", "GFLOP/s", "runs as", "operands -> results"})};
  for (const PlanCall& call : plan.table.calls) {
    const ReportLine& line = call.line;
    rows.push_back(row_of({std::string(2 * static_cast<std::size_t>(line.depth), ' ') + line.step,
                           call.is_inner ? "" : std::string(phase_name(call.place.phase)),
                           call.is_inner ? "" : call.place.layer, milliseconds_text(line.milliseconds),
                           milliseconds_text(line.predicted_ms), rate_text(call.flop, line.milliseconds),
                           line.implementation, call.shapes}));
  }
  return rows;
}

}  // namespace

Report plan_json(const NamedPlan& plan) {
  ReportList places, left, calls;
  for (const PlaceTime& time : plan.table.places) places.push_back(place_json(time, plan.table));
  for (const Left& l : left_of(plan))
    left.push_back(
        Report().add("pass", l.pass).add("layer", l.layer).add("count", l.count).add("what", l.what).add("why", l.why));
  for (const PlanCall& call : plan.table.calls) calls.push_back(call_json(call));
  Report report;
  report.add("plan", plan.name).add("runs", plan.explained.runs).add("milliseconds", plan.explained.milliseconds);
  report.add("calls_ms", plan.table.milliseconds).add("predicted_ms", predicted_of(plan.table));
  report.add("memory", memory_report(*plan.explained.plan)).add("places", places).add("left", left);
  report.add("passes", notes_json(plan)).add("calls", calls).add("edges", edges_json(plan.table));
  return report;
}

Report plan_text(const NamedPlan& plan) {
  Report report;
  report.add(plan.name + ": where the time goes", summary(plan));
  report.add(plan.name + ": what passes left as it was, and why", left_rows(plan));
  report.add(plan.name + ": memory", memory_report(*plan.explained.plan));
  report.add(plan.name + ": what passes did, or left", note_rows(plan));
  report.add(plan.name + ": what runs", call_rows(plan));
  return report;
}

}  // namespace unroll::cli
