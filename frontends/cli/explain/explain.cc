// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/explain/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "core/support/settling.h"

namespace unroll::cli {
namespace {

using Clock = std::chrono::steady_clock;

ReportList pass_report(const Plan& plan) {
  ReportList rows;
  for (const PassNote& note : plan.notes) {
    Report& row = rows.emplace_back();
    row.add("pass", note.pass).add("count", static_cast<std::int64_t>(note.count)).add("what", note.what);
    row.add("where", note.where).add("why", note.why);
  }
  return rows;
}

// Calls in a loop are indented.
ReportList kernel_report(const std::vector<ReportLine>& lines) {
  ReportList rows;
  for (const ReportLine& line : lines) {
    Report& row = rows.emplace_back();
    row.add("step", std::string(2 * static_cast<std::size_t>(line.depth), ' ') + line.step);
    row.add("kernel", line.implementation).add("bytes", static_cast<std::int64_t>(line.bytes));
    row.add("milliseconds", line.milliseconds).add("predicted_ms", line.predicted_ms);
  }
  return rows;
}

}  // namespace

// Outlives its executable and keeps its last report.
struct ExplainingBackend::Compiled {
  struct Total {
    std::int64_t runs = 0;
    double milliseconds = 0;
    std::vector<ReportLine> lines;
  };
  std::shared_ptr<const Plan> plan;
  const Executable* live = nullptr;
  Total all, marked;

  static void subtract(Total& now, const Total& before);
  Total now() const {
    Total total = all;
    if (live) total.lines = live->report();
    return total;
  }
};

std::unique_ptr<Executable> ExplainingBackend::compile(std::shared_ptr<const Plan> plan) {
  class Kept : public ForwardingExecutable, public Settling {
   public:
    Kept(std::unique_ptr<Executable> inside, Backend& backend, std::shared_ptr<Compiled> entry)
        : ForwardingExecutable(std::move(inside)), backend_(backend), entry_(std::move(entry)) {
      entry_->live = inner_.get();
    }
    ~Kept() override {
      entry_->all.lines = inner_->report();
      entry_->live = nullptr;
    }
    // Waits for completion, so that the time includes the work.
    void run(const Bindings& bindings) override {
      const auto start = Clock::now();
      inner_->run(bindings);
      backend_.wait();
      entry_->all.milliseconds += std::chrono::duration<double, std::milli>(Clock::now() - start).count();
      ++entry_->all.runs;
    }
    bool settled() const override { return is_settled(*inner_); }

   private:
    Backend& backend_;
    std::shared_ptr<Compiled> entry_;
  };
  auto entry = std::make_shared<Compiled>();
  entry->plan = plan;
  auto executable = std::make_unique<Kept>(inner_.compile(std::move(plan)), inner_, entry);
  compiled_.push_back(std::move(entry));
  return executable;
}

// A loop may have changed its schedule, and thus its calls, since the mark: new calls have no earlier time.
void ExplainingBackend::Compiled::subtract(Total& now, const Total& before) {
  std::size_t next = 0;
  for (ReportLine& line : now.lines) {
    const auto same = std::find_if(before.lines.begin() + static_cast<std::ptrdiff_t>(next), before.lines.end(),
                                   [&](const ReportLine& b) { return b.step == line.step && b.depth == line.depth; });
    if (same == before.lines.end()) continue;
    line.milliseconds -= same->milliseconds;
    next = static_cast<std::size_t>(same - before.lines.begin()) + 1;
  }
}

void ExplainingBackend::mark() {
  for (const auto& entry : compiled_) entry->marked = entry->now();
}

std::vector<ExplainedPlan> ExplainingBackend::plans() const {
  std::vector<ExplainedPlan> plans;
  for (const auto& entry : compiled_) {
    Compiled::Total now = entry->now();
    const Compiled::Total& before = entry->marked;
    const std::int64_t runs = now.runs - before.runs;
    const auto each = static_cast<double>(std::max<std::int64_t>(runs, 1));
    Compiled::subtract(now, before);
    for (ReportLine& line : now.lines) line.milliseconds /= each;
    plans.push_back({entry->plan, runs, (now.milliseconds - before.milliseconds) / each, std::move(now.lines)});
  }
  return plans;
}

ReportList ExplainingBackend::explain() const {
  ReportList reports;
  for (const ExplainedPlan& explained : plans()) {
    const Plan& plan = *explained.plan;
    std::vector<std::string> outputs;
    for (const NamedValue& output : plan.graph->outputs()) outputs.push_back(output.name);
    Report& report = reports.emplace_back();
    report.add("backend", describe().name).add("device", describe().device);
    report.add("outputs", outputs).add("one_thread", plan.one_thread);
    report.add("memory", memory_report(plan)).add("runs", explained.runs);
    report.add("milliseconds", explained.milliseconds);
    report.add("passes", pass_report(plan)).add("kernels", kernel_report(explained.lines));
  }
  return reports;
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

std::unique_ptr<Backend> explained_if(bool wanted, std::unique_ptr<Backend> backend, ExplainingBackend*& explaining) {
  if (!wanted) return backend;
  auto wrapped = std::make_unique<ExplainingBackend>(std::move(backend));
  explaining = wrapped.get();
  return wrapped;
}

void print_explained(Report report, const ExplainingBackend* explaining, bool as_json) {
  if (explaining && as_json) report.add("explain", explaining->explain());
  report.print(as_json);
  if (explaining && !as_json)
    for (const Report& plan : explaining->explain()) plan.print(false);
}

void print_explained_after(const ExplainingBackend* explaining, bool as_json) {
  if (!explaining) return;
  if (as_json) Report().add("explain", explaining->explain()).print(true);
  else
    for (const Report& plan : explaining->explain()) fmt::print(stderr, "{}", plan.text());
}

}  // namespace unroll::cli
