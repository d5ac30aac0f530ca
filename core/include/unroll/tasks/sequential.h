// SPDX-License-Identifier: Apache-2.0
// A sequential model without a task. Imported models use this form. Its metadata are stored with the parameters in one
// file, like those of a trained task, so inference.h, predict.h and stream.h read it. Shapes: T steps, B sequences.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unroll/model/model.h"
#include "unroll/support/export.h"
#include "unroll/support/tensor.h"
#include "unroll/tasks/shared.h"

namespace unroll {

struct SequentialLayer {
  //   embedding            ids [T,B] -> [T,B,size]: the first layer
  //   recurrent            [T,B,I] -> [T,B,D*P]: `model`
  //   linear               [...,I] -> [...,size]
  //   tanh, relu, sigmoid  elementwise
  //   softmax, log_softmax over the last axis
  //   last                 [T,B,I] -> [B,I]: the last step
  //   final                the last step of the forward and the first of the reverse direction: PyTorch's h_n
  //   mean, max            over the steps
  std::string kind;
  std::string name = {};     // of the parameters: "NAME.weight"; empty: "weight"
  std::int64_t size = 0;     // embedding: width; linear: outputs
  std::int64_t tokens = 0;   // embedding
  bool bias = true;          // linear
  RecurrentModelOptions model = {};
};

struct Sequential {
  std::int64_t inputs = 0;  // I of x [T,B,I]; not read if the first layer is an embedding
  std::vector<SequentialLayer> layers = {};
};

// Returns metadata with the task "sequential". task_inference: ids [T,B] or x [T,B,I] -> y [T,B,O] or, after a pooling,
// [B,O]. A causal model also has states "state.0", ... task_stream: y [T,B,O]; skips `last` and `final`, as each step
// is the last one so far. Throws Error(usage) on an unknown kind and on layers that cannot follow each other.
UNROLL_API Metadata sequential_metadata(const Sequential& model);

// A tensor that an importer maps from the model of another framework.
struct MappedTensor {
  std::string from, to;  // names in the file and in unroll
  std::string stored;    // type in the file: "bf16[16,3]"
};
struct ImportedModel {
  Sequential model;
  TensorMap parameters;               // f32, by unroll names
  std::vector<MappedTensor> mapping;  // in the order of the layers
  std::vector<MappedTensor> unused;   // `to` is empty
};

}  // namespace unroll
