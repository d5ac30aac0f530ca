// SPDX-License-Identifier: Apache-2.0
// `unroll export --check` of an ONNX file that does not hold the model. tests/cli/check_export.py has the other
// formats, and other programs that run the file.
#include <doctest/doctest.h>

#include <fstream>

#include "frontends/cli/export/export_model.h"
#include "tests/support/temp_folder.h"
#include "unroll/support/tensor.h"

using namespace unroll;
using namespace unroll::cli;

namespace {

// A GRU in a folder of its own, with an interpreter that has no ONNX Runtime.
struct Exported {
  TempFolder folder;
  ExportArguments options;
  Report written;

  Exported() {
    options.config = folder / "gru.toml";
    options.out = folder / "gru.onnx";
    options.python = "false";
    std::ofstream(options.config) << "[model]\ncell = \"gru\"\ninput = 3\nhidden = 5\n";
    CHECK(export_onnx(options, written) == "");
  }

  std::string check(const ExportJob& job, Report& report) const {
    return check_onnx(options, job, options.out, report);
  }
};

TEST_CASE("the check finds nothing in the file of the model itself") {
  const Exported exported;
  Report report;
  CHECK(exported.check(export_job(exported.options), report) == "");
}

TEST_CASE("the check finds a single changed weight") {
  const Exported exported;
  ExportJob job = export_job(exported.options);
  Tensor& weight = job.parameters.at("weight_hh_l0");
  weight.set(7, weight.at(7) + 0.01);
  Report report;
  CHECK(exported.check(job, report).find("unroll computes something else") == 0);
}

TEST_CASE("the check finds an output that the file does not have") {
  const Exported exported;
  ExportJob job = export_job(exported.options);
  const Network network = job.inference.network;
  job.inference.network = [network](Scope& scope, const Inputs& inputs) {
    TaskGraph graph = network(scope, inputs);
    graph.outputs.emplace_back("more", graph.outputs[0].second);
    return graph;
  };
  Report report;
  CHECK(exported.check(job, report).find("unroll computes something else: relative difference inf") == 0);
}

}  // namespace
