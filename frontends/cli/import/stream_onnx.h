// SPDX-License-Identifier: Apache-2.0
// `unroll stream FILE.onnx`. A build without protozero uses no_onnx.cc, which reports the missing dependency.
#pragma once

#include <string>
#include <vector>

#include "frontends/cli/options/command_options.h"
#include "frontends/cli/terminal/report.h"
#include "frontends/onnx/stream.h"
#include "unroll/model/stream.h"

namespace unroll::cli {

// --time, --size, --value, --tensor, --delay
struct OnnxStreamArguments {
  std::string time, output;
  std::vector<std::string> sizes, values;  // NAME=NUMBER
  std::int64_t delay = 0;
  bool any() const { return !time.empty() || !output.empty() || !sizes.empty() || !values.empty() || delay > 0; }
};
void add_onnx_stream(CLI::App& app, OnnxStreamArguments& o);
onnx::StreamChoices stream_choices(const OnnxStreamArguments& options);
// Adds the decisions made for the user.
void add_decisions(const onnx::ModelStream& found, Report& report);
// The stream of a graph of whole sequences. `decided` receives what was chosen for the user.
StreamModel onnx_stream(const std::string& file, const OnnxStreamArguments& options, Report& decided);

}  // namespace unroll::cli
