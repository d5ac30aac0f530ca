// SPDX-License-Identifier: Apache-2.0
// `unroll import`: reads a model of another program, compares it with a sample of that program, and writes a folder
// that the other commands open as a run.
#pragma once

#include <string>
#include <vector>

#include "frontends/checkpoint/import.h"
#include "frontends/cli/import/stream_onnx.h"
#include "frontends/cli/terminal/report.h"

namespace unroll::cli {

struct ImportArguments : OnnxStreamArguments {
  std::string file;
  std::string out;
  checkpoint::ImportOptions names;
  std::string sample;  // safetensors file with input and output
  bool batch_first = false;
  bool json = false;
};

// Imports any supported file as a folder. The report gets the layers, the mapping of names, and the comparison. Throws
// Error(differ), and writes nothing, if outputs differ.
Report import_model(const ImportArguments& options);

}  // namespace unroll::cli
