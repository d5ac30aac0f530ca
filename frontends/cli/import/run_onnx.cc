// SPDX-License-Identifier: Apache-2.0
// `unroll run FILE.onnx`: runs an ONNX model on tensors from a file. Tensor names are those of the model; symbolic
// dimensions take their sizes from the inputs.
#include "core/ir/input_range.h"
#include "frontends/cli/import/run_tensors.h"
#include "frontends/config/run/job.h"
#include "frontends/onnx/import.h"
#include "unroll/io/safetensors.h"
#include "unroll/passes/run.h"

namespace unroll::cli {

int run_onnx(const TensorArguments& options) {
  Activity busy("running the model");
  const onnx::Model model = onnx::load_model_file(options.config);
  const TensorMap input = load_safetensors(options.input).tensors;
  const onnx::ImportedGraph imported = onnx::import_graph(model, input);
  check_ranges(*imported.graph, input, ErrorKind::input_file, options.input);
  const ExplainedBackend backend(options.explain, open_backend(backend_or(options, "cpu"), options.threads.value_or(0),
                                                               options.explain));
  Report symbols;
  for (const auto& [name, size] : imported.symbols) symbols.add(name, size);
  return finish_run(options, evaluate(*imported.graph, *backend, input), backend, busy,
                    Report().add("opset", model.opset).add("dimensions", symbols));
}

}  // namespace unroll::cli
