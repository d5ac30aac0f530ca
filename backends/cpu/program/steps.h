// SPDX-License-Identifier: Apache-2.0
// Calls in order. Every worker runs each call, with a barrier after each that needs one. A frame resolves pointers at
// run time, because a scan advances its operands in every step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/kernels/kernels.h"
#include "unroll/passes/backend.h"
#include "unroll/support/trace.h"

namespace unroll::cpu {

// Memory blocks begin on cache lines.
inline std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

// Base pointers of one running plan: arena, constants, inputs, outputs. Each worker has a copy.
struct Frame {
  std::byte** bases;
  std::byte* scratch;  // shared by all workers, 64-byte aligned
  Rows rows = {};      // live rows of a packed scan
  int lane = 0;        // lane of the trace: the thread that runs this
};

// Memory of one operand: frame.bases[base] + offset.
struct Ref {
  std::uint32_t base = 0;
  std::size_t offset = 0;
  std::byte* in(const Frame& frame) const { return frame.bases[base] + offset; }
  friend bool operator==(const Ref&, const Ref&) = default;
};
// Base indices.
inline constexpr std::uint32_t k_arena = 0;
inline constexpr std::uint32_t k_constants = 1;
inline constexpr std::uint32_t k_first_input = 2;

// Division of memory among workers: with equal owners, each worker touches the same elements. Element e (in bytes from
// the base) of rows of columns belongs to unit (e - phase) / size mod units. Separate columns begin at `phase`.
struct Owner {
  std::int64_t units = 0;  // 0: any worker may touch any element
  std::int64_t phase = 0, size = 0;  // bytes
  bool apart = false;
  friend bool operator==(const Owner&, const Owner&) = default;
};
// Memory that a call reads or writes.
struct Access {
  Ref ref;
  std::size_t bytes = 0;
  Owner owner = {};
  bool writes = false;
};
// The base of the scratch memory in accesses.
inline constexpr std::uint32_t k_scratch = 0xffffffff;

class Call {
 public:
  virtual ~Call() = default;
  virtual void run(const Frame& frame, const Worker& worker) = 0;
  // Called before a run of the whole plan, by one thread, while the pool is idle.
  virtual void prepare() {}
  // Empty: operands, results and scratch of its node, all accessed by any worker.
  virtual std::vector<Access> accesses() const { return {}; }
  virtual std::string implementation() const = 0;
  // True if the call uses other threads: it runs once, as Worker{}, while the pool is idle.
  virtual bool alone() const { return false; }
  // Nanoseconds of one run, if the call knows them; 0: the prediction of costs.h for its node.
  virtual double predicted_ns() const { return 0; }
  // True if no later run tries another implementation.
  virtual bool settled() const { return true; }
  virtual void report(std::vector<ReportLine>&) const {}  // adds the lines of an inner program
  virtual std::size_t held_bytes() const { return 0; }    // memory that the call holds
};

struct Step {
  std::unique_ptr<Call> call;
  std::string name;
  std::int32_t node = -1;        // that it computes; -1: no single node
  std::size_t bytes = 0;         // written
  bool has_rows = true;          // depends on the live rows of a packed scan
  bool alone = false;            // see Call::alone
  bool wait = true;              // followed by a barrier
  std::int64_t nanoseconds = 0;  // of worker 0, over all runs
  double predicted_ns = 0;       // of one run, including the barrier; unless its call predicts it
  std::uint32_t traced_as = 0;
};

class Steps {
 public:
  // times: number of runs per run of the enclosing program.
  explicit Steps(Trace* trace = nullptr, double times = 1) : trace_(trace), times_(times) {}
  void add(Step step);
  std::size_t size() const { return steps_.size(); }
  Step& operator[](std::size_t i) { return steps_[i]; }
  const Step& operator[](std::size_t i) const { return steps_[i]; }
  // Times one of `runs` runs and weights it accordingly, because reading the clock outlasts a small call.
  void time_one_in(int runs) { timed_one_in_ = runs; }  // 0: none

  void prepare() {
    for (const Step& step : steps_) step.call->prepare();
  }
  // Called by every worker, in lock step.
  void run(std::size_t begin, std::size_t end, const Frame& frame, const Worker& worker);
  int n_barriers() const;  // per run
  bool ends_together() const { return steps_.empty() || steps_.back().wait; }  // ends with a barrier
  bool settled() const;
  std::size_t held_bytes() const;
  double predicted_ns() const;  // of all repetitions
  void report(std::vector<ReportLine>& lines) const;

 private:
  void run_traced(std::size_t begin, std::size_t end, const Frame& frame, const Worker& worker);

  Trace* trace_;
  double times_;
  std::vector<Step> steps_;
  int timed_one_in_ = 1;
  int untimed_ = 0;  // runs since the last timed one
};

}  // namespace unroll::cpu
