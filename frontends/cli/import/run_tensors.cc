// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/import/run_tensors.h"

#include <fmt/format.h>

#include <cmath>

#include "core/ir/input_range.h"
#include "frontends/config/run/job.h"
#include "frontends/config/run/run_folder.h"
#include "unroll/io/safetensors.h"
#include "unroll/support/error.h"
#include "unroll/tasks/inference.h"

namespace unroll::cli {
namespace {

std::int64_t count_not_finite(const Tensor& tensor) {
  std::int64_t n = 0;
  if (tensor.all_finite()) return 0;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) n += !std::isfinite(tensor.at(i));
  return n;
}

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

int run_model(const TensorArguments& options) {
  Activity busy("running the model");
  const RunFolder run = open_run(options);
  const Inference inference = task_inference(run.model.metadata);
  TensorMap inputs = load_safetensors(options.input).tensors;
  TensorMap states = zero_states(inference, inputs);
  inputs.merge(states);
  check_inputs(inference.network, inputs, options.input);
  const ExplainedBackend backend(options.explain, open_backend(run.config, options.explain));
  return finish_run(options, Model(*backend, inference.network, run.model.tensors).run(inputs), backend, busy);
}

int finish_run(const TensorArguments& options, TensorMap tensors, const ExplainedBackend& backend, Activity& busy,
               const Report& more) {
  TensorFile file;
  file.tensors = std::move(tensors);
  save_safetensors(options.output, file);
  busy.finish();
  Report report, types, not_finite;
  report.add("output", options.output).add("backend", backend->describe().name);
  for (const auto& [name, item] : more.items()) report.add(name, item);
  for (const auto& [name, tensor] : file.tensors) {
    types.add(name, tensor.type().text());
    const std::int64_t n = count_not_finite(tensor);
    if (n == 0) continue;
    not_finite.add(name, n);
    print_line(fmt::format("unroll: {} of {} elements of {} are not finite", n, tensor.elements(), name));
  }
  report.add("tensors", types);
  if (!not_finite.items().empty()) report.add("not_finite", not_finite);
  if (!options.json)
    print_progress(fmt::format("unroll: wrote {} tensors to {}", file.tensors.size(), options.output));
  backend.print(options.json ? std::move(report) : Report(), options.json);
  return 0;
}

}  // namespace unroll::cli
