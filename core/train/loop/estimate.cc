// SPDX-License-Identifier: Apache-2.0
#include "core/train/loop/estimate.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "core/support/elapsed.h"
#include "core/support/machine_memory.h"
#include "core/support/median.h"
#include "core/train/device/memory_limit.h"
#include "core/train/loop/prefetch.h"

namespace unroll {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double k_share = 0.05;      // of the run that may go into its estimate
constexpr double k_until_settled = 2;  // times as much while schedules are chosen, which the run keeps
// A short run may spend more: interruptions by other programs take longer than 5 % of it.
constexpr double k_short_share = 0.2, k_short_seconds = 0.3;
// At least one, so that a batch without elements has a share in the whole.
double elements_of(const Batch& batch) {
  double all = 0;
  for (const auto& [name, tensor] : batch.inputs) all += static_cast<double>(tensor.elements());
  return std::max(all, 1.0);
}

// Batches by shape. Work and memory of one grow with its elements.
struct Census {
  std::map<std::string, double> elements;  // of one batch of each shape
  double all = 0;                          // of all batches
  void add(const Batch& batch) {
    const double n = elements_of(batch);
    elements.emplace(shapes_of(batch), n);
    all += n;
  }
  double of_each_shape() const {
    double sum = 0;
    for (const auto& [shapes, n] : elements) sum += n;
    return sum;
  }
  double largest() const {
    double most = 0;
    for (const auto& [shapes, n] : elements) most = std::max(most, n);
    return most;
  }
};

// Programs of one kind: those that were compiled for a trial, and what the shapes of the run need beyond them.
struct Kind {
  Census met, seen;
  std::size_t bytes = 0;                // of the programs met, without arenas: packed weights, which no batch changes
  std::size_t arenas = 0;               // of all of them, where each has its own
  std::size_t arena = 0;                // the largest of them, where they take turns in one
  std::vector<double> compile_seconds;  // of some of them
  double settle_seconds = 0;            // of one: what its first runs take more than later ones

  // Sizes as they are now. A difference of two moments says nothing: workspaces shrink as schedules are chosen.
  void measure(const std::vector<ProgramInfo>& programs, bool one_arena) {
    bytes = arenas = arena = 0;
    for (const ProgramInfo& program : programs) {
      if (!met.elements.contains(program.shapes)) continue;
      bytes += program.bytes - (one_arena ? 0 : program.arena);
      if (one_arena) arena = std::max(arena, program.arena);
      else arenas += program.arena;
    }
  }

  void add_further(FurtherPrograms& further, double& seconds) const {
    for (const auto& [shapes, n] : seen.elements) {
      if (met.elements.contains(shapes)) continue;
      ++further.n;
      further.bytes += bytes / met.elements.size();
      further.bytes += static_cast<std::size_t>(static_cast<double>(arenas) * n / met.of_each_shape());
      if (!compile_seconds.empty()) seconds += median(compile_seconds);
      seconds += settle_seconds * n * static_cast<double>(met.elements.size()) / met.of_each_shape();
    }
    if (met.elements.empty() || seen.elements.empty()) return;
    const double larger = std::max(seen.largest() / met.largest(), 1.0);
    further.arena = std::max(further.arena, static_cast<std::size_t>(static_cast<double>(arena) * larger));
  }
};

// Seconds of runs, in units of what they were given. The first runs of a program time alternatives; once it is settled
// runs take as long as they will, and the mean counts, because a run pays for interruptions too. Before that the least
// time is the best guess.
class Timings {
 public:
  void add(double seconds, double units, bool settled) {
    (settled ? settled_seconds_ : unsettled_seconds_) += seconds;
    (settled ? settled_units_ : unsettled_units_) += units;
    least_ = empty() ? seconds / units : std::min(least_, seconds / units);
    ++(settled ? n_settled_ : n_unsettled_);
  }
  bool empty() const { return n_settled_ + n_unsettled_ == 0; }
  bool enough() const { return n_settled_ >= k_enough; }
  double per_unit() const { return enough() ? settled_seconds_ / settled_units_ : least_; }
  double settle_seconds() const { return std::max(unsettled_seconds_ - unsettled_units_ * per_unit(), 0.0); }

