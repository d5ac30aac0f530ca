// SPDX-License-Identifier: Apache-2.0
// A compiled plan for a thread pool: its program and its memory. A pool has size() and run(f), which calls f(const
// Worker&) once on each worker (thread_pool.h).
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "backends/common/host_buffer.h"
#include "backends/common/specific_options.h"
#include "backends/cpu/cost/machine_model.h"
#include "backends/cpu/program/program.h"
#include "backends/cpu/program/state.h"
#include "core/support/settling.h"
#include "unroll/support/error.h"

namespace unroll::cpu {

// Applies the backend's options for this thread pool.
template <class ThreadPool>
void prepare(BackendState& state, ThreadPool& pool, const BackendOptions& options) {
  if (options.trace) options.trace->open_lanes(pool.size());
  state.trace = options.trace;
  state.communicator = options.communicator;
  if (options.communicator) state.exchanges = std::make_unique<ExchangeThread>(*options.communicator);
  state.predicts = common::specific_option(options, "predict") == "true";
  if (state.predicts) state.machine = measure_machine({pool.size(), [&](const Work& work) { pool.run(work); }});
}

// The capabilities of programs on this number of threads.
inline Capabilities program_capabilities(int threads) {
  Capabilities c;
  c.dtypes = {DType::f32, DType::f64, DType::i32, DType::b8, DType::bf16, DType::f16};
  c.flushes_denormals = c.fuses = c.groups_rows = c.one_arena = c.views = true;
  c.lanes = c.threads = threads;
  c.weights = {WeightFormat::f32, WeightFormat::bf16, WeightFormat::int8};
  return c;
}

// Numbers of threads on which a plan may run. All give the same bits.
struct ThreadWays {
  int usual = 1;
  // With several threads: the predicted time on one thread, by the usual machine model. Beside other programs one
  // thread may be faster, because every barrier waits for an interrupted thread. 0: do not try one thread.
  double alone_ns = 0;
};

template <class ThreadPool>
class ProgramExecutable final : public Executable, public Settling {
 public:
  ProgramExecutable(std::shared_ptr<const Plan> plan, ThreadPool& pool, BackendState& state, const ThreadWays& threads,
                    MakeClaimed make_claimed = nullptr)
      : plan_(std::move(plan)), pool_(pool), state_(state), make_claimed_(make_claimed), alone_ns_(threads.alone_ns) {
    ways_.emplace_back(threads.usual);
    compile(ways_[0]);
    if (threads.usual > 1 && alone_ns_ > 0) ways_.emplace_back(1);
    const std::size_t arena = at_least_one(plan_->arena_bytes);
    if (plan_->one_thread) own_arena_ = Bytes(arena);
    else share_.emplace(state.arena, arena);
  }

  void run(const Bindings& bindings) override {
    using Clock = std::chrono::steady_clock;
    std::optional<SharedArena::Turn> turn;
    if (share_) turn.emplace(share_->arena());
    Way& way = ways_[choice_.active()];
    way.program->prepare();
    std::byte** at = way.bases.data();
    *at++ = turn ? turn->data() : own_arena_.data();
    *at++ = way.program->constants();
    for (Buffer* buffer : bindings.inputs) *at++ = as_host(*buffer).data();
    for (Buffer* buffer : bindings.outputs) *at++ = as_host(*buffer).data();
    const Frame frame{way.bases.data(), way.scratch.data()};
    const bool notes = ways_.size() > 1 && way.program->steps().settled();
    const auto start = notes ? Clock::now() : Clock::time_point();
    if (way.threads == pool_.size() && !plan_->one_thread) way.program->run_on(pool_, frame);
    else way.program->run(frame, Worker{});
    if (notes) note_run(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }

  std::vector<ReportLine> report() const override {
    std::vector<ReportLine> lines;
    active().program->steps().report(lines);
    if (!state_.predicts)
      for (ReportLine& line : lines) line.predicted_ms = 0;
    return lines;
  }

  bool settled() const override {
    if (!active().program->steps().settled()) return false;
    return ways_.size() == 1 || (checked_ && !choice_.open() && choice_.as_expected());
  }
  std::size_t workspace_bytes() const override {
    std::size_t bytes = 0;
    for (const Way& way : ways_)
      if (way.program) bytes += way.scratch.size() + way.program->held_bytes();
    return bytes;
  }

 private:
  struct Way {
    explicit Way(int n) : threads(n) {}
    int threads;  // 1: runs on the caller's thread
    std::unique_ptr<Program> program = nullptr;  // null: not compiled
    Bytes scratch = {};
    std::vector<std::byte*> bases = {};
  };
  const Way& active() const { return ways_[choice_.active()]; }

  void compile(Way& way) const {
    way.program = std::make_unique<Program>(PlanView{*plan_, way.threads, state_, make_claimed_});
    way.scratch = Bytes(at_least_one(way.program->scratch_bytes()));
    way.bases.resize(way.program->n_bases());
  }

  // Call after a run in which all loops had chosen their schedules.
  void note_run(double milliseconds) {
    if (!checked_) return check_first(milliseconds);
    switch (choice_.add_run(milliseconds, /*counts=*/true, state_.retry)) {
      case RepeatedChoice::Next::go_on: break;
      case RepeatedChoice::Next::drop_others: drop_others(); break;
      case RepeatedChoice::Next::make_others: try_ways(); break;
    }
  }

  // Tries one thread only if several threads gain little.
  void check_first(double milliseconds) {
    constexpr double k_enough_ms = 8, k_pays = 0.8;
    constexpr int k_enough_runs = 4;
    first_ms_ += milliseconds;
    if (++first_runs_ < k_enough_runs || first_ms_ < k_enough_ms) return;
    checked_ = true;
    const double mean = first_ms_ / first_runs_;
    if (mean > k_pays * alone_ns_ * 1e-6) try_ways();
    else choice_.expect(mean);
  }

  void drop_others() {
    for (std::size_t i = 0; i < ways_.size(); ++i)
      if (i != choice_.active()) ways_[i] = Way(ways_[i].threads);
  }

  void try_ways() {
    const auto start = std::chrono::steady_clock::now();
    std::swap(ways_[0], ways_[choice_.active()]);
    std::size_t n = 2;
    try {
      compile(ways_[1]);
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::memory) throw;  // without memory for a second way, keep the current one
      ways_[1] = Way(ways_[1].threads);
      n = 1;
    }
    choice_.begin_again(n, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }

  std::shared_ptr<const Plan> plan_;
  ThreadPool& pool_;
  BackendState& state_;
  MakeClaimed make_claimed_;
  double alone_ns_;
  std::vector<Way> ways_;  // one or two
  RepeatedChoice choice_;
  bool checked_ = false;  // the first runs were compared with alone_ns
  double first_ms_ = 0;
  int first_runs_ = 0;
  std::optional<SharedArena::Share> share_;  // for an executable that takes turns; streams run concurrently
  Bytes own_arena_;
};

}  // namespace unroll::cpu
