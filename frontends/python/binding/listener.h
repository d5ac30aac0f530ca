// SPDX-License-Identifier: Apache-2.0
// Callbacks to Python code during a run.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>

#include "frontends/python/binding/interruptible.h"
#include "unroll/train/trainer.h"

namespace unroll::python {

// The first Python exception ends the run, and is raised after the run has saved. Its attribute `run` is the run.
class Listener : public Interruptible {
 public:
  // Called with a dict for each report; returning False stops the run. None: not called.
  explicit Listener(const nanobind::object& on_report) : on_report_(on_report) {}

  TrainResult fit(Trainer& trainer);
  void warn(const std::string& text);  // of TrainerOptions
  // Returns the run of work() as a PythonRun. `folder` is its folder, or empty.
  template <class PythonRun, class Work>
  PythonRun train(const std::string& folder, const Work& work) {
    PythonRun run(outcome(work));
    const std::int64_t updates = run.result.updates;
    if (raised_) leave(nanobind::cast(std::move(run)), updates, folder);
    return run;
  }

 private:
  void report(const Progress& progress);
  bool stops();  // between updates
  [[noreturn]] void leave(const nanobind::object& run, std::int64_t updates, const std::string& folder);

  const nanobind::object& on_report_;
  bool stops_ = false;
};

}  // namespace unroll::python
