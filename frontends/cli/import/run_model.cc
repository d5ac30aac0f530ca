// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/import/run_model.h"

#include "core/ir/input_range.h"
#include "frontends/cli/explain/explain.h"
#include "frontends/cli/import/run_output.h"
#include "frontends/cli/terminal/activity.h"
#include "frontends/config/run/job.h"
#include "frontends/config/run/run_folder.h"
#include "unroll/io/safetensors.h"
#include "unroll/support/error.h"
#include "unroll/tasks/inference.h"

namespace unroll::cli {

namespace {

// Model::run checks the same, but without the name of the file.
void check_inputs(const Network& network, const TensorMap& inputs, const std::string& file) {
  Graph graph;
  Scope scope(graph, /*training=*/false);
  std::map<std::string, Value, std::less<>> values;
  for (const auto& [name, tensor] : inputs) values.emplace(name, graph.input(name, tensor.type()));
  network(scope, Inputs(std::move(values)));
  check_ranges(graph, inputs, ErrorKind::input_file, file);
}

}  // namespace

int run_model(const RunArguments& arguments, const TensorFiles& options) {
  Activity busy("running the model");
  const RunFolder run = open_run(arguments);
  const Inference inference = task_inference(run.model.metadata);
  TensorMap inputs = load_safetensors(options.input).tensors;
  TensorMap states = zero_states(inference, inputs);
  inputs.merge(states);
  check_inputs(inference.network, inputs, options.input);
  ExplainingBackend* explaining = nullptr;
  const auto backend = explained_if(options.explain, open_backend(run.config, options.explain), explaining);
  TensorFile file;
  file.tensors = Model(*backend, inference.network, run.model.tensors).run(inputs);
  save_safetensors(options.output, file);
  busy.finish();
  Report report;
  report.add("output", options.output).add("backend", backend->describe().name);
  print_run(options, file.tensors, report, explaining);
  return 0;
}

}  // namespace unroll::cli
