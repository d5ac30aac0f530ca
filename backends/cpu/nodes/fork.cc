// SPDX-License-Identifier: Apache-2.0
// Independent branches of a plan: concurrently, each on some of the workers with a separate barrier, or in turn on all
// workers. Timings of the first runs choose, once the scans in both have chosen their schedules. Retunes when times
// change.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "backends/cpu/cost/work.h"
#include "backends/cpu/program/program.h"
#include "backends/cpu/program/state.h"
#include "core/support/text/exact_text.h"
#include "unroll/support/error.h"

namespace unroll::cpu {

namespace {

using Clock = std::chrono::steady_clock;

class ForkCall final : public Call {
 public:
  ForkCall(const PlanView& view, const Fork& fork, std::size_t& scratch_bytes);
  void run(const Frame& frame, const Worker& worker) override;
  void prepare() override {
    if (std::exchange(tries_again_, false)) try_again();
  }
  std::string implementation() const override;
  bool settled() const override { return !choice_.open(); }
  double predicted_ns() const override { return ways_[choice_.open() ? 0 : choice_.active()].guess_ns; }
  void report(std::vector<ReportLine>& lines) const override {
    for (const Lane& lane : ways_[choice_.active()].lanes) lane.steps.report(lines);
  }
  std::size_t held_bytes() const override;

 private:
  // Workers [first, first + parts) and their branches.
  struct Lane {
    int first = 0, parts = 0;
    Steps steps = Steps();
    std::size_t scratch = 0;  // offset
    std::unique_ptr<Barrier> barrier = nullptr;  // null: the pool's barrier
  };
  struct Way {
    Schedule schedule;  // side_by_side, or calls: in turn
    std::vector<Lane> lanes = {};
    double guess_ns = 0;  // before any run
    bool settled() const {
      return std::all_of(lanes.begin(), lanes.end(), [](const Lane& lane) { return lane.steps.settled(); });
    }
  };
  std::vector<Schedule> worth_trying(bool& is_known) const;
  void compile(Way& way, const PlanView& view, std::size_t& scratch_bytes) const;
  void run_lane(Lane& lane, const Frame& frame, const Worker& worker);
  void mend(const Worker& worker);
  void note_run(bool was_settled, double milliseconds);
  void drop_others();
  void try_again();

