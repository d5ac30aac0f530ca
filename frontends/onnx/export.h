// SPDX-License-Identifier: Apache-2.0
// A network as an ONNX model: opset 17, free sizes stay free, parameters are initializers.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "unroll/model/stream.h"
#include "unroll/support/vfs.h"
#include "unroll/tasks/inference.h"

namespace unroll::onnx {

// Weights outside of the model's file.
struct ExternalTensor {
  std::size_t offset;  // in the second file, a multiple of 4096
  std::shared_ptr<const Tensor> tensor;
};
struct ExportedModel {
  std::string bytes;        // a ModelProto
  std::vector<std::pair<std::string, std::string>> states;  // input and the output with its next value
  std::string location;                  // name of the second file, "lm.onnx.0123456789abcdef.data", or empty
  std::vector<ExternalTensor> external;  // in order of their offsets
};

// The bytes of an ONNX file. States are left out, and start from zero, unless `with_states`: then each is an input, and
// the output NAME.next is its value after the last step. `properties` become metadata of the model. With
// `external_data`, the name of the model's file, weights of 1 KiB and more go to a second file. Throws
// Error(input_file) when parameters are missing, unknown or of another shape, and Error(unsupported), with the op, on
// what has no ONNX form, and on a file above 2 GiB.
ExportedModel export_model(const Inference& inference, const TensorMap& parameters, bool with_states,
                           const std::map<std::string, std::string>& properties = {},
                           const std::string& external_data = {});

// Writes the model to `path`, and its weights beside it. At each moment `path` is the old or the new model, with its
// weights: those of the new one are written before it under a name of their own, those of older ones (files
// "NAME.<16 digits>.data") are removed after it. Throws Error(storage).
void write_model_files(Vfs& vfs, const std::string& path, const ExportedModel& model);

// A stream as a network: x [T,B,I], or ids [T,B], and states -> y [T,B,O] and states.
Inference stream_inference(const StreamModel& stream);
// A recurrent stack alone: x [T,B,I], with `lengths` also lengths [B], and its states -> y [T,B,D*P] and states.
Inference stack_inference(const RecurrentModelOptions& options, std::int64_t inputs, bool lengths);

}  // namespace unroll::onnx
