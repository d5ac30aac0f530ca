// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "unroll/trained/inference.h"
#include "unroll/trained/sequential.h"
#include "unroll/stream.h"

namespace unroll {

// Throw Error(input_file) on incomplete metadata, and Error(unsupported) on a stream of a model that reads the future.
Inference sequential_inference(const Metadata& metadata);
StreamModel sequential_stream(const Metadata& metadata);

}  // namespace unroll
