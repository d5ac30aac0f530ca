// SPDX-License-Identifier: Apache-2.0
// `unroll import FILE.onnx`. A build without protozero uses no_onnx.cc, which reports the missing dependency.
#pragma once

#include <optional>
#include <string>

#include "frontends/cli/terminal/report.h"
#include "unroll/tasks/sequential.h"

namespace unroll::cli {

struct OnnxImport {
  ImportedModel imported;
  ReportList tensors;  // inputs and outputs of the file and of unroll's model
  ReportList check;    // results of the file, as `unroll run` runs it, and of the model at other sizes
  std::optional<Report> sample;
};
// Reads the layers of the file. Compares them with the file on random inputs of two sizes, and with the tensors of the
// safetensors file `sample`, if given. Throws Error(unsupported), which names the node, for an unsupported node, and
// Error(differ) if outputs differ.
OnnxImport import_onnx(const std::string& file, const std::string& sample);

}  // namespace unroll::cli