  PlanView view_;  // to compile ways again; its costs are as of compilation
  Fork fork_;
  ForkSplit split_;
  std::size_t scratch_room_ = 0;  // of the frame's scratch
  std::vector<Way> ways_;         // all that may pay; the ones without lanes are not compiled
  RepeatedChoice choice_;         // among the first ways
  std::atomic<bool> broken_{false};  // a worker failed in the last run
  bool tries_again_ = false;         // compile the ways before the next run
  BackendState& state_;
  std::string key_;  // of the choice
};

ForkCall::ForkCall(const PlanView& view, const Fork& fork, std::size_t& scratch_bytes)
    : view_(view), fork_(fork), state_(view.state), key_("fork, " + std::to_string(view.parts) + " parts") {
  for (std::int32_t i = fork.bounds.front(); i < fork.bounds.back(); ++i) {
    const Node& node = view.graph().node(i);
    key_ += ", " + std::string(op_info(node.op).name);
    for (const Type& type : node.outputs) key_ += " " + type.text();
    if (node.body) key_ += " " + print_graph(*node.body);
  }
  split_ = split_fork(usual_machine(), *view.costs, view.plan, fork, view.parts);
  const ForkSplit predicted = split_fork(view.state.machine, *view.predicted, view.plan, fork, view.parts);
  bool is_known = false;
  for (const Schedule schedule : worth_trying(is_known)) {
    ways_.push_back({schedule});
    ways_.back().guess_ns = schedule == Schedule::side_by_side ? predicted.side_by_side_ns : predicted.in_turn_ns;
  }
  choice_ = RepeatedChoice(is_known ? 1 : ways_.size());
  for (std::size_t i = 0; i < choice_.n_ways(); ++i) compile(ways_[i], view, scratch_bytes);
  scratch_room_ = scratch_bytes;
  view_.costs = view_.predicted = nullptr;
}

// Best estimate first, or only the previous choice if known: the others then wait.
std::vector<Schedule> ForkCall::worth_trying(bool& is_known) const {
  constexpr double k_hopeless = 2;  // times the best estimate
  if (state_.schedule) return {*state_.schedule == Schedule::side_by_side ? Schedule::side_by_side : Schedule::calls};
  const double side_by_side = split_.side_by_side_ns, in_turn = split_.in_turn_ns;
  std::vector<Schedule> ways{Schedule::side_by_side, Schedule::calls};
  if (in_turn < side_by_side) std::swap(ways[0], ways[1]);
  if (std::max(side_by_side, in_turn) > k_hopeless * std::min(side_by_side, in_turn)) ways.pop_back();
  if (const auto known = state_.choices.find(key_); known && ways.size() == 2) {
    is_known = true;
    if ((*known == Schedule::side_by_side) != (ways[0] == Schedule::side_by_side)) std::swap(ways[0], ways[1]);
  }
  return ways;
}

void ForkCall::compile(Way& way, const PlanView& view, std::size_t& scratch_bytes) const {
  if (way.schedule != Schedule::side_by_side) {
    Lane lane{0, view.parts, Steps(view.state.trace)};
    add_nodes(view, fork_.bounds.front(), fork_.bounds.back(), lane.steps, scratch_bytes);
    way.lanes.push_back(std::move(lane));
    return;
  }
  int parts = 0;
  std::size_t scratch = 0;
  for (const ForkLane& share : split_.lanes) {
    Lane lane{parts, share.parts, Steps(view.state.trace)};
    PlanView own = view;
    own.parts = share.parts;
    std::size_t bytes = 0;
    for (const std::size_t b : share.branches) add_nodes(own, fork_.bounds[b], fork_.bounds[b + 1], lane.steps, bytes);
    lane.scratch = scratch;
    lane.barrier = std::make_unique<Barrier>(share.parts, spins_before_sleep(view.parts));
    parts += share.parts;
    scratch += aligned(bytes);
    way.lanes.push_back(std::move(lane));
  }
  scratch_bytes = std::max(scratch_bytes, scratch);
}

std::string ForkCall::implementation() const {
  std::string text = std::to_string(fork_.n_branches()) + " branches ";
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
              fixed_text(ms, 4) + " ms";
  return text;
}

std::size_t ForkCall::held_bytes() const {
  std::size_t bytes = 0;
  for (const Way& way : ways_)
    for (const Lane& lane : way.lanes) bytes += lane.steps.held_bytes();
  return bytes;
}

void ForkCall::run(const Frame& frame, const Worker& worker) {
  if (broken_.load(std::memory_order_relaxed)) mend(worker);
  Way& way = ways_[choice_.active()];
  const bool choosing = choice_.open(), notes = ways_.size() > 1 && worker.index == 0;
  const bool was_settled = notes && way.settled();
  const auto start = notes ? Clock::now() : Clock::time_point();
  for (Lane& lane : way.lanes)
    if (worker.index >= lane.first && worker.index < lane.first + lane.parts) run_lane(lane, frame, worker);
  if (choosing) worker.sync();  // the time counts all workers, and no worker reads ways while they are dropped
  if (notes) note_run(was_settled, std::chrono::duration<double, std::milli>(Clock::now() - start).count());
}

void ForkCall::run_lane(Lane& lane, const Frame& frame, const Worker& worker) {
  if (!lane.barrier) return lane.steps.run(0, lane.steps.size(), frame, worker);
  try {
    Frame own = frame;
    own.scratch += lane.scratch;
    lane.steps.run(0, lane.steps.size(), own, Worker{worker.index - lane.first, lane.parts, lane.barrier.get()});
  } catch (...) {  // the pool breaks its barrier; workers of this lane may wait at the lane's
    broken_.store(true, std::memory_order_relaxed);
    lane.barrier->break_all();
    throw;
  }
}

// All workers call this at the first run after a failed one; none waits at a lane's barrier then.
void ForkCall::mend(const Worker& worker) {
  if (worker.index == 0)
    for (Way& way : ways_)
      for (Lane& lane : way.lanes)
        if (lane.barrier) lane.barrier->mend();
  worker.sync();  // all have read `broken_`
  if (worker.index == 0) broken_.store(false, std::memory_order_relaxed);
}

// Called by worker 0 after a run.
void ForkCall::note_run(bool was_settled, double milliseconds) {
  if (!choice_.open() && !was_settled) return;  // its loops are still choosing schedules
  switch (choice_.add_run(milliseconds, was_settled, state_.retry)) {
    case RepeatedChoice::Next::go_on: break;
    case RepeatedChoice::Next::drop_others: drop_others(); break;
    case RepeatedChoice::Next::make_others: tries_again_ = true; break;
  }
}

void ForkCall::drop_others() {
  for (std::size_t i = 0; i < ways_.size(); ++i)
    if (i != choice_.active()) ways_[i].lanes.clear();
  state_.choices.keep(key_, ways_[choice_.active()].schedule);
  choice_.expect(0);  // from now on only the time of worker 0 is known
}

void ForkCall::try_again() {
  const auto start = std::chrono::steady_clock::now();
  std::swap(ways_[0], ways_[choice_.active()]);
  const Costs costs(usual_machine(), view_.plan), predicted(state_.machine, view_.plan);
  PlanView view = view_;
  view.costs = &costs;
  view.predicted = &predicted;
  std::size_t n = 2, scratch = 0;
  try {
    compile(ways_[1], view, scratch);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::memory) throw;  // without memory for a second way, keep the current one
    n = 1;
  }
  if (scratch > scratch_room_) n = 1;
  if (n == 1) ways_[1].lanes.clear();
  choice_.begin_again(n, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
}

}  // namespace

std::unique_ptr<Call> make_fork(const PlanView& view, const Fork& fork, std::size_t& scratch_bytes) {
  return std::make_unique<ForkCall>(view, fork, scratch_bytes);
}

}  // namespace unroll::cpu
