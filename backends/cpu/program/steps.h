// SPDX-License-Identifier: Apache-2.0
// Calls in order, each run by every part of the pool, with a barrier after each that needs one.
// Pointers are resolved at run time through a frame, because a scan moves its operands in every step.
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

// Blocks of memory begin on cache lines.
inline std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

// Base pointers of one running plan: arena, constants, inputs, outputs. Each part has its own copy.
struct Frame {
  std::byte** bases;
  std::byte* scratch;  // shared by all parts, 64-byte aligned
  Rows rows = {};      // of a packed scan that are still there
  int lane = 0;        // of the trace: which thread runs this
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

// How parts share out memory: equal owners touch equal elements in each part. Element e (in bytes from the base) of
// rows of columns is of the unit (e - phase) / size mod units; memory of columns kept apart begins at `phase`.
struct Owner {
  std::int64_t units = 0;  // 0: any part may touch any of it
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
  // Before a run of the whole plan, by one thread, while the pool is at rest.
  virtual void prepare() {}
  // Empty: operands, results and scratch of its node, all of it by any part.
  virtual std::vector<Access> accesses() const { return {}; }
  virtual std::string implementation() const = 0;
  // Brings threads of its own: runs once, as Part{}, while the pool does nothing else.
  virtual bool alone() const { return false; }
  // Nanoseconds of one run, of a call that knows it; 0: what costs.h says of its node.
  virtual double predicted_ns() const { return 0; }
  // No run of it tries another way to do the same.
  virtual bool settled() const { return true; }
  virtual void report(std::vector<ReportLine>&) const {}  // lines of an inner program
  virtual std::size_t held_bytes() const { return 0; }    // memory of its own
};

struct Step {
  std::unique_ptr<Call> call;
  std::string name;
  std::int32_t node = -1;        // that it computes; -1: no single one
  std::size_t bytes = 0;         // written
  bool has_rows = true;          // depends on what differs from row to row of a packed scan
  bool alone = false;            // as its call says
  bool wait = true;              // a barrier follows
  std::int64_t nanoseconds = 0;  // of part 0, over all runs
  double predicted_ns = 0;       // of one run, with the barrier; unless its call knows better
  std::uint32_t traced_as = 0;
};

class Steps {
 public:
  // times: runs in one run of what they are part of.
  explicit Steps(Trace* trace = nullptr, double times = 1) : trace_(trace), times_(times) {}
  void add(Step step);
  std::size_t size() const { return steps_.size(); }
  Step& operator[](std::size_t i) { return steps_[i]; }
  const Step& operator[](std::size_t i) const { return steps_[i]; }
  // How many of so many runs are timed, and counted that often; two looks at the clock take longer than a small call.
  void time_one_in(int runs) { timed_one_in_ = runs; }  // 0: none

  void prepare() {
    for (const Step& step : steps_) step.call->prepare();
  }
  // By every part, in lock step.
  void run(std::size_t begin, std::size_t end, const Frame& frame, const Worker& worker);
  int n_barriers() const;  // of one run
  bool ends_together() const { return steps_.empty() || steps_.back().wait; }  // with a barrier
  bool settled() const;
  std::size_t held_bytes() const;
  double predicted_ns() const;  // of all its times
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
