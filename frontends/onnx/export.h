// SPDX-License-Identifier: Apache-2.0
// A network as an ONNX model: opset 17, free sizes stay free, parameters are initializers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "unroll/inference.h"
#include "unroll/stream.h"

namespace unroll::onnx {

struct ExportedModel {
  std::string bytes;        // a ModelProto
  std::vector<std::pair<std::string, std::string>> states;  // input and the output with its next value
};

// The bytes of an ONNX file. States are left out, and start from zero, unless `with_states`: then each is an input, and
// the output NAME.next is its value after the last step. `properties` become metadata of the model. Throws
// Error(input_file) when parameters are missing, unknown or of another shape, and Error(unsupported), with the op, on
// what has no ONNX form, and above 2 GiB.
ExportedModel export_model(const Inference& inference, const TensorMap& parameters, bool with_states,
                           const std::map<std::string, std::string>& properties = {});

// A stream as a network: x [T,B,I], or ids [T,B], and states -> y [T,B,O] and states.
Inference stream_inference(const StreamModel& stream);
// A recurrent stack alone: x [T,B,I], with `lengths` also lengths [B], and its states -> y [T,B,D*P] and states.
Inference stack_inference(const RecurrentModelOptions& options, std::int64_t inputs, bool lengths);

}  // namespace unroll::onnx
