// SPDX-License-Identifier: Apache-2.0
// What `unroll import` does: reads a model that another program wrote, compares it with a sample of that program, and
// writes a folder that the other commands open as a run.
#pragma once

#include <string>
#include <vector>

#include "frontends/checkpoint/import.h"
#include "frontends/cli/terminal/report.h"

namespace unroll::cli {

struct ImportArguments {
  std::string file;
  std::string out;
  checkpoint::ImportOptions names;
  std::string sample;  // safetensors file with input and output
  bool batch_first = false;
  bool json = false;
};

// The model of any file as a folder. The report gets layers, the mapping of the names, and what was compared. Throws
// Error(differ), and writes nothing, if outputs differ.
Report import_model(const ImportArguments& options);

}  // namespace unroll::cli