 private:
  static constexpr int k_enough = 4;
  double settled_seconds_ = 0, settled_units_ = 0, unsettled_seconds_ = 0, unsettled_units_ = 0, least_ = 0;
  int n_settled_ = 0, n_unsettled_ = 0;
};

bool are_settled(const std::vector<ProgramInfo>& programs, const Census& used) {
  return std::all_of(programs.begin(), programs.end(), [&](const ProgramInfo& program) {
    return program.settled || !used.elements.contains(program.shapes);
  });
}

// Bytes of the host's memory that the model's parts account for.
std::size_t known_bytes(const DeviceModel& model) {
  std::size_t bytes = 0;
  if (model.programs().on_device()) return bytes;
  for (const RunEstimate::Part& part : model.memory(/*waiting=*/0)) bytes += part.bytes;
  return bytes;
}

// The resident memory of the process besides these bytes.
std::size_t memory_beside(std::size_t bytes) {
  const std::size_t now = resident_memory();
  return now > bytes ? now - bytes : 0;
}

// Memory of the process for the plan of a program, besides the model's own. The first program does not count: it
// brings threads and pages of code, too.
class PlanMemory {
 public:
  void add(std::size_t before, const DeviceModel& model) {
    bytes_ += std::max(memory_beside(known_bytes(model)), before) - before;
    ++n_;
  }
  std::size_t of_one() const { return n_ == 0 ? 0 : bytes_ / n_; }

 private:
  std::size_t bytes_ = 0, n_ = 0;
};

class Trials {
 public:
  Trials(DeviceModel& model, const Task& task, const Trial& trial, RunEstimate& estimate)
      : model_(model), task_(task), trial_(trial), estimate_(estimate), allowed_(trial.seconds) {}

  FurtherPrograms all() {
    try_training();
    if (trial_.decided(times_.empty())) return {};
    look_ahead();
    if (trial_.validation_batches > 0) try_validation();
    FurtherPrograms further{.plan_bytes = plans_.of_one()};
    training_.add_further(further, estimate_.compile_seconds);
    validation_.add_further(further, estimate_.compile_seconds);
    return further;
  }

 private:
  // With the thread that prepares batches, as in the run: it takes part of the machine, too.
  void try_training() {
    Prefetch prefetch(
        [this](std::int64_t update) {
          const auto start = Clock::now();
          std::vector<Batch> batches = trial_.batches(update);
          batch_seconds_.push_back(seconds_since(start));
          return batches;
        },
        trial_.prefetch, trial_.last);
    const auto start = Clock::now();
    auto begin = start;  // of settled updates
    for (std::int64_t update = trial_.first; update <= trial_.last; ++update) {
      const bool stops = trial_.stop && trial_.stop();
      if (!times_.enough()) begin = Clock::now();
      const double until_settled = std::min(std::max(k_until_settled * allowed_, k_short_seconds), trial_.seconds);
      // Compiling may take longer than the whole trial: it ends when there is a time at least.
      const bool has_time = !times_.empty() || !first_times_.empty();
      const bool is_over = times_.enough() ? seconds_since(begin) >= allowed_ : seconds_since(start) >= until_settled;
      if (trial_.decided(stops || (has_time && (is_over || seconds_since(start) >= trial_.seconds)))) break;
      try_update(update, prefetch);
    }
    if (times_.empty()) times_ = first_times_;  // the trial was too short for more
    training_.measure(model_.programs().updates(), model_.programs().one_arena());
    const std::size_t shapes = std::max<std::size_t>(training_.met.elements.size(), 1);
    training_.settle_seconds = times_.settle_seconds() / static_cast<double>(shapes);
  }

  void try_update(std::int64_t update, Prefetch& prefetch) {
    auto start = Clock::now();
    const std::vector<Batch> now = prefetch.take(update);
    double seconds = seconds_since(start);
    Census these;
    bool first = false;  // its pages are touched for the first time
    for (const Batch& batch : now) {
      these.add(batch);
      first = first || !training_.met.elements.contains(shapes_of(batch));
      training_.met.add(batch);
    }
    const std::size_t programs = model_.programs().size();
    const bool settled = are_settled(model_.programs().updates(), these);
    const std::size_t beside = memory_beside(known_bytes(model_));
    start = Clock::now();
    model_.update(now, trial_.inputs(update));
    model_.totals();  // waits for the device
    const bool compiled = model_.programs().size() != programs;
    if (compiled) training_.compile_seconds.push_back(seconds_since(start));
    seconds += seconds_since(start);
    if (compiled && programs > 0) plans_.add(beside, model_);
    if (compiled) return;
    if (first) {
      first_times_.add(seconds, these.all, /*settled=*/false);
      return;
    }
    updates_.push_back(seconds);
    times_.add(seconds, these.all, settled);
    allowed_ = allowed(static_cast<double>(trial_.last - trial_.first + 1) * median(updates_));
  }

