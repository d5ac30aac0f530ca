// SPDX-License-Identifier: Apache-2.0
// Finds the modules that the names and shapes of a state dict describe: nn.RNN, nn.GRU, nn.LSTM and their cells,
// nn.Linear, nn.Embedding. A state dict lacks the data flow between modules; widths and --layers determine it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/checkpoint/read/checkpoint.h"
#include "unroll/tasks/sequential.h"

namespace unroll::checkpoint {

struct ModuleTensor {
  const NamedTensor* tensor;
  std::string own;  // parameter name within the module: "weight_ih_l0"
};
struct Module {
  std::string path;  // "encoder.rnn"; empty: the tensors have no prefix
  bool is_recurrent = false;
  std::vector<ModuleTensor> tensors;
  // With a bias it is linear; without one, a matrix [rows, columns] may also be an embedding.
  bool bias = false;
  std::int64_t rows = 0, columns = 0;
  RecurrentModelOptions model;  // for recurrent layers
  std::int64_t inputs = 0;      // of recurrent layers
  std::int64_t outputs() const;  // of recurrent and linear layers
  std::string text() const;      // "rnn (lstm, 4 -> 5)"
};

// Returns the modules in the order of their first tensors. Tensors of other modules are omitted. Throws
// Error(input_file), which names `file`, if shapes match no recurrent layer.
std::vector<Module> find_modules(const std::vector<const NamedTensor*>& tensors, std::string_view prefix,
                                 const std::string& nonlinearity, const std::string& file);

// Returns the modules as a sequential model: in the order of `layers`, else in the order of the file if widths match,
// else in the only order in which they match. An entry of `layers` is a path, "PATH=embedding", "PATH=linear", or the
// kind of a layer without parameters (unroll/tasks/sequential.h). Throws Error(usage | input_file) , which lists the
// modules, if the order is ambiguous.
Sequential in_a_row(const std::vector<Module>& modules, bool in_order, const std::vector<std::string>& layers,
                    const std::string& file);

}  // namespace unroll::checkpoint
