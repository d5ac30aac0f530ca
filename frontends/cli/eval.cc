// SPDX-License-Identifier: Apache-2.0
// `unroll eval`: loss and metrics of a run folder's model on a split of its data, beside simple methods.
#include <fmt/format.h>

#include "frontends/cli/commands.h"
#include "frontends/cli/job.h"
#include "frontends/cli/report.h"
#include "frontends/cli/run_folder.h"

namespace unroll::cli {
namespace {

Split split_of(const std::string& word) {
  return word == "train" ? Split::train : word == "validation" ? Split::validation : Split::test;
}

Report report_of(const std::map<std::string, double>& values) {
  Report report;
  for (const auto& [name, value] : values) report.add(name, value);
  return report;
}

}  // namespace

int run_eval(const Options& options) {
  const RunFolder run = open_run(options);
  const auto task = make_task(run.config, run.folder, run.model.metadata);
  const auto backend = open_backend(run.config);
  Trainer trainer(task, *backend, trainer_options(run.config));
  trainer.set_parameters(run.model.tensors);
  const EvaluateResult result = trainer.evaluate(split_of(options.split));
  Report report;
  report.add("run", options.config).add("checkpoint", options.checkpoint).add("split", options.split);
  report.add("loss", result.loss);
  if (options.json) {
    report.add("metrics", report_of(result.metrics));
  } else {
    for (const auto& [name, value] : result.metrics) report.add(name, value);
  }
  Report baselines;
  for (const auto& [method, metrics] : task->baselines()) {
    if (options.json) baselines.add(method, report_of(metrics));
    else for (const auto& [name, value] : metrics) baselines.add(method + " " + name, value);
  }
  if (!baselines.items().empty()) report.add("baselines", baselines);
  report.print(options.json);
  return 0;
}

}  // namespace unroll::cli
