// SPDX-License-Identifier: Apache-2.0
// `unroll compare`: the same model on several backends.
#include "unroll/train/compare.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/support/text/shell_word.h"
#include "core/train/verify/exposed_values.h"
#include "frontends/cli/bench/compare_model.h"
#include "frontends/cli/bench/peers.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/explain/explain.h"
#include "frontends/cli/terminal/activity.h"
#include "frontends/cli/terminal/report.h"
#include "frontends/config/run/job.h"
#include "unroll/support/error.h"

namespace unroll::cli {
namespace {

struct CompareArguments : PeerArguments, OutputArguments {
  std::vector<std::string> backends;  // empty: all available ones
  std::int64_t runs = 5;
  std::string save;
};

void add_options(CLI::App& app, CompareArguments& o) {
  add_operand(app, "model", o.config, "Run folder, config file, or the graph text of a node that --save wrote.");
  group(app, "Model");
  add_weights(app, o);
  add_precision(app, o.precision);
  add_text(app, "--input", o.input, "FILE", "Graph text: safetensors file with the inputs.");
  add_set(app, o);
  add_seed(app, o);
  group(app, "What to compare");
  add_texts(app, "--backend", o.backends, "NAMES",
            "Backends, comma-separated, such as reference,cpu. `reference`, or else the first, is the standard.",
            "all available");
  add_flag(app, "--grad", o.grad, "Compare the gradients of all parameters too; dropout is on.");
  add_integer(app, "--updates", o.updates,
              "Compare the losses of N training updates and the parameters after them too.", {0, 100000, 5});
  allow_only(add_texts(app, "--with", o.with, "NAMES",
                       "Other libraries, comma-separated, on a config with [model] alone."),
             {"torch", "onnxruntime"});
  add_text(app, "--python", o.python, "COMMAND", "Python interpreter in which torch and onnxruntime are installed.");
  group(app, "Measurement");
  add_integer(app, "--runs", o.runs, "Timed runs of each backend; 0 skips timing.", {0, 10000, 5});
  add_integer(app, "--threads", o.threads, "0", "Worker threads of each backend; 0 uses every available processor.",
              {0, 4096, 2});
  group(app, "Output");
  add_text(app, "--save", o.save, "FOLDER", "Write the first node that differs, with its inputs, to this folder.");
  add_output(app, o);
  add_examples(app,
               "  unroll compare runs/char-lm --grad\n"
               "  unroll compare lstm.toml --backend reference,cpu --grad --updates 5 --json\n"
               "  unroll compare lstm.toml --with torch --python venv/bin/python --grad\n"
               "\n"
               "Exit code 9: results differ; the message names the first node that differs.");
}

constexpr const char* k_reference = "reference";

// The reference backend first.
std::vector<std::string> backend_names(const CompareArguments& o) {
  std::vector<std::string> names = o.backends;
  if (names.empty()) {
    for (const BackendStatus& status : list_backends())
      if (status.available && !status.emulated) names.push_back(status.name);
  }
  for (std::size_t k = 1; k < names.size(); ++k)
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(k), names[k]) !=
        names.begin() + static_cast<std::ptrdiff_t>(k))
      throw Error(ErrorKind::usage, "compare", "backend '" + names[k] + "' is named twice");
  std::stable_partition(names.begin(), names.end(), [](const std::string& name) { return name == k_reference; });
  return names;
}

double part(const ResultCheck& c) { return c.achieved == 0 ? 0 : c.achieved / c.allowed; }

double largest_part(const BackendResult& r) {
  double most = 0;
  for (const ResultCheck& c : r.results) most = std::max(most, part(c));
  return most;
}

ReportList backend_rows(const Comparison& c) {
  ReportList rows;
  for (const BackendResult& r : c.backends) {
    const bool standard = &r == &c.backends.front();
    Report row;
    row.add("name", r.backend).add("verdict", standard ? "standard" : r.difference.empty() ? "agrees" : "differs");
    row.add("results", r.results.size()).add("of_allowed", largest_part(r));
    row.add("measured_rounding", r.measured_rounding);
    row.add("nodes", r.nodes.nodes).add("nodes_not_verified", r.nodes.unverified).add("nodes_of_allowed",
                                                                                      r.nodes.tightest);
    row.add("nodes_skipped", r.nodes.skipped).add("difference", r.difference);
    row.add("compile_ms", r.compile_ms).add("min_ms", r.min_ms).add("median_ms", r.median_ms);
    row.add("peak_bytes", r.peak_bytes).add("device", r.device);
    rows.push_back(std::move(row));
  }
  return rows;
}

// The results of each backend other than the reference, those closest to their limits first.
ReportList result_rows(const Comparison& c, std::size_t at_most) {
  ReportList rows;
  for (const BackendResult& r : c.backends) {
    std::vector<ResultCheck> sorted = r.results;
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return part(a) > part(b); });
    for (std::size_t k = 0; k < std::min(at_most, sorted.size()); ++k) {
      const ResultCheck& check = sorted[k];
      rows.push_back(std::move(Report().add("backend", r.backend).add("name", check.name)
                                   .add("achieved", check.achieved).add("allowed", check.allowed)));
    }
  }
  return rows;
}

