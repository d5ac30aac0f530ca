// SPDX-License-Identifier: Apache-2.0
// Imports a PyTorch checkpoint as an unroll model. Parameters keep their names, without the prefix.
#pragma once

#include <string>
#include <vector>

#include "frontends/checkpoint/read/checkpoint.h"
#include "unroll/tasks/sequential.h"

namespace unroll::checkpoint {

struct ImportOptions {
  // Only tensors whose names begin so are read; others are unused. Empty: those behind the dicts and wrappers that
  // training programs put around a model, such as state_dict, model and module.
  std::string prefix;
  std::vector<std::string> renames;  // "FROM=TO": each FROM in a name becomes TO, in this order, before the prefix
  std::vector<std::string> layers;  // see modules.h
  std::string nonlinearity = "tanh";  // of nn.RNN, which does not store it
  bool ignore_unused = false;
};

// Every parameter of the model must be in the file with its shape. Throws Error(input_file), which lists missing
// parameters, wrong shapes, and unused tensors with the prefix, unless they are to be ignored.
ImportedModel import_model(Checkpoint checkpoint, const ImportOptions& options, const std::string& file);

}  // namespace unroll::checkpoint
