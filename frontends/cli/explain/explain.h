// SPDX-License-Identifier: Apache-2.0
// Support for --explain: records the plans of a graph and the calls that the backend runs.
#pragma once

#include "frontends/cli/explain/profiling_backend.h"
#include "frontends/cli/terminal/report.h"

namespace unroll::cli {

// The backend of a command. With --explain it records its plans, and a report prints them too.
class ExplainedBackend {
 public:
  ExplainedBackend(bool explain, std::unique_ptr<Backend> backend);
  Backend& operator*() const { return *backend_; }
  Backend* operator->() const { return backend_.get(); }

  // Returns a report for each plan: `backend`, `outputs`, `memory`, `runs`, `passes` (what, where, why, how often) and
  // `kernels` (implementation of each call, and its time per run). Returns none without --explain.
  ReportList explain() const;
  // Prints the report and the plans: as JSON member `explain`, or below the text.
  void print(Report report, bool as_json) const;
  // Prints the plans after data on stdout: as text on stderr, or as one more line of JSON, {"explain": ...}.
  void print_after(bool as_json) const;

 private:
  std::unique_ptr<Backend> backend_;
  const ProfilingBackend* profiling_ = nullptr;  // the same; null: without --explain
};

// Returns the changes of the passes: pass, layer if wanted, count, what, where, why.
ReportList pass_report(const Plan& plan, bool with_layer = false);
// Returns the memory of a plan by kind, in numbers of values.
Report memory_report(const Plan& plan);

}  // namespace unroll::cli
