// SPDX-License-Identifier: Apache-2.0
// A PyTorch checkpoint as a model of ours. Parameters keep their names, without the prefix.
#pragma once

#include <string>
#include <vector>

#include "frontends/checkpoint/checkpoint.h"
#include "unroll/sequential.h"
#include "unroll/tensor.h"

namespace unroll::checkpoint {

struct ImportOptions {
  std::string prefix;               // of the tensors to read; others are unused
  std::vector<std::string> layers;  // see modules.h
  std::string nonlinearity = "tanh";  // of nn.RNN, which does not store it
  bool ignore_unused = false;
};

struct MappedTensor {
  std::string from, to;  // names in the file and here
  std::string stored;    // type in the file
};
struct ImportedModel {
  Sequential model;
  TensorMap parameters;                // f32, by our names
  std::vector<MappedTensor> mapping;   // in the order of the layers
  std::vector<MappedTensor> unused;    // `to` is empty
};

// Every parameter of the model is found in the file, with its shape. Throws Error(input_file), which names the missing
// and misshapen ones, and the tensors behind the prefix that are not used, unless they are to be ignored.
ImportedModel import_model(Checkpoint checkpoint, const ImportOptions& options, const std::string& file);

}  // namespace unroll::checkpoint
