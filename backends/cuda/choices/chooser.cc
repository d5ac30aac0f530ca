// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/choices/chooser.h"

#include <cmath>
#include <utility>

#include "backends/common/kernel_files.h"
#include "unroll/error.h"

namespace unroll::cuda {

namespace {

constexpr int k_rounds = 5, k_fewest_rounds = 2;
constexpr double k_most_milliseconds = 500;  // of all timed runs; further rounds are left out

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

std::vector<common::Candidate> time_trials(const Device& device, const std::vector<Trial>& trials) {
  std::vector<common::Candidate> candidates;
  std::vector<double> fastest(trials.size(), -1);
  for (const Trial& trial : trials) candidates.push_back({trial.name});
  const TimedEvent begin(device), end(device);
  std::vector<bool> runs;
  for (const Trial& trial : trials) runs.push_back(failure_of(device, trial.enqueue).empty());
  double sum = 0;
  for (int round = 0; round < k_rounds && (round < k_fewest_rounds || sum < k_most_milliseconds); ++round)
    for (std::size_t k = 0; k < trials.size(); ++k) {
      if (!runs[k]) continue;
      begin.record();
      trials[k].enqueue();
      end.record();
      device.wait();
      const double milliseconds = end.milliseconds_since(begin);
      sum += milliseconds;
      if (fastest[k] < 0 || milliseconds < fastest[k]) fastest[k] = milliseconds;
    }
  for (std::size_t k = 0; k < trials.size(); ++k)
    if (runs[k]) candidates[k].nanoseconds = std::llround(fastest[k] * 1e6);
  return candidates;
}

std::string source_text(const Decision& decision) {
  std::string text = decision.source == Decision::Source::measured ? "measured now" : "measured earlier";
  if (!decision.damage.empty()) text += " (the file of an earlier choice was ignored: " + decision.damage + ")";
  return text;
}

Chooser::Chooser(const Device& device, const std::string& cache, bool measures)
    : device_(device.limits().name + ", sm_" + std::to_string(device.limits().arch) + ", " +
              std::to_string(device.limits().multiprocessors) + " multiprocessors, driver of CUDA " +
              version_text(device.limits().driver)),
      folder_(cache.empty() ? "" : cache + "/choices"),
      why_not_(!measures       ? "option measure=false"
               : cache.empty() ? "no cache folder that would keep a measured choice"
                               : "") {}

const Chooser::Outcome& Chooser::decide(const std::string& key, const IsUsable& is_usable, const Measure& measure) {
  const auto at = outcomes_.find(key);
  return at != outcomes_.end() ? at->second : outcomes_.emplace(key, outcome_of(key, is_usable, measure)).first->second;
}

Chooser::Outcome Chooser::outcome_of(const std::string& key, const IsUsable& is_usable, const Measure& measure) const {
  const std::string depends_on = device_ + "\n" + key + '\n';
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
