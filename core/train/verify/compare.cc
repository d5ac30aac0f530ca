// SPDX-License-Identifier: Apache-2.0
// Compares a model on several backends with the first of them.
#include "unroll/train/compare.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/support/elapsed.h"
#include "core/support/median.h"
#include "core/support/text/exact_text.h"
#include "core/train/device/programs.h"
#include "core/train/device/options.h"
#include "core/train/verify/agreement.h"
#include "core/train/verify/compare_run.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

using Clock = std::chrono::steady_clock;

// The distance between results on the verifier and in f64 that rounding causes, computed on demand: in f32, and in
// samples of Monte Carlo arithmetic, because errors of a single run may cancel.
class Rounding {
 public:
  using Results = std::function<TensorMap(Arithmetic)>;
  explicit Rounding(Results results) : results_(std::move(results)) {}

  double of(const std::string& name) {
    if (distances_.empty()) measure();
    return distances_.at(name);
  }
  double largest() const { return largest_; }

 private:
  void measure() {
    constexpr std::uint64_t k_samples = 3;
    const TensorMap wide = results_({.wide = true});
    const auto note = [&](const TensorMap& results) {
      for (const auto& [name, tensor] : wide) {
        double& d = distances_[name];
        d = std::max(d, distance(results.at(name), tensor).relative);
        largest_ = std::max(largest_, d);
      }
    };
    note(results_({.wide = false}));
    for (std::uint64_t k = 1; k <= k_samples; ++k) note(results_({.wide = true, .sample = k}));
  }
  Results results_;
  std::map<std::string, double> distances_;
  double largest_ = 0;
};

std::vector<ResultCheck> checked(const TensorMap& got, const TensorMap& wanted,
                                 const std::function<Work(const std::string&)>& work, Rounding& rounding) {
  std::vector<ResultCheck> checks;
  for (const auto& [name, tensor] : wanted) {
    if (!got.contains(name)) continue;  // computed outside, where fewer results are known
    const Tensor& result = got.at(name);
    if (result.type() != tensor.type()) {  // computed outside, by other code
      checks.push_back({name, HUGE_VAL, 0, "it has " + result.type().text() + " instead of " + tensor.type().text()});
      continue;
    }
    const Distance d = distance(result, tensor);
    const bool numbers = is_float(tensor.dtype());
    ResultCheck c{name, d.relative, numbers ? allowed_distance(work(name), tensor.dtype()) : 0, d.worst};
    if (!c.agrees() && numbers) c.allowed = std::max(c.allowed, k_measured_slack * rounding.of(name));
    checks.push_back(std::move(c));
  }
  return checks;
}

const ResultCheck* worst_of(const std::vector<ResultCheck>& checks) {
  const ResultCheck* worst = nullptr;
  for (const ResultCheck& c : checks)
    if (!c.agrees() && (!worst || c.achieved / c.allowed > worst->achieved / worst->allowed)) worst = &c;
  return worst;
}

class Comparing {
 public:
  Comparing(const Task& task, std::span<Backend* const> backends, Backend& verifier, const CompareOptions& options)
      : task_(task), backends_(backends), verifier_(verifier), options_(options),
        plan_options_(plan_options(options.training)),
        pass_(build_pass(task, first_batch(task, options), options)),
        terms_(terms_of_graph(*lower(*pass_.graph, verifier, plan_options_))) {}

  Comparison run() {
    for (Backend* backend : backends_) run_pass(*backend);
    time_passes();
    if (options_.updates > 0)
      for (std::size_t k = 0; k < backends_.size(); ++k) run_updates(k);
    for (std::size_t k = 1; k < backends_.size(); ++k) compare_results(k);
    for (std::size_t k = 0; k < backends_.size(); ++k) verify_nodes(k);
    for (const OutsideResults& outside : options_.outside) compare_outside(outside);
    for (std::size_t k = 0; k < comparison_.backends.size(); ++k) conclude(k);
    return std::move(comparison_);
  }

