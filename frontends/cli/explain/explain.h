// SPDX-License-Identifier: Apache-2.0
// --explain: what the passes made of a graph and what the backend runs for it.
#pragma once

#include <memory>
#include <vector>

#include "core/passes/forwarding_backend.h"
#include "frontends/cli/terminal/report.h"

namespace unroll::cli {

// A plan that was compiled, and its runs since mark().
struct ExplainedPlan {
  std::shared_ptr<const Plan> plan;
  std::int64_t runs = 0;
  double milliseconds = 0;        // of a run, from call to completion
  std::vector<ReportLine> lines;  // milliseconds are those of one run, like predicted_ms
};

// A backend that keeps what is planned and compiled for it, so that any command can explain itself.
class ExplainingBackend : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  std::unique_ptr<Executable> compile(std::shared_ptr<const Plan> plan) override;

  // In the order in which they were compiled.
  std::vector<ExplainedPlan> plans() const;
  // What ran so far does not count any more: the ways that are tried out in first runs, cold caches.
  void mark();
  // A report for each plan: `backend`, `outputs`, `memory`, `runs`, `passes` (what, where, why, how often) and
  // `kernels` (what each call runs as, and the time it takes in a run).
  ReportList explain() const;

 private:
  struct Compiled;
  std::vector<std::shared_ptr<Compiled>> compiled_;
};

// What a plan keeps where, in numbers of values.
Report memory_report(const Plan& plan);

// The backend as it is, or wrapped when it is to explain itself; `explaining` then points at the wrapper.
std::unique_ptr<Backend> explained_if(bool wanted, std::unique_ptr<Backend> backend, ExplainingBackend*& explaining);

// Prints the report, and what `explaining` knows when there is one: as member `explain` of the JSON object, or below
// the text.
void print_explained(Report report, const ExplainingBackend* explaining, bool as_json);
// After data on stdout: as text on stderr, or as one more line of JSON, {"explain": ...}. Nothing without `explaining`.
void print_explained_after(const ExplainingBackend* explaining, bool as_json);

}  // namespace unroll::cli
