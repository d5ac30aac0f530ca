// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "unroll/model/stream.h"
#include "unroll/tasks/inference.h"
#include "unroll/tasks/sequential.h"

namespace unroll {

// Throw Error(input_file) on incomplete metadata, and Error(unsupported) on a stream of a model that is not causal.
Inference sequential_inference(const Metadata& metadata);
StreamModel sequential_stream(const Metadata& metadata);

}  // namespace unroll