 private:
  static Batch first_batch(const Task& task, const CompareOptions& options) {
    if (task.n_batches(Split::train) < 1)
      throw Error(ErrorKind::usage, "compare", "the task has no batch to train on");
    return task.batch(Split::train, options.training.seed, 0, 0);
  }
  static std::string name_of(const Backend& backend) { return backend.describe().name; }
  bool is_verifier(std::size_t k) const { return name_of(*backends_[k]) == name_of(verifier_); }

  void tell(const WorkStage& stage) const {
    if (options_.training.stage) options_.training.stage(stage);
  }

  void run_pass(Backend& backend) {
    BackendResult& r = comparison_.backends.emplace_back();
    r.backend = name_of(backend);
    tell({"compiling for " + r.backend});
    r.device = backend.describe().device;
    const auto start = Clock::now();
    const std::span<const TensorSource> none;
    programs_.push_back(std::make_unique<BoundProgram>(*pass_.graph, none, backend, plan_options_));
    BoundProgram& program = *programs_.back();
    r.compile_ms = 1e3 * seconds_since(start);
    r.peak_bytes = program.program().peak_bytes();
    for (const auto& [name, tensor] : pass_.inputs) program.set(name, tensor);
    tell({"running on " + r.backend});
    program.run();
    backend.wait();
    results_.push_back(program.outputs());
  }

  // In turns, so that what else the machine does hits all alike.
  void time_passes() {
    std::vector<std::vector<double>> times(backends_.size());
    for (std::int64_t n = 0; n < options_.timed_runs; ++n)
      for (std::size_t k = 0; k < backends_.size(); ++k) {
        tell({"timing passes", n, options_.timed_runs});
        const auto start = Clock::now();
        programs_[k]->run();
        backends_[k]->wait();
        times[k].push_back(1e3 * seconds_since(start));
      }
    for (std::size_t k = 0; k < backends_.size() && options_.timed_runs > 0; ++k) {
      comparison_.backends[k].min_ms = *std::min_element(times[k].begin(), times[k].end());
      comparison_.backends[k].median_ms = median(times[k]);
    }
  }

  TensorMap trained(UpdateLoop& loop, std::vector<double>* losses) const {
    TensorMap results;
    for (std::int64_t n = 1; n <= options_.updates; ++n) {
      tell({"training", n - 1, options_.updates});
      const double loss = loop.step();
      if (losses) losses->push_back(loss);
      results.emplace("loss of update " + std::to_string(n), Tensor::scalar(DType::f32, loss));
    }
    const std::string after = " after " + std::to_string(options_.updates);
    for (const ParameterSpec& p : pass_.parameters) results.emplace(p.name + after, loop.tensors().at(p.name));
    return results;
  }
  TensorMap start() const {
    TensorMap parameters;
    for (const ParameterSpec& p : pass_.parameters) parameters.emplace(p.name, pass_.inputs.at(p.name));
    return parameters;
  }
  UpdateLoop loop_on(Backend& backend, Arithmetic how = {}) const {
    return UpdateLoop(task_, backend, options_, start(), how);
  }
  void run_updates(std::size_t k) {
    UpdateLoop loop = loop_on(*backends_[k]);
    trained_.push_back(trained(loop, &comparison_.backends[k].losses));
  }

  std::vector<ResultCheck> check_pass(const TensorMap& results) {
    return checked(results, results_[0], [&](const std::string& name) {
      return Work{terms_, name.starts_with("d_"), 0, plan_options_.precision}; }, rounding_);
  }
  void compare_results(std::size_t k) {
    BackendResult& r = comparison_.backends[k];
    r.results = check_pass(results_[k]);
    if (options_.updates > 0)
      for (ResultCheck& c : checked(trained_[k], trained_[0], [&](const std::string&) {
             return Work{terms_, true, options_.updates, plan_options_.precision}; }, update_rounding_))
        r.results.push_back(std::move(c));
    r.measured_rounding = std::max(rounding_.largest(), update_rounding_.largest());
  }

  void compare_outside(const OutsideResults& outside) {
    BackendResult& r = comparison_.backends.emplace_back();
    r.backend = outside.name;
    r.device = outside.device;
    r.min_ms = outside.min_ms;
    r.median_ms = outside.median_ms;
    r.nodes.skipped = "computed outside";
    r.results = check_pass(outside.results);
  }

