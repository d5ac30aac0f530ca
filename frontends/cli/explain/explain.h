// SPDX-License-Identifier: Apache-2.0
// Support for --explain: records the plans of a graph and the calls that the backend runs.
#pragma once

#include <memory>
#include <vector>

#include "core/passes/forwarding_backend.h"
#include "frontends/cli/terminal/report.h"

namespace unroll::cli {

// A compiled plan, and its runs since mark().
struct ExplainedPlan {
  std::shared_ptr<const Plan> plan;
  std::int64_t runs = 0;
  double milliseconds = 0;        // per run, from call to completion
  std::vector<ReportLine> lines;  // milliseconds per run, like predicted_ms
};

// Wraps a backend and records its plans and executables, so that any command can explain itself.
class ExplainingBackend : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  std::unique_ptr<Executable> compile(std::shared_ptr<const Plan> plan) override;

  // Returns the plans in the order of compilation.
  std::vector<ExplainedPlan> plans() const;
  // Restarts counting, to exclude tuning in first runs and cold caches.
  void mark();
  // Returns a report for each plan: `backend`, `outputs`, `memory`, `runs`, `passes` (what, where, why, how often) and
  // `kernels` (implementation of each call, and its time per run).
  ReportList explain() const;

 private:
  struct Compiled;
  std::vector<std::shared_ptr<Compiled>> compiled_;
};

// Returns the memory of a plan by kind, in numbers of values.
Report memory_report(const Plan& plan);

// Returns the backend, wrapped if `wanted`; `explaining` then points at the wrapper.
std::unique_ptr<Backend> explained_if(bool wanted, std::unique_ptr<Backend> backend, ExplainingBackend*& explaining);

// Prints the report and, unless `explaining` is null, its plans: as JSON member `explain`, or below the text.
void print_explained(Report report, const ExplainingBackend* explaining, bool as_json);
// The same after data on stdout: as text on stderr, or as one more line of JSON, {"explain": ...}. Prints nothing if
// `explaining` is null.
void print_explained_after(const ExplainingBackend* explaining, bool as_json);

}  // namespace unroll::cli