ReportList loss_rows(const Comparison& c) {
  ReportList rows;
  for (std::size_t u = 0; u < c.backends.front().losses.size(); ++u) {
    Report row;
    row.add("update", u + 1);
    for (const BackendResult& r : c.backends)
      if (u < r.losses.size()) row.add(r.backend, r.losses[u]);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string number(const char* format, double value) {
  return value == 0 ? "-" : fmt::format(fmt::runtime(format), value);
}

TextTable backend_table(const Comparison& c) {
  TextTable table{{"backend", "verdict", "results", "nodes", "of nodes", "compile", "fastest", "median", "memory"}, {}};
  for (const BackendResult& r : c.backends) {
    const bool standard = &r == &c.backends.front();
    const bool verified = r.nodes.nodes > 0;
    table.rows.push_back({r.backend, standard ? "standard" : r.difference.empty() ? "agrees" : "differs",
                          standard ? "-" : fmt::format("{:.1f} %", 100 * largest_part(r)),
                          verified ? count_text(r.nodes.nodes) : "-",
                          verified ? fmt::format("{:.1f} %", 100 * r.nodes.tightest) : "-",
                          number("{:.1f} ms", r.compile_ms), number("{:.3f} ms", r.min_ms),
                          number("{:.3f} ms", r.median_ms), r.peak_bytes == 0 ? "-" : bytes_text(r.peak_bytes)});
  }
  return table;
}

// Returns the report for people: results and nodes with the largest error relative to the tolerance.
Report report_for_people(const Comparison& c, Report report) {
  constexpr std::size_t k_shown = 5;
  report.add("backends: results and nodes in percent of the allowed error", backend_table(c));
  TextTable closest{{"backend", "result", "distance", "allowed"}, {}};
  for (const Report& row : result_rows(c, k_shown))
    closest.rows.push_back({std::get<std::string>(row.at("backend")), std::get<std::string>(row.at("name")),
                            fmt::format("{:.3g}", std::get<double>(row.at("achieved"))),
                            fmt::format("{:.3g}", std::get<double>(row.at("allowed")))});
  if (!closest.rows.empty()) report.add("results closest to the allowed error", closest);
  if (ReportList losses = loss_rows(c); !losses.empty()) report.add("losses by update", losses);
  for (const BackendResult& r : c.backends)
    if (!r.nodes.skipped.empty() && r.nodes.skipped != "computed outside")
      report.add("nodes of " + r.backend + " not checked", r.nodes.skipped);
  return report;
}

// Returns the plans of all backends, except those made to verify others node by node.
ReportList explained(const std::vector<ExplainedBackend>& backends) {
  ReportList plans;
  for (const ExplainedBackend& backend : backends)
    for (Report& plan : backend.explain()) {
      const auto& outputs = std::get<std::vector<std::string>>(plan.at("outputs"));
      const auto looks_inside = [](const std::string& name) { return name.starts_with(k_exposed); };
      if (std::none_of(outputs.begin(), outputs.end(), looks_inside)) plans.push_back(std::move(plan));
    }
  return plans;
}

int execute(const CompareArguments& options) {
  const std::vector<std::string> names = backend_names(options);
  std::vector<ExplainedBackend> owned;
  std::vector<Backend*> backends;
  for (const std::string& name : names)
    backends.push_back(&*owned.emplace_back(
        options.explain, open_backend(name, options.threads.value_or(0), options.explain)));
  const std::unique_ptr<Backend> reference = names.front() == k_reference ? nullptr : make_backend(k_reference);
  Backend& verifier = reference ? *reference : *backends.front();
  Activity busy("loading the model");
  CompareModel model = compare_model(options);
  CompareOptions how;
  how.gradients = options.grad;
  how.updates = options.updates;
  how.timed_runs = options.runs;
  how.training = std::move(model.training);
  how.parameters = std::move(model.parameters);
  if (!options.with.empty()) how.outside = run_peers(model, how.parameters, how.training, options);
  busy.say("comparing backends");
  how.training.stage = busy.stages();
  const Comparison result = compare_task(*model.task, backends, verifier, how);
  busy.finish();

  Report report;
  report.add("model", options.config).add("precision", std::string(precision_name(how.training.precision)));
  report.add("seed", how.training.seed).add("agrees", result.agrees());
  if (options.json) {
    report.add("backends", backend_rows(result)).add("results", result_rows(result, SIZE_MAX));
    report.add("losses", loss_rows(result));
    if (options.explain) report.add("explain", explained(owned));
    report.print(true);
  } else {
    report_for_people(result, std::move(report)).print(false);
    for (const Report& plan : explained(owned)) plan.print(false);
  }
  if (result.agrees()) return 0;
  for (const BackendResult& r : result.backends) {
    if (r.difference.empty()) continue;
    const bool saved = !options.save.empty() && r.nodes.fault && r.nodes.fault->graph;
    if (saved) save_fault(*r.nodes.fault, options.save);
    const std::string replay = fmt::format(
        "Replay the node: unroll compare {} --input {} --backend {},{}", shell_word(options.save + "/node.txt"),
        shell_word(options.save + "/node.safetensors"), k_reference, r.backend);
    throw Error(ErrorKind::differ, "compare", r.backend + " differs: " + r.difference, saved ? replay : "");
  }
  return 0;
}

}  // namespace

const Command compare_command =
    command<CompareArguments>(k_understand, "compare",
            "Check that backends agree on a model's outputs, gradients and updates.",
            add_options, execute);

}  // namespace unroll::cli
