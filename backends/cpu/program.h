// SPDX-License-Identifier: Apache-2.0
// A compiled plan: calls in order, each run by every part of the team, with a barrier after each.
// Pointers are resolved at run time through a frame, because a scan moves its operands in every step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/kernels.h"
#include "unroll/backend.h"
#include "unroll/ops.h"

namespace unroll::cpu {

// Blocks of memory begin on cache lines.
inline std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

// Base pointers of one running plan: arena, constants, inputs, outputs. Each part has its own copy.
struct Frame {
  std::byte** bases;
  std::byte* scratch;  // shared by all parts, 64-byte aligned
  Rows rows = {};      // of a packed scan that are still there
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

// How parts share out memory: equal owners touch equal elements in each part. Element e (in bytes from the base) of rows
// of columns is of the unit (e - phase) / size mod units; memory of columns kept apart begins at `phase`.
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
  virtual void run(const Frame& frame, const Part& part) = 0;
  // Empty: operands, results and scratch of its node, all of it by any part.
  virtual std::vector<Access> accesses() const { return {}; }
  virtual std::string implementation() const = 0;
  // Brings threads of its own: runs once, as Part{}, while the team does nothing else.
  virtual bool alone() const { return false; }
  virtual void report(std::vector<ReportLine>&) const {}  // lines of an inner program
  virtual std::size_t held_bytes() const { return 0; }    // memory of its own
};

struct Step {
  std::unique_ptr<Call> call;
  std::string name;
  std::size_t bytes = 0;         // written
  bool has_rows = true;          // depends on what differs from row to row of a packed scan
  bool alone = false;            // as its call says
  bool wait = true;              // a barrier follows
  std::int64_t nanoseconds = 0;  // of part 0, over all runs since the last reset
};

struct BackendState;
struct PlanView;
// Makes the call of a claimed node, for a backend that claims some.
using MakeClaimed = std::unique_ptr<Call> (*)(const PlanView& view, std::int32_t node);

// What compiling one plan needs to know.
struct PlanView {
  const Plan& plan;
  int parts;
  BackendState& state;
  MakeClaimed make_claimed = nullptr;
  std::vector<std::size_t> constant_offsets = {};  // [node], into the constants block
  bool packed = false;                             // the body of a packed scan
  const Graph& graph() const { return *plan.graph; }
  const Storage& storage(const ValueId& id) const {
    return plan.storage[static_cast<std::size_t>(id.node)][static_cast<std::size_t>(id.output)];
  }
  Ref ref(const ValueId& id) const { return ref(storage(id)); }
  Ref ref(const Storage& storage) const;
  Strides strides(const ValueId& id) const;                          // of the value's own shape
  Strides strides(const ValueId& id, const Shape& broadcast) const;  // as if it had this shape
};

class PackedMatmul;
class ColumnSplit;

// What the body of a scan is compiled for.
struct ScanBody {
  const ScanLayout& layout;
  std::vector<PackedMatmul*>& packed;  // gets the products by constants, to be packed before the loop
  bool by_columns = false;             // columns.h
  bool by_rows = false;                // runs on some of the rows
  std::vector<bool> kept = {};         // [output] each step has memory of its own
};

class Program {
 public:
  // Without scan: a whole plan.
  explicit Program(PlanView view, const ScanBody* scan = nullptr);

  // By every part, in lock step.
  void run(const Frame& frame, const Part& part) { run_steps(0, steps_.size(), frame, part); }
  // By a team that is at rest, with calls that run alone between its runs.
  template <class Team>
  void run_on(Team& team, const Frame& frame) {
    for (std::size_t begin = 0, end = 0; begin < steps_.size(); begin = end) {
      const bool alone = steps_[begin].alone;
      for (end = begin + 1; end < steps_.size() && steps_[end].alone == alone;) ++end;
      if (alone) run_steps(begin, end, frame, Part{});
      else team.run([&](const Part& part) { run_steps(begin, end, frame, part); });
    }
  }
  std::size_t scratch_bytes() const { return scratch_bytes_; }
  std::size_t held_bytes() const;  // constants, packed weights of loops: all but arena and scratch
  std::byte* constants() { return constants_.data(); }
  std::size_t n_bases() const { return n_bases_; }
  void leave_untimed() { timed_ = false; }  // two looks at the clock take longer than a small call
  std::size_t n_steps() const { return steps_.size(); }
  int n_barriers() const;  // of one run
  bool ends_together() const { return steps_.empty() || steps_.back().wait; }  // with a barrier
  void report(std::vector<ReportLine>& lines, const std::string& indent) const;

 private:
  void add_steps(const PlanView& view, const ScanBody* scan);
  void run_steps(std::size_t begin, std::size_t end, const Frame& frame, const Part& part);

  std::vector<Step> steps_;
  std::size_t scratch_bytes_ = 0;
  std::size_t n_bases_ = 0;
  bool timed_ = true;
  Bytes constants_;
};

// Copies outputs that were computed elsewhere to where they are bound; adds nothing when all are in place.
// n_states: of a scan whose body this is, else 0.
std::unique_ptr<Call> make_output_copies(const PlanView& view, int n_states);
// The loop of a scan node over its body's program.
std::unique_ptr<Call> make_scan(const PlanView& view, std::int32_t node, std::size_t& scratch_bytes);
// The same for one without states: its steps in any order, shared out.
std::unique_ptr<Call> make_map(const PlanView& view, std::int32_t node, std::size_t& scratch_bytes);
// Any other node; null when it computes nothing (inputs, constants, views). Raises scratch_bytes to what it needs.
std::unique_ptr<Call> make_call(const PlanView& view, std::int32_t node, std::size_t& scratch_bytes);

// Whether the node is a product by a constant, which is packed when the plan is compiled.
bool is_constant_matmul(const Plan& plan, std::int32_t node);
std::unique_ptr<Call> make_constant_matmul(const PlanView& view, std::int32_t node);

// An output of a body or plan that is computed elsewhere than where it is bound.
struct OutputPiece {
  Type type;
  Ref from, to;
  bool staged;  // its source is the buffer that another output is written over
};
std::vector<OutputPiece> output_pieces(const PlanView& view, int n_states);

}  // namespace unroll::cpu