  // Verifies the whole update if there are updates: it contains the pass.
  void verify_nodes(std::size_t k) {
    BackendResult& r = comparison_.backends[k];
    const bool differs = worst_of(r.results) != nullptr;
    if (is_verifier(k) || !(options_.nodes || differs)) return;
    r.nodes = check_nodes(*pass_.graph, pass_.inputs, *backends_[k], verifier_, plan_options_, options_.training.stage);
    if (options_.updates == 0 || r.nodes.fault) return;
    UpdateLoop loop = loop_on(*backends_[k]);
    const std::int64_t last = differs ? options_.updates : 1;  // what goes wrong later is looked for where it shows
    while (loop.update() < last && !r.nodes.fault) {
      const TensorMap inputs = loop.inputs();
      NodeCheck check =
          check_nodes(loop.graph(), inputs, *backends_[k], verifier_, plan_options_, options_.training.stage);
      check.nodes += r.nodes.nodes;
      check.unverified += r.nodes.unverified;
      check.tightest = std::max(check.tightest, r.nodes.tightest);
      r.nodes = std::move(check);
      if (r.nodes.fault) r.nodes.fault->place = "update " + std::to_string(loop.update() + 1) +
                                                (r.nodes.fault->place.empty() ? "" : ", " + r.nodes.fault->place);
      loop.step();
    }
  }

  void conclude(std::size_t k) {
    BackendResult& r = comparison_.backends[k];
    const ResultCheck* worst = worst_of(r.results);
    if (r.nodes.fault) {
      r.difference = r.nodes.fault->text();
    } else if (worst) {
      r.difference = worst->name + " is " + short_text(worst->achieved, 3) + " away where " +
                     short_text(worst->allowed, 3) + " is allowed: " + worst->worst + ". " + without_fault(k);
    }
  }

  // Every node is right, so the way from the graph to the plan may be wrong.
  std::string without_fault(std::size_t k) {
    const std::string& skipped = comparison_.backends[k].nodes.skipped;
    if (!skipped.empty()) return "Nodes were not verified: " + skipped;
    const std::string none = "Each node gives what it must of its operands";
    if (!worst_of(check_pass(results_[k]))) return none;
    for (const std::string& pass : pass_names()) {
      tell({"trying without the pass " + pass});
      PlanOptions options = plan_options_;
      options.without = {pass};
      if (!worst_of(check_pass(evaluate(*pass_.graph, *backends_[k], pass_.inputs, options))))
        return none + "; without the pass '" + pass + "' the results agree";
    }
    return none;
  }

  const Task& task_;
  std::span<Backend* const> backends_;
  Backend& verifier_;
  const CompareOptions& options_;
  PlanOptions plan_options_;
  Pass pass_;
  std::int64_t terms_;
  std::vector<std::unique_ptr<BoundProgram>> programs_;
  std::vector<TensorMap> results_, trained_;  // of each backend
  Rounding rounding_{[this](Arithmetic how) {
    tell({"measuring the effect of rounding"});
    if (!how.wide) return evaluate(*pass_.graph, verifier_, pass_.inputs, plan_options_);
    return evaluate(*in_f64(*pass_.graph, verifier_, plan_options_, how), verifier_, widened(pass_.inputs));
  }};
  Rounding update_rounding_{[this](Arithmetic how) {
    UpdateLoop loop = loop_on(verifier_, how);
    return trained(loop, nullptr);
  }};
  Comparison comparison_;
};

}  // namespace

bool Comparison::agrees() const {
  return std::all_of(backends.begin(), backends.end(), [](const BackendResult& r) {
    return r.difference.empty() && !r.nodes.fault; });
}

Comparison compare_task(const Task& task, std::span<Backend* const> backends, Backend& verifier,
                        const CompareOptions& options) {
  if (backends.empty()) throw Error(ErrorKind::usage, "compare", "no backend is named");
  return Comparing(task, backends, verifier, options).run();
}

}  // namespace unroll
