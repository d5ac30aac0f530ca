// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/explain.h"

#include <fmt/format.h>

namespace unroll::cli {
namespace {

// What a plan keeps where, in numbers of values.
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

ReportList pass_report(const Plan& plan) {
  ReportList rows;
  for (const PassNote& note : plan.notes) {
    Report& row = rows.emplace_back();
    row.add("pass", note.pass).add("count", static_cast<std::int64_t>(note.count)).add("what", note.what);
    row.add("where", note.where).add("why", note.why);
  }
  return rows;
}

// Lines of a loop's body are indented.
ReportList kernel_report(const std::vector<ReportLine>& lines) {
  ReportList rows;
  for (const ReportLine& line : lines) {
    Report& row = rows.emplace_back();
    row.add("step", std::string(2 * static_cast<std::size_t>(line.depth), ' ') + line.step).add("kernel", line.implementation).add("bytes", static_cast<std::int64_t>(line.bytes));
    row.add("milliseconds", line.milliseconds).add("predicted_ms", line.predicted_ms);
  }
  return rows;
}

}  // namespace

// Outlives its executable, whose last report it keeps.
struct ExplainingBackend::Compiled {
  std::shared_ptr<const Plan> plan;
  const Executable* live = nullptr;
  std::vector<ReportLine> last;

  std::vector<ReportLine> lines() const { return live ? live->report() : last; }
};

std::unique_ptr<Executable> ExplainingBackend::compile(std::shared_ptr<const Plan> plan) {
  class Kept : public Executable {
   public:
    Kept(std::unique_ptr<Executable> inside, std::shared_ptr<Compiled> entry)
        : inside_(std::move(inside)), entry_(std::move(entry)) {
      entry_->live = inside_.get();
    }
    ~Kept() override {
      entry_->last = inside_->report();
      entry_->live = nullptr;
    }
    void run(const Bindings& bindings) override { inside_->run(bindings); }
    std::vector<ReportLine> report() const override { return inside_->report(); }

   private:
    std::unique_ptr<Executable> inside_;
    std::shared_ptr<Compiled> entry_;
  };
  auto entry = std::make_shared<Compiled>();
  entry->plan = plan;
  auto executable = std::make_unique<Kept>(inside_->compile(std::move(plan)), entry);
  compiled_.push_back(std::move(entry));
  return executable;
}

ReportList ExplainingBackend::explain() const {
  ReportList plans;
  for (const auto& entry : compiled_) {
    std::vector<std::string> outputs;
    for (const NamedValue& output : entry->plan->graph->outputs()) outputs.push_back(output.name);
    Report& report = plans.emplace_back();
    report.add("outputs", outputs).add("device", describe().device);
    report.add("one_thread", entry->plan->one_thread).add("memory", memory_report(*entry->plan));
    report.add("passes", pass_report(*entry->plan)).add("kernels", kernel_report(entry->lines()));
  }
  return plans;
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

}  // namespace unroll::cli
