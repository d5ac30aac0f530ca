// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/deploy/run_model.h"

#include <fmt/format.h>

#include "frontends/cli/config/job.h"
#include "frontends/cli/plan/explain.h"
#include "frontends/cli/run/run_folder.h"
#include "frontends/cli/terminal/activity.h"
#include "frontends/cli/terminal/report.h"
#include "unroll/error.h"
#include "unroll/trained/inference.h"
#include "unroll/safetensors.h"

namespace unroll::cli {

int run_model(const RunArguments& arguments, const TensorFiles& options) {
  Activity busy("running the model");
  const RunFolder run = open_run(arguments);
  const Inference inference = task_inference(run.model.metadata);
  TensorMap inputs = load_safetensors(options.input).tensors;
  TensorMap states = zero_states(inference, inputs);
  inputs.merge(states);
  ExplainingBackend* explaining = nullptr;
  const auto backend = explained_if(options.explain, open_backend(run.config, options.explain), explaining);
  TensorFile file;
  file.tensors = Model(*backend, inference.network, run.model.tensors).run(inputs);
  save_safetensors(options.output, file);
  busy.finish();
  Report report, tensors;
  for (const auto& [name, tensor] : file.tensors) tensors.add(name, tensor.type().text());
  report.add("output", options.output).add("backend", backend->describe().name).add("tensors", tensors);
  if (options.json) {
    print_explained(report, explaining, true);
  } else {
    fmt::print(stderr, "unroll: wrote {} tensors to {}\n", file.tensors.size(), options.output);
    if (explaining) print_explained({}, explaining, false);
  }
  return 0;
}

}  // namespace unroll::cli
