// SPDX-License-Identifier: Apache-2.0
// A PyTorch checkpoint as a model of ours. Parameters keep their names, without the prefix.
#pragma once

#include <string>
#include <vector>

#include "frontends/checkpoint/checkpoint.h"
#include "unroll/tasks/sequential.h"

namespace unroll::checkpoint {

struct ImportOptions {
  std::string prefix;               // of the tensors to read; others are unused
  std::vector<std::string> layers;  // see modules.h
  std::string nonlinearity = "tanh";  // of nn.RNN, which does not store it
  bool ignore_unused = false;
};

// Every parameter of the model is found in the file, with its shape. Throws Error(input_file), which names the missing
// and misshapen ones, and the tensors behind the prefix that are not used, unless they are to be ignored.
ImportedModel import_model(Checkpoint checkpoint, const ImportOptions& options, const std::string& file);

}  // namespace unroll::checkpoint
