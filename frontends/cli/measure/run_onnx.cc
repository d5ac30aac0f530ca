// SPDX-License-Identifier: Apache-2.0
// `unroll run FILE.onnx`: runs an ONNX model on tensors from a file. Tensor names are those of the model; symbolic
// dimensions take their sizes from the inputs.
#include <fmt/format.h>

#include "core/nn/index_limits.h"
#include "frontends/cli/config/job.h"
#include "frontends/cli/measure/run_onnx.h"
#include "frontends/cli/plan/explain.h"
#include "frontends/cli/terminal/activity.h"
#include "frontends/cli/terminal/report.h"
#include "frontends/onnx/import.h"
#include "unroll/error.h"
#include "unroll/run.h"
#include "unroll/safetensors.h"

namespace unroll::cli {

int run_onnx(const std::string& path, const TensorFiles& options, const std::string& backend_name,
             std::int64_t threads) {
  Activity busy("running the model");
  const onnx::Model model = onnx::load_model_file(path);
  const TensorMap input = load_safetensors(options.input).tensors;
  const onnx::ImportedGraph imported = onnx::import_graph(model, input);
  ExplainingBackend* explaining = nullptr;
  const auto backend =
      explained_if(options.explain, open_backend(backend_name, threads, options.explain), explaining);
  TensorFile file;
  check_indices(index_limits(*imported.graph), input);
  file.tensors = evaluate(*imported.graph, *backend, input);
  save_safetensors(options.output, file);
  busy.finish();
  if (options.json) {
    Report tensors, symbols;
    for (const auto& [name, tensor] : file.tensors) tensors.add(name, tensor.type().text());
    for (const auto& [name, size] : imported.symbols) symbols.add(name, size);
    Report report;
    report.add("output", options.output).add("backend", backend->describe().name).add("opset", model.opset);
    report.add("dimensions", symbols).add("tensors", tensors);
    print_explained(report, explaining, true);
  } else {
    fmt::print(stderr, "unroll: wrote {} tensors to {}\n", file.tensors.size(), options.output);
    if (explaining) print_explained({}, explaining, false);
  }
  return 0;
}

}  // namespace unroll::cli
