// SPDX-License-Identifier: Apache-2.0
// Branches of a plan that do not depend on each other: side by side, each by some of the parts with a barrier of their
// own, or in turn by all parts. Timings of the first runs choose, once the scans in both have chosen their schedules.
#include <algorithm>
#include <atomic>
#include <chrono>

#include "backends/cpu/program.h"
#include "backends/cpu/state.h"
#include "backends/cpu/work.h"

namespace unroll::cpu {

namespace {

class ForkCall final : public Call {
 public:
  ForkCall(const PlanView& view, const Fork& fork, std::size_t& scratch_bytes);
  void run(const Frame& frame, const Part& part) override;
  std::string implementation() const override;
  bool settled() const override { return !choice_.open(); }
  double predicted_ns() const override { return ways_[choice_.open() ? 0 : choice_.active()].guess_ns; }
  void report(std::vector<ReportLine>& lines) const override {
    for (const Lane& lane : ways_[choice_.active()].lanes) lane.steps.report(lines);
  }
  std::size_t held_bytes() const override;

 private:
  // Parts [first, first + parts) and what they run.
  struct Lane {
    int first = 0, parts = 0;
    Steps steps = Steps();
    std::size_t scratch = 0;  // offset
    std::unique_ptr<Barrier> barrier = nullptr;  // null: that of all parts
  };
  struct Way {
    Schedule schedule;  // side_by_side, or calls: in turn
    std::vector<Lane> lanes = {};
    double guess_ns = 0;  // before any run
    bool settled() const {
      return std::all_of(lanes.begin(), lanes.end(), [](const Lane& lane) { return lane.steps.settled(); });
    }
  };
  std::vector<Schedule> worth_trying(const ForkSplit& split) const;
  Way make_way(Schedule schedule, const PlanView& view, const Fork& fork, const ForkSplit& split,
               std::size_t& scratch_bytes) const;
  void run_lane(Lane& lane, const Frame& frame, const Part& part);
  void mend(const Part& part);
  void choose(bool was_settled, double milliseconds);

