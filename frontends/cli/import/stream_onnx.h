// SPDX-License-Identifier: Apache-2.0
// `unroll stream FILE.onnx`. A build without protozero uses no_onnx.cc, which reports the missing dependency.
#pragma once

#include <string>
#include <vector>

#include "frontends/cli/terminal/report.h"
#include "unroll/model/stream.h"

namespace unroll::cli {

struct OnnxStreamArguments {
  std::string time, output;
  std::vector<std::string> sizes, values;  // NAME=NUMBER
  std::int64_t delay = 0;
};
// The stream of a graph of whole sequences. `decided` receives what was chosen for the user.
StreamModel onnx_stream(const std::string& file, const OnnxStreamArguments& options, Report& decided);

}  // namespace unroll::cli
