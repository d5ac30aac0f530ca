// SPDX-License-Identifier: Apache-2.0
// Replaces the commands on ONNX models in a build without protozero.
#include "frontends/cli/export/export_model.h"
#include "frontends/cli/import/import_graph.h"
#include "frontends/cli/import/import_onnx.h"
#include "frontends/cli/import/run_tensors.h"
#include "frontends/cli/import/stream_onnx.h"
#include "unroll/support/error.h"

namespace unroll::cli {

int run_onnx(const TensorArguments& options) {
  throw Error(ErrorKind::unsupported, options.config, "this build does not read ONNX models",
              "Install libprotozero-dev and build unroll again");
}

OnnxImport import_onnx(const std::string& file, const std::string&) {
  throw Error(ErrorKind::unsupported, file, "this build does not read ONNX models",
              "Install libprotozero-dev and build unroll again");
}

GraphImport import_onnx_graph(const std::string& file, const OnnxStreamArguments&, Report&) {
  throw Error(ErrorKind::unsupported, file, "this build does not read ONNX models",
              "Install libprotozero-dev and build unroll again");
}

StreamModel onnx_stream(const std::string& file, const OnnxStreamArguments&, Report&) {
  throw Error(ErrorKind::unsupported, file, "this build does not read ONNX models",
              "Install libprotozero-dev and build unroll again");
}

std::string export_onnx(const ExportArguments& options, Report&) {
  throw Error(ErrorKind::unsupported, options.out, "this build does not write ONNX models",
              "Install libprotozero-dev and build unroll again");
}

}  // namespace unroll::cli
