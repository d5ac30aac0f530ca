// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/explain/explain.h"

#include <fmt/format.h>

#include "frontends/cli/explain/plan_places.h"

namespace unroll::cli {
namespace {

// Calls in a loop are indented.
ReportList kernel_report(const std::vector<ReportLine>& lines) {
  ReportList rows;
  for (const ReportLine& line : lines) {
    Report& row = rows.emplace_back();
    row.add("step", std::string(2 * line.depth, ' ') + line.step);
    row.add("kernel", line.implementation).add("bytes", line.bytes);
    row.add("milliseconds", line.milliseconds).add("predicted_ms", line.predicted_ms);
  }
  return rows;
}

}  // namespace

ExplainedBackend::ExplainedBackend(bool explain, std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {
  if (!explain) return;
  auto profiling = std::make_unique<ProfilingBackend>(std::move(backend_));
  profiling_ = profiling.get();
  backend_ = std::move(profiling);
}

ReportList ExplainedBackend::explain() const {
  ReportList reports;
  if (!profiling_) return reports;
  for (const ProfiledPlan& explained : profiling_->plans()) {
    const Plan& plan = *explained.plan;
    std::vector<std::string> outputs;
    for (const NamedValue& output : plan.graph->outputs()) outputs.push_back(output.name);
    Report& report = reports.emplace_back();
    report.add("backend", backend_->describe().name).add("device", backend_->describe().device);
    report.add("outputs", outputs).add("one_thread", plan.one_thread);
    report.add("memory", memory_report(plan)).add("runs", explained.runs);
    report.add("milliseconds", explained.milliseconds);
    report.add("passes", pass_report(plan)).add("kernels", kernel_report(explained.lines));
  }
  return reports;
}

ReportList pass_report(const Plan& plan, bool with_layer) {
  ReportList rows;
  for (const PassNote& note : plan.notes) {
    Report& row = rows.emplace_back();
    row.add("pass", note.pass);
    if (with_layer) row.add("layer", note.layer.empty() ? k_shared : note.layer);
    row.add("count", note.count).add("what", note.what).add("where", note.where).add("why", note.why);
  }
  return rows;
}

Report memory_report(const Plan& plan) {
  std::int64_t in_arena = 0, views = 0;
  for (const auto& outputs : plan.storage)
    for (const Storage& storage : outputs) {
      in_arena += storage.place == Storage::Place::arena;
      views += !storage.strides.empty();
    }
  Report report;
  report.add("arena", bytes_text(plan.arena_bytes)).add("values in it", in_arena).add("strided views", views);
  return report;
}

void ExplainedBackend::print(Report report, bool as_json) const {
  if (profiling_ && as_json) report.add("explain", explain());
  report.print(as_json);
  if (as_json) return;
  for (const Report& plan : explain()) plan.print(false);
}

void ExplainedBackend::print_after(bool as_json) const {
  if (!profiling_) return;
  if (as_json) return Report().add("explain", explain()).print(true);
  for (const Report& plan : explain()) fmt::print(stderr, "{}", plan.text());
}

}  // namespace unroll::cli
