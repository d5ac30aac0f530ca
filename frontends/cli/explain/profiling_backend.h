// SPDX-License-Identifier: Apache-2.0
// Records the plans that a backend compiles, and measures its runs and transfers, for --explain and `unroll profile`.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "core/passes/forwarding_backend.h"

namespace unroll::cli {

// A compiled plan, and its runs since mark().
struct ProfiledPlan {
  std::shared_ptr<const Plan> plan;
  std::int64_t runs = 0;
  double milliseconds = 0;        // per run, from call to completion
  std::vector<ReportLine> lines;  // milliseconds per run, like predicted_ms
};

class ProfilingBackend : public ForwardingBackend {
 public:
  using Clock = std::chrono::steady_clock;
  struct Span {
    std::string name;
    Clock::time_point begin, end;
  };

  using ForwardingBackend::ForwardingBackend;
  void upload(Buffer& buffer, std::size_t offset, std::span<const std::byte> from) override;
  void download(const Buffer& buffer, std::size_t offset, std::span<std::byte> to) override;
  std::unique_ptr<Executable> compile(std::shared_ptr<const Plan> plan) override;
  void wait() override;

  // Restarts counting, to exclude tuning in first runs and cold caches.
  void mark();
  std::vector<ProfiledPlan> plans() const;                 // in the order of compilation
  double transfer_seconds() const { return transfers_; }   // uploads and downloads since mark()
  // Adds the time from `begin` to the next call, when a trainer continues with a batch, to the seconds below. Exchanges
  // of several ranks in between count as exchanges.
  void await_call_from(Clock::time_point begin) {
    waits_from_ = begin;
    exchanged_from_ = exchanged();
  }
  double seconds_before_calls() const { return before_calls_; }
  double exchanges_before_calls() const { return exchanges_before_calls_; }

  // Keeps at most `most` spans of runs and transfers from now on.
  void keep_spans(std::size_t most) { most_spans_ = most; }
  const std::vector<Span>& spans() const { return spans_; }

 private:
  struct Compiled;
  template <class F>
  double timed(const char* name, F&& call);
  double exchanged() const;  // seconds so far

  std::vector<std::shared_ptr<Compiled>> compiled_;
  double transfers_ = 0, before_calls_ = 0, exchanges_before_calls_ = 0, exchanged_from_ = 0;
  Clock::time_point waits_from_{};
  std::size_t most_spans_ = 0;
  std::vector<Span> spans_;
};

}  // namespace unroll::cli
