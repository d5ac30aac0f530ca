// SPDX-License-Identifier: Apache-2.0
// Exports a network as an ONNX model: opset 17, free sizes stay free, parameters are initializers.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "unroll/model/stream.h"
#include "unroll/support/vfs.h"
#include "unroll/tasks/inference.h"

namespace unroll::onnx {

// Weights outside of the model file.
struct ExternalTensor {
  std::size_t offset;  // in the second file, a multiple of 4096
  std::shared_ptr<const Tensor> tensor;
};
struct ExportedModel {
  std::string bytes;        // a ModelProto
  std::vector<std::pair<std::string, std::string>> states;  // each input and the output with its next value
  std::string location;                  // name of the second file, "lm.onnx.0123456789abcdef.data", or empty
  std::vector<ExternalTensor> external;  // in order of their offsets
};

// Returns s such that the network has steps left for 2 s steps and more: 1, unless it has strides.
std::int64_t shortest_steps(const Inference& inference);

// Returns the bytes of an ONNX file. States are omitted, and start from zero, unless `with_states`: then each is an
// input, and the output NAME.next is its value after the last step. `properties` become metadata of the model. With
// `external_data`, the name of the model file, weights of 1 KiB and more go to a second file. Throws Error(input_file)
// for missing or unknown parameters or wrong shapes. Throws Error(unsupported), with the op, if ONNX cannot represent
// it, and for a file above 2 GiB.
ExportedModel export_model(const Inference& inference, const TensorMap& parameters, bool with_states,
                           const std::map<std::string, std::string>& properties = {},
                           const std::string& external_data = {});

// Writes the model to `path`, and its weights beside it. At any time `path` is the complete old or new model. The new
// weights are written first, under a unique name; old weight files ("NAME.<16 digits>.data") are removed last. Throws
// Error(storage).
void write_model_files(Vfs& vfs, const std::string& path, const ExportedModel& model);

// Returns a stream as a network: x [T,B,I], or ids [T,B], and states -> y [T,B,O] and states.
Inference stream_inference(const StreamModel& stream);
// Returns a recurrent stack as a network: x [T,B,I], optional lengths [B], and its states -> y [T,B,D*P] and states.
Inference stack_inference(const RecurrentModelOptions& options, std::int64_t inputs, bool lengths);

}  // namespace unroll::onnx
