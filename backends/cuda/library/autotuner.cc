// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/library/autotuner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "backends/common/kernel_files.h"
#include "backends/cuda/driver/captured_graph.h"
#include "unroll/support/error.h"

namespace unroll::cuda {

namespace {

constexpr int k_rounds = 5, k_fewest_rounds = 2;
// Milliseconds: of all timed runs, then further rounds are left out; of runs between two events, since the device waits
// for the first one to be launched.
constexpr double k_most_timed = 500, k_least_timed = 0.5;
constexpr int k_most_times = 10;  // a trial runs between two events

// A place of the stream, with its time.
class TimedEvent {
 public:
  explicit TimedEvent(const Device& device) : device_(device) {
    device_.check(device_.f().EventCreate(&event_, CU_EVENT_DEFAULT), "cuEventCreate");
  }
  ~TimedEvent() { device_.f().EventDestroy(event_); }
  TimedEvent(const TimedEvent&) = delete;
  TimedEvent& operator=(const TimedEvent&) = delete;
  void record() const { device_.check(device_.f().EventRecord(event_, device_.stream()), "cuEventRecord"); }
  double milliseconds_since(const TimedEvent& begin) const {
    float elapsed = 0;
    device_.check(device_.f().EventElapsedTime(&elapsed, begin.event_, event_), "cuEventElapsedTime");
    return elapsed;
  }

 private:
  const Device& device_;
  CUevent event_ = nullptr;
};

// A trial that has run once, and runs again.
struct RunnableTrial {
  bool runs;
  std::function<void()> enqueue;
};
RunnableTrial runnable_of(const Device& device, const Trial& trial, bool captures) {
  RunnableTrial made{failure_of(device, trial.enqueue).empty(), trial.enqueue};
  if (!made.runs || !captures) return made;
  try {
    const auto graph = std::make_shared<const CapturedGraph>(device, trial.enqueue);
    made.enqueue = [graph] { graph->launch(); };
  } catch (const Error& error) {  // runs will not be captured either
    if (error.kind() != ErrorKind::device) throw;
  }
  return made;
}

}  // namespace

std::string failure_of(const Device& device, const std::function<void()>& enqueue) {
  try {
    enqueue();
    device.wait();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::device) throw;
    return error.what();
  }
  return {};
}

std::vector<common::Candidate> Autotuner::time(const std::vector<Trial>& trials) const {
  std::vector<common::Candidate> candidates;
  std::vector<RunnableTrial> runnable;
  for (const Trial& trial : trials) {
    candidates.push_back({trial.name});
    runnable.push_back(runnable_of(device_, trial, captures_));
  }
  const TimedEvent begin(device_), end(device_);
  const auto milliseconds = [&](const RunnableTrial& trial, int times) {
    begin.record();
    for (int k = 0; k < times; ++k) trial.enqueue();
    end.record();
    device_.wait();
    return end.milliseconds_since(begin) / times;
  };
  double longest = 0, sum = 0;
  for (const RunnableTrial& trial : runnable)
    if (trial.runs) longest = std::max(longest, milliseconds(trial, 1));
  const bool are_short = longest * k_most_times < k_least_timed;
  const int times = are_short ? k_most_times : std::max(1, static_cast<int>(k_least_timed / longest));
  std::vector<double> fastest(trials.size(), std::numeric_limits<double>::infinity());
  for (int round = 0; round < k_rounds && (round < k_fewest_rounds || sum < k_most_timed); ++round)
    for (std::size_t k = 0; k < trials.size(); ++k) {
      if (!runnable[k].runs) continue;
      const double each = milliseconds(runnable[k], times);
      sum += each * times;
      fastest[k] = std::min(fastest[k], each);
      candidates[k].nanoseconds = std::llround(fastest[k] * 1e6);
    }
  return candidates;
}

std::string source_text(const Decision& decision) {
  std::string text = decision.source == Decision::Source::measured ? "measured now" : "measured earlier";
  if (!decision.damage.empty()) text += " (the file of an earlier choice was ignored: " + decision.damage + ")";
  return text;
}

Autotuner::Autotuner(const Device& device, const std::string& cache, bool measures, bool captures)
    : device_(device), captures_(captures),
      device_text_(device.limits().name + ", sm_" + std::to_string(device.limits().arch) + ", " +
                   std::to_string(device.limits().multiprocessors) + " multiprocessors, driver of CUDA " +
                   version_text(device.limits().driver)),
      folder_(cache.empty() ? "" : cache + "/choices"),
      why_not_(!measures       ? "option measure=false"
               : cache.empty() ? "no cache folder that would keep a measured choice"
                               : "") {}

const Autotuner::Outcome& Autotuner::decide(const std::string& key, const IsUsable& is_usable, const Measure& measure) {
  const auto at = outcomes_.find(key);
  return at != outcomes_.end() ? at->second : outcomes_.emplace(key, outcome_of(key, is_usable, measure)).first->second;
}

Autotuner::Outcome Autotuner::outcome_of(const std::string& key, const IsUsable& is_usable,
                                         const Measure& measure) const {
  const std::string depends_on = device_text_ + "\n" + key + '\n';
  const std::string path = common::kernel_path(folder_, depends_on, ".choice");
  const auto usable = [&](const std::string& bytes) {
    std::optional<common::Choice> choice = common::parse_choice(bytes);
    return choice && is_usable(*choice) ? choice : std::nullopt;
  };
  common::KeptKernel kept = common::read_kernel(path, depends_on);
  if (const auto choice = usable(kept.bytes)) return {Decision{*choice, Decision::Source::kept}};
  if (!kept.bytes.empty()) kept.damage = "it names no algorithm that the library accepts";
  const std::optional<common::Choice> chosen = common::choose(measure());
  if (!chosen) return {std::nullopt, "trials failed or found too little memory"};
  const auto is_valid = [&](const std::string& bytes) { return usable(bytes).has_value(); };
  const auto first = usable(common::keep_first(path, depends_on, print_choice(*chosen), is_valid));
  if (!first) return {std::nullopt, "a measured choice cannot be kept in " + folder_};
  const auto source = *first == *chosen ? Decision::Source::measured : Decision::Source::kept;
  return {Decision{*first, source, kept.damage}};
}

}  // namespace unroll::cuda
