// SPDX-License-Identifier: Apache-2.0
// `unroll import FILE.onnx`. A build without protozero has no_onnx.cc in its place, which says what is missing.
#pragma once

#include <optional>
#include <string>

#include "frontends/cli/terminal/report.h"
#include "unroll/tasks/sequential.h"

namespace unroll::cli {

struct OnnxImport {
  ImportedModel imported;
  ReportList tensors;  // inputs and outputs of the file, and ours
  ReportList check;    // the file, as `unroll run` runs it, and the model at sizes of their own
  std::optional<Report> sample;
};
// The layers of the file. They are compared with the file on random inputs of two sizes, and with the tensors of the
// safetensors file `sample`, if there is one. Throws Error(unsupported) that names the node on whatever is no layer,
// and Error(differ) if outputs differ.
OnnxImport import_onnx(const std::string& file, const std::string& sample);

}  // namespace unroll::cli
