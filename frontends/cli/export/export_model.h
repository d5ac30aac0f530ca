// SPDX-License-Identifier: Apache-2.0
// Export formats of `unroll export`. A build without protozero uses no_onnx.cc instead of export_model.cc.
#pragma once

#include <string>

#include "frontends/cli/options/command_options.h"
#include "frontends/cli/terminal/report.h"
#include "unroll/tasks/inference.h"

namespace unroll::cli {

struct ExportArguments : RunArguments {
  std::string format = "onnx";
  std::string out;
  std::string python = "python3";
  std::string name = "Model";  // of the class, in C++
  std::int64_t lanes = 1;
  std::string weights_dtype = "f32";
  bool stream = false;
  bool external_data = false;
  bool check = false;
  bool json = false;
};

struct ExportJob {
  Inference inference;
  TensorMap parameters;
  Metadata metadata;  // of the checkpoint
};
// Takes a run, or a config with the parameters of --weights or drawn from its seed.
ExportJob export_job(const ExportArguments& options);

// Upper bound of the ids that a check reads, so that each is a row of every embedding: the rows of the smallest
// parameter matrix, 16 at most.
std::int64_t n_checked_ids(const TensorMap& parameters);

// Writes the file, and with --check compares it. Adds results to the report. Returns the difference, or "".
std::string export_onnx(const ExportArguments& options, Report& report);
std::string export_cxx(const ExportArguments& options, Report& report);

// Runs the ONNX model `file` with the importer and, if options.python can import it, with ONNX Runtime, on random
// inputs of three sizes.
std::string check_onnx(const ExportArguments& options, const ExportJob& job, const std::string& file, Report& report);

}  // namespace unroll::cli