  std::size_t n_branches_;
  std::vector<Way> ways_;
  TimedChoice choice_;  // of the ways
  std::atomic<bool> broken_{false};  // a part failed in the last run
  BackendState& state_;
  std::string key_;  // of the choice
};

ForkCall::ForkCall(const PlanView& view, const Fork& fork, std::size_t& scratch_bytes)
    : n_branches_(fork.n_branches()), state_(view.state), key_("fork, " + std::to_string(view.parts) + " parts") {
  for (std::int32_t i = fork.bounds.front(); i < fork.bounds.back(); ++i) {
    const Node& node = view.graph().node(i);
    key_ += ", " + std::string(op_info(node.op).name);
    for (const Type& type : node.outputs) key_ += " " + type.text();
    if (node.body) key_ += " " + print_graph(*node.body);
  }
  const ForkSplit split = split_fork(usual_rates(), *view.costs, view.plan, fork, view.parts);
  const ForkSplit predicted = split_fork(view.state.rates, *view.predicted, view.plan, fork, view.parts);
  for (const Schedule schedule : worth_trying(split)) {
    ways_.push_back(make_way(schedule, view, fork, split, scratch_bytes));
    ways_.back().guess_ns = schedule == Schedule::side_by_side ? predicted.side_by_side_ns : predicted.in_turn_ns;
  }
  choice_ = TimedChoice(ways_.size());
}

// Best guess first.
std::vector<Schedule> ForkCall::worth_trying(const ForkSplit& split) const {
  constexpr double k_hopeless = 2;  // times the best guess
  const auto wanted = state_.schedule ? state_.schedule : state_.choices.find(key_);
  if (wanted) return {*wanted == Schedule::side_by_side ? Schedule::side_by_side : Schedule::calls};
  if (split.side_by_side_ns > k_hopeless * split.in_turn_ns) return {Schedule::calls};
  if (split.in_turn_ns > k_hopeless * split.side_by_side_ns) return {Schedule::side_by_side};
  if (split.in_turn_ns < split.side_by_side_ns) return {Schedule::calls, Schedule::side_by_side};
  return {Schedule::side_by_side, Schedule::calls};
}

ForkCall::Way ForkCall::make_way(Schedule schedule, const PlanView& view, const Fork& fork, const ForkSplit& split,
                                 std::size_t& scratch_bytes) const {
  Way way{schedule};
  if (schedule != Schedule::side_by_side) {
    Lane lane{0, view.parts, Steps(view.state.trace)};
    add_nodes(view, fork.bounds.front(), fork.bounds.back(), lane.steps, scratch_bytes);
    way.lanes.push_back(std::move(lane));
    return way;
  }
  int parts = 0;
  std::size_t scratch = 0;
  for (const ForkLane& share : split.lanes) {
    Lane lane{parts, share.parts, Steps(view.state.trace)};
    PlanView own = view;
    own.parts = share.parts;
    std::size_t bytes = 0;
    for (const std::size_t b : share.branches) add_nodes(own, fork.bounds[b], fork.bounds[b + 1], lane.steps, bytes);
    lane.scratch = scratch;
    lane.barrier = std::make_unique<Barrier>(share.parts, spins_before_sleep(view.parts));
    parts += share.parts;
    scratch += aligned(bytes);
    way.lanes.push_back(std::move(lane));
  }
  scratch_bytes = std::max(scratch_bytes, scratch);
  return way;
}

std::string ForkCall::implementation() const {
  std::string text = std::to_string(n_branches_) + " branches ";
  const Way& way = ways_[choice_.active()];
  if (way.schedule == Schedule::side_by_side) {
    text += "side by side, on ";
    for (const Lane& lane : way.lanes) text += (&lane == way.lanes.data() ? "" : " + ") + std::to_string(lane.parts);
    text += " threads";
  } else {
    text += "in turn";
  }
  for (std::size_t i = 0; i < ways_.size(); ++i)
    if (const double ms = choice_.ms(i); ms > 0)
      text += std::string(ways_[i].schedule == Schedule::side_by_side ? "; side by side " : "; in turn ") +
              std::to_string(ms).substr(0, 6) + " ms";
  return text;
}

std::size_t ForkCall::held_bytes() const {
  std::size_t bytes = 0;
  for (const Way& way : ways_)
    for (const Lane& lane : way.lanes) bytes += lane.steps.held_bytes();
  return bytes;
}

void ForkCall::run(const Frame& frame, const Part& part) {
  using Clock = std::chrono::steady_clock;
  if (broken_.load(std::memory_order_relaxed)) mend(part);
  Way& way = ways_[choice_.active()];
  const bool choosing = choice_.open(), was_settled = choosing && part.index == 0 && way.settled();
  const auto start = choosing ? Clock::now() : Clock::time_point();
  for (Lane& lane : way.lanes)
    if (part.index >= lane.first && part.index < lane.first + lane.parts) run_lane(lane, frame, part);
  if (!choosing) return;
  part.sync();
  if (part.index == 0) choose(was_settled, std::chrono::duration<double, std::milli>(Clock::now() - start).count());
}

void ForkCall::run_lane(Lane& lane, const Frame& frame, const Part& part) {
  if (!lane.barrier) return lane.steps.run(0, lane.steps.size(), frame, part);
  try {
    Frame own = frame;
    own.scratch += lane.scratch;
    lane.steps.run(0, lane.steps.size(), own, Part{part.index - lane.first, lane.parts, lane.barrier.get()});
  } catch (...) {  // the team breaks its own barrier; parts of this lane may wait at the lane's
    broken_.store(true, std::memory_order_relaxed);
    lane.barrier->break_all();
    throw;
  }
}

// All parts come here, at the first run after one that failed; none waits at a lane's barrier then.
void ForkCall::mend(const Part& part) {
  if (part.index == 0)
    for (Way& way : ways_)
      for (Lane& lane : way.lanes)
        if (lane.barrier) lane.barrier->mend();
  part.sync();  // all have seen `broken_`
  if (part.index == 0) broken_.store(false, std::memory_order_relaxed);
}

// By part 0, after a run: the next way to run, or the best of them.
void ForkCall::choose(bool was_settled, double milliseconds) {
  if (!choice_.add_run(milliseconds, was_settled)) return;
  for (std::size_t i = 0; i < ways_.size(); ++i)
    if (i != choice_.active()) ways_[i].lanes.clear();
  state_.choices.keep(key_, ways_[choice_.active()].schedule);
}

}  // namespace

std::unique_ptr<Call> make_fork(const PlanView& view, const Fork& fork, std::size_t& scratch_bytes) {
  return std::make_unique<ForkCall>(view, fork, scratch_bytes);
}

}  // namespace unroll::cpu
