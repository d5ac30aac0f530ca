// SPDX-License-Identifier: Apache-2.0
// `unroll run FILE.onnx`: runs an ONNX model on tensors from a file. Tensor names are those of the model; symbolic
// dimensions take their sizes from the inputs.
#include "core/ir/input_range.h"
#include "frontends/cli/explain/explain.h"
#include "frontends/cli/import/run_onnx.h"
#include "frontends/cli/import/run_output.h"
#include "frontends/cli/terminal/activity.h"
#include "frontends/config/run/job.h"
#include "frontends/onnx/import.h"
#include "unroll/io/safetensors.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

namespace unroll::cli {

int run_onnx(const std::string& path, const TensorFiles& options, const std::string& backend_name,
             std::int64_t threads) {
  Activity busy("running the model");
  const onnx::Model model = onnx::load_model_file(path);
  const TensorMap input = load_safetensors(options.input).tensors;
  const onnx::ImportedGraph imported = onnx::import_graph(model, input);
  check_ranges(*imported.graph, input, ErrorKind::input_file, options.input);
  ExplainingBackend* explaining = nullptr;
  const auto backend =
      explained_if(options.explain, open_backend(backend_name, threads, options.explain), explaining);
  TensorFile file;
  file.tensors = evaluate(*imported.graph, *backend, input);
  save_safetensors(options.output, file);
  busy.finish();
  Report report, symbols;
  for (const auto& [name, size] : imported.symbols) symbols.add(name, size);
  report.add("output", options.output).add("backend", backend->describe().name).add("opset", model.opset);
  print_run(options, file.tensors, report.add("dimensions", symbols), explaining);
  return 0;
}

}  // namespace unroll::cli