  double allowed(double run) const {
    return std::min(trial_.seconds, std::max(k_share * run, std::min(k_short_share * run, k_short_seconds)));
  }

  // Until an epoch brings no new shape, for half of the time at most.
  void look_ahead() {
    const auto start = Clock::now();
    std::int64_t updates = 0, last_new = 0;
    while (trial_.first + updates <= trial_.last && updates - last_new < trial_.epoch) {
      if (updates > 0 && seconds_since(start) > allowed_ / 2) break;
      const std::size_t shapes = training_.seen.elements.size();
      for (const Batch& batch : trial_.batches(trial_.first + updates)) training_.seen.add(batch);
      ++updates;
      if (training_.seen.elements.size() != shapes) last_new = updates;
    }
    const double update = times_.per_unit() * training_.seen.all / static_cast<double>(updates);
    // Batches that waited while programs were compiled hide that their preparation is what takes longest.
    const double batch = trial_.prefetch > 0 ? median(batch_seconds_) : 0;
    estimate_.update_seconds = std::max(update, batch);
  }

  // The batch in the middle, as they may be sorted by length. Its first evaluation compiles.
  void try_validation() {
    const std::int64_t middle = trial_.validation_batches / 2;
    const auto evaluate = [&] {
      const auto start = Clock::now();
      model_.evaluator().evaluate(Split::validation, 1, middle);
      return seconds_since(start);
    };
    const std::size_t beside = memory_beside(known_bytes(model_));
    const double first = evaluate();
    plans_.add(beside, model_);
    validation_.met.add(task_.batch(Split::validation, 0, 0, middle));
    Timings times;
    auto start = Clock::now();
    while (trial_.decided(times.empty() || (!times.enough() && seconds_since(start) < allowed_ / 2))) {
      const bool settled = are_settled(model_.programs().evaluations(), validation_.met);
      times.add(evaluate(), validation_.met.all, settled);
    }
    const double one = times.per_unit() * validation_.met.all;
    validation_.compile_seconds.push_back(std::max(first - one, 0.0));
    validation_.settle_seconds = times.settle_seconds();
    validation_.measure(model_.programs().evaluations(), model_.programs().one_arena());
    start = Clock::now();
    std::int64_t batches = 0;
    while (batches < trial_.validation_batches && (batches == 0 || seconds_since(start) < allowed_ / 2))
      validation_.seen.add(task_.batch(Split::validation, 0, 0, batches++));
    estimate_.validation_seconds = one * validation_.seen.all / validation_.met.all *
                                   static_cast<double>(trial_.validation_batches) / static_cast<double>(batches) /
                                   static_cast<double>(task_.evaluation_shards(Split::validation));
  }

  DeviceModel& model_;
  const Task& task_;
  const Trial& trial_;
  RunEstimate& estimate_;
  double allowed_;
  std::vector<double> updates_;
  std::vector<double> batch_seconds_;  // of another thread, while there is a Prefetch
  PlanMemory plans_;
  Timings times_;        // of updates, per element
  Timings first_times_;  // of the first ones of their programs
  Kind training_, validation_;
};

}  // namespace

FurtherPrograms try_updates(DeviceModel& model, const Task& task, const Trial& trial, RunEstimate& estimate) {
  const ModelTensors::Snapshot before = model.tensors().snapshot();
  const FurtherPrograms further = Trials(model, task, trial, estimate).all();
  model.tensors().restore(before);
  return further;
}

void add_rest(RunEstimate& e, const FurtherPrograms& further, const DeviceModel& model, std::size_t before) {
  const std::size_t known = e.on_device ? 0 : e.bytes, plans = further.plan_bytes * further.n;
  for (RunEstimate::Part& part : e.memory)
    if (part.name == "arena") part.bytes = std::max(part.bytes, further.arena);
  const std::size_t beside = std::max(memory_beside(known), before);
  e.memory.push_back({"further shapes", further.bytes + (e.on_device ? 0 : plans)});
  require_memory(e, model.programs().memory());
  if (e.on_device) {
    e.process_bytes = std::max(beside + plans, peak_resident_memory());
    return;
  }
  e.process_bytes = std::max(beside + e.bytes, peak_resident_memory()) - e.bytes;
  e.memory.push_back({"process", e.process_bytes});
  require_memory(e, 0);
}

}  // namespace unroll
