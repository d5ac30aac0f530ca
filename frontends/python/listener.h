// SPDX-License-Identifier: Apache-2.0
// What Python code may do while a run goes on.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <optional>
#include <string>

#include "core/support/interruption.h"
#include "unroll/trainer.h"

namespace unroll::python {

// The first exception of Python ends the run, and is raised after the run has saved.
class Listener {
 public:
  // Called with a dict for each report; returning False stops the run. None: not called.
  explicit Listener(const nanobind::object& on_report) : on_report_(on_report) {}

  TrainResult fit(Trainer& trainer);
  void warn(const std::string& text);  // of TrainerOptions

  // work() without Python's lock. An exception that this holds comes before that of the work.
  template <class Work>
  auto run(const Work& work) {
    std::optional<decltype(work())> result;
    try {
      const nanobind::gil_scoped_release release;
      const InterruptionHook hook([&] { check(); });
      result.emplace(work());
    } catch (...) {
      raise();
      throw;
    }
    raise();
    return std::move(*result);
  }

 private:
  using Clock = std::chrono::steady_clock;

  void report(const Progress& progress);
  // Between updates. From the first of these calls on, a run has something to save.
  bool stops();
  // While data are read and programs planned. Throws when the run shall end.
  void check();
  void raise() {
    if (raised_) throw std::move(*raised_);
  }
  void look_for_signals();
  template <class Call>
  void in_python(const Call& call);

  const nanobind::object& on_report_;
  bool stops_ = false, updates_ = false;
  std::optional<nanobind::python_error> raised_;
  Clock::time_point asked_ = Clock::now();
};

}  // namespace unroll::python
