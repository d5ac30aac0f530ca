// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/explain/timed_backend.h"

#include "unroll/parallel/communicator.h"

namespace unroll::cli {

template <class F>
double TimedBackend::timed(const char* name, F&& call) {
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

void TimedBackend::upload(Buffer& buffer, std::size_t offset, std::span<const std::byte> from) {
  transfers_ += timed("upload", [&] { inner_.upload(buffer, offset, from); });
}
void TimedBackend::download(const Buffer& buffer, std::size_t offset, std::span<std::byte> to) {
  transfers_ += timed("download", [&] { inner_.download(buffer, offset, to); });
}
double TimedBackend::exchanged() const {
  const Communicator* ranks = inner_.communicator();
  return ranks ? ranks->exchanged().seconds : 0;
}
void TimedBackend::wait() {
  timed("wait", [&] { inner_.wait(); });
}

std::unique_ptr<Executable> TimedBackend::compile(std::shared_ptr<const Plan> plan) {
  class Timed : public ForwardingExecutable {
   public:
    Timed(std::unique_ptr<Executable> executable, TimedBackend& backend, std::shared_ptr<Compiled> entry)
        : ForwardingExecutable(std::move(executable)), backend_(backend), entry_(std::move(entry)) {
      entry_->live = inner_.get();
    }
    ~Timed() override { entry_->live = nullptr; }
    // Waits for completion, so that the time includes the work.
    void run(const Bindings& bindings) override {
      entry_->seconds += backend_.timed("run", [&] {
        inner_->run(bindings);
        backend_.inner_.wait();
      });
      ++entry_->runs;
    }

   private:
    TimedBackend& backend_;
    std::shared_ptr<Compiled> entry_;
  };
  auto entry = std::make_shared<Compiled>();
  entry->plan = plan;
  auto executable = std::make_unique<Timed>(inner_.compile(std::move(plan)), *this, entry);
  compiled_.push_back(std::move(entry));
  return executable;
}

void TimedBackend::mark() {
  transfers_ = before_calls_ = exchanges_before_calls_ = 0;
  waits_from_ = {};
  for (const auto& entry : compiled_) {
    entry->runs = 0;
    entry->seconds = 0;
    if (entry->live) entry->marked = entry->live->report();
  }
}

std::vector<TimedBackend::Ran> TimedBackend::ran() const {
  std::vector<Ran> all;
  for (const auto& entry : compiled_) {
    if (entry->runs == 0 || !entry->live) continue;
    Ran ran{entry->plan, entry->runs, entry->seconds, entry->live->report()};
    // A backend that retunes may run other calls than at the mark: then only the total time is known.
    if (ran.lines.size() == entry->marked.size())
      for (std::size_t i = 0; i < ran.lines.size(); ++i) ran.lines[i].milliseconds -= entry->marked[i].milliseconds;
    all.push_back(std::move(ran));
  }
  return all;
}

}  // namespace unroll::cli
