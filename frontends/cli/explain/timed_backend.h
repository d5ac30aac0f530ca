// SPDX-License-Identifier: Apache-2.0
// Measures all operations of a backend, for `unroll profile`.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "core/passes/forwarding_backend.h"

namespace unroll::cli {

class TimedBackend : public ForwardingBackend {
 public:
  using Clock = std::chrono::steady_clock;
  struct Span {
    std::string name;
    Clock::time_point begin, end;
  };
  // One executable, since mark().
  struct Ran {
    std::shared_ptr<const Plan> plan;
    std::int64_t runs = 0;
    double seconds = 0;
    std::vector<ReportLine> lines;  // milliseconds of these runs
  };

  using ForwardingBackend::ForwardingBackend;
  void upload(Buffer& buffer, std::size_t offset, std::span<const std::byte> from) override;
  void download(const Buffer& buffer, std::size_t offset, std::span<std::byte> to) override;
  std::unique_ptr<Executable> compile(std::shared_ptr<const Plan> plan) override;
  void wait() override;

  void mark();  // counts from here on
  std::vector<Ran> ran() const;                            // runs since mark(), in order of compilation
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
  struct Compiled {
    std::shared_ptr<const Plan> plan;
    const Executable* live = nullptr;
    std::vector<ReportLine> marked;  // the report at the mark
    std::int64_t runs = 0;
    double seconds = 0;
  };
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
