// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/explain/profiling_backend.h"

#include <algorithm>

#include "core/support/settling.h"
#include "unroll/parallel/communicator.h"

namespace unroll::cli {
namespace {

// A loop may have changed its schedule, and thus its calls, since the mark: new calls have no earlier time.
void subtract(std::vector<ReportLine>& lines, const std::vector<ReportLine>& before) {
  auto next = before.begin();
  for (ReportLine& line : lines) {
    const auto same = std::find_if(
        next, before.end(), [&](const ReportLine& b) { return b.step == line.step && b.depth == line.depth; });
    if (same == before.end()) continue;
    line.milliseconds -= same->milliseconds;
    next = same + 1;
  }
}

}  // namespace

// Outlives its executable and keeps its last report.
struct ProfilingBackend::Compiled {
  std::shared_ptr<const Plan> plan;
  const Executable* live = nullptr;
  std::int64_t runs = 0;  // since the mark, like `seconds`
  double seconds = 0;
  std::vector<ReportLine> last, marked;  // reports: of an executable that is gone, and at the mark
  std::vector<ReportLine> lines() const { return live ? live->report() : last; }
};

template <class F>
double ProfilingBackend::timed(const char* name, F&& call) {
  const auto begin = Clock::now();
  if (waits_from_ != Clock::time_point()) {
    const double exchanges = exchanged() - exchanged_from_;
    before_calls_ += std::chrono::duration<double>(begin - waits_from_).count() - exchanges;
    exchanges_before_calls_ += exchanges;
    waits_from_ = {};
  }
  call();
  const auto end = Clock::now();
  if (spans_.size() < most_spans_) spans_.push_back({name, begin, end});
  return std::chrono::duration<double>(end - begin).count();
}

void ProfilingBackend::upload(Buffer& buffer, std::size_t offset, std::span<const std::byte> from) {
  transfers_ += timed("upload", [&] { inner_.upload(buffer, offset, from); });
}
void ProfilingBackend::download(const Buffer& buffer, std::size_t offset, std::span<std::byte> to) {
  transfers_ += timed("download", [&] { inner_.download(buffer, offset, to); });
}
double ProfilingBackend::exchanged() const {
  const Communicator* ranks = inner_.communicator();
  return ranks ? ranks->exchanged().seconds : 0;
}
void ProfilingBackend::wait() {
  timed("wait", [&] { inner_.wait(); });
}

std::unique_ptr<Executable> ProfilingBackend::compile(std::shared_ptr<const Plan> plan) {
  class Timed : public ForwardingExecutable, public Settling {
   public:
    Timed(std::unique_ptr<Executable> executable, ProfilingBackend& backend, std::shared_ptr<Compiled> entry)
        : ForwardingExecutable(std::move(executable)), backend_(backend), entry_(std::move(entry)) {
      entry_->live = inner_.get();
    }
    ~Timed() override {
      entry_->last = inner_->report();
      entry_->live = nullptr;
    }
    // Waits for completion, so that the time includes the work.
    void run(const Bindings& bindings) override {
      entry_->seconds += backend_.timed("run", [&] {
        inner_->run(bindings);
        backend_.inner_.wait();
      });
      ++entry_->runs;
    }
    bool settled() const override { return is_settled(*inner_); }

   private:
    ProfilingBackend& backend_;
    std::shared_ptr<Compiled> entry_;
  };
  auto entry = std::make_shared<Compiled>();
  entry->plan = plan;
  auto executable = std::make_unique<Timed>(inner_.compile(std::move(plan)), *this, entry);
  compiled_.push_back(std::move(entry));
  return executable;
}

void ProfilingBackend::mark() {
  transfers_ = before_calls_ = exchanges_before_calls_ = 0;
  waits_from_ = {};
  for (const auto& entry : compiled_) {
    entry->runs = 0;
    entry->seconds = 0;
    entry->marked = entry->lines();
  }
}

std::vector<ProfiledPlan> ProfilingBackend::plans() const {
  std::vector<ProfiledPlan> plans;
  for (const auto& entry : compiled_) {
    const auto each = static_cast<double>(std::max<std::int64_t>(entry->runs, 1));
    std::vector<ReportLine> lines = entry->lines();
    subtract(lines, entry->marked);
    for (ReportLine& line : lines) line.milliseconds /= each;
    plans.push_back({entry->plan, entry->runs, 1e3 * entry->seconds / each, std::move(lines)});
  }
  return plans;
}

}  // namespace unroll::cli
