// SPDX-License-Identifier: Apache-2.0
// `unroll run FILE.onnx`. A build without protozero uses no_onnx.cc, which reports the missing dependency.
#pragma once

#include <cstdint>
#include <string>

#include "frontends/cli/import/run_output.h"

namespace unroll::cli {

// Returns the exit code.
int run_onnx(const std::string& file, const TensorFiles& options, const std::string& backend, std::int64_t threads);

}  // namespace unroll::cli
