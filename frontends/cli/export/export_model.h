// SPDX-License-Identifier: Apache-2.0
// What `unroll export` writes. A build without protozero has no_onnx.cc in the place of export_model.cc.
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
// Of a run, or of a config with the parameters of --weights, or drawn from its seed.
ExportJob export_job(const ExportArguments& options);

// Ids that a check reads are below this number, so that each is a row of every embedding: the rows of the smallest
// matrix among the parameters, 16 at most.
std::int64_t n_checked_ids(const TensorMap& parameters);

// Writes the file, and with --check compares it. Adds what it did to the report. Returns what differs, or nothing.
std::string export_onnx(const ExportArguments& options, Report& report);
std::string export_cxx(const ExportArguments& options, Report& report);

// Runs the ONNX model `file` by the importer and, when options.python can import it, by ONNX Runtime, on random inputs
// of three sizes.
std::string check_onnx(const ExportArguments& options, const ExportJob& job, const std::string& file, Report& report);

}  // namespace unroll::cli
