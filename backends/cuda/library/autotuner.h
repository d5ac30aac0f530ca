// SPDX-License-Identifier: Apache-2.0
// Choice of a library's algorithm for an operation. It is measured once on a device, then kept in a file, so that later
// processes have the same algorithm and the same bits.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backends/common/autotune/choice.h"
#include "backends/cuda/driver/device.h"

namespace unroll::cuda {

// Device memory while candidates are measured.
class TrialMemory {
 public:
  TrialMemory(const Device& device, std::size_t bytes)
      : device_(device), at_(device.allocate(bytes, "trials of algorithms")) {}
  ~TrialMemory() { device_.release(at_); }
  TrialMemory(const TrialMemory&) = delete;
  TrialMemory& operator=(const TrialMemory&) = delete;
  CUdeviceptr at() const { return at_; }

 private:
  const Device& device_;
  CUdeviceptr at_;
};

// A candidate that can be run: its calls, as they go on the stream.
struct Trial {
  std::string name;
  std::function<void()> enqueue;  // throws Error(device) where the library refuses to run it
};
// Why the device or the library does not run it; empty: it does. Throws Error(memory).
std::string failure_of(const Device& device, const std::function<void()>& enqueue);

struct Decision {
  enum class Source : std::uint8_t { measured, kept };
  common::Choice choice;
  Source source = Source::measured;
  std::string damage = {};  // why a file was ignored
};
// "measured now", and what is to be said of a file.
std::string source_text(const Decision& decision);

class Autotuner {
 public:
  // `cache`: the folder of kernels; empty: nothing is kept, so nothing is measured, since each process might choose
  // differently. `captures`: runs become CUDA graphs.
  Autotuner(const Device& device, const std::string& cache, bool measures, bool captures);
  bool measures() const { return why_not_.empty(); }
  const std::string& why_not() const { return why_not_; }  // for reports

  // `key`: what the times depend on besides the device. `is_usable`: whether the library knows the chosen candidate of
  // a file. `measure`: no candidates where there is too little memory for trials.
  using IsUsable = std::function<bool(const common::Choice&)>;
  using Measure = std::function<std::vector<common::Candidate>()>;
  struct Outcome {
    std::optional<Decision> decision;
    std::string why_not = {};  // where there is none
  };
  const Outcome& decide(const std::string& key, const IsUsable& is_usable, const Measure& measure);

  // Runs each trial once, then all in turns, as graphs where the library allows to capture it. A trial that fails does
  // not run.
  std::vector<common::Candidate> time(const std::vector<Trial>& trials) const;

 private:
  Outcome outcome_of(const std::string& key, const IsUsable& is_usable, const Measure& measure) const;

  const Device& device_;
  bool captures_;
  std::string device_text_, folder_, why_not_;
  std::map<std::string, Outcome> outcomes_;  // [key]
};

}  // namespace unroll::cuda
