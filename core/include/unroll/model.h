// SPDX-License-Identifier: Apache-2.0
// Build models: layers append nodes and create parameters in a Scope. A Cell defines a custom recurrent cell.
// Shapes: T time, B batch, I input, H hidden, P output of a recurrent layer, L layers, D directions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unroll/model/cell.h"
#include "unroll/model/layers.h"

namespace unroll {

// Options of a stack of recurrent layers. The keys of [model] in a config have the same names.
struct RecurrentModelOptions {
  std::string cell = "lstm";          // rnn, gru, lstm, one of cell_names(), or one of `cells`
  std::int64_t hidden = 128;
  int layers = 1;
  bool bidirectional = false;
  bool bias = true;                   // rnn, gru, lstm
  double dropout = 0;                 // between layers; tasks also apply it before and after the stack
  bool variational = false;           // one dropout mask for all steps of a sequence, see DropoutMask
  double recurrent_dropout = 0;       // rnn (variational), gru, lstm; see RecurrentLayerOptions
  double weight_drop = 0;             // rnn, gru, lstm
  double activation_penalty = 0;      // see activation_penalties
  double temporal_penalty = 0;
  std::string stack = "plain";        // skip connections: plain, residual, highway
  std::int64_t projection = 0;        // lstm: size of the projected output; 0: none
  std::string nonlinearity = "tanh";  // rnn: tanh, relu
  bool reset_after = true;            // gru
  bool peephole = false;              // lstm
  std::string init = "pytorch";       // pytorch, xavier, orthogonal
  double forget_bias = 0;             // lstm
  std::vector<TextCell> cells = {};   // override built-in cells of the same name, except rnn, gru, lstm

  DropoutMask mask() const { return variational ? DropoutMask::sequence : DropoutMask::step; }
};
// Builds the stack. `initial`: one value per shape of recurrent_state_shapes, or empty for zeros. An lstm has two
// states, h and c. Throws Error(usage) on an unknown cell, with a list of the known ones, and on options the cell does
// not support.
UNROLL_API CellLayerResult recurrent_model(Scope scope, Value x, const RecurrentModelOptions& options,
                                           std::span<const Value> initial = {}, Value lengths = {}, Value reset = {});
// The cell of such a stack, for Step::run and cell_layer. Errors as above.
UNROLL_API Cell recurrent_cell(const RecurrentModelOptions& options);
UNROLL_API std::vector<Shape> recurrent_state_shapes(const RecurrentModelOptions& options, std::int64_t batch);
// "h" and "c" as in PyTorch, then "s2_", "s3_", ... The states of a text cell keep their own names.
UNROLL_API std::vector<std::string> recurrent_state_names(const RecurrentModelOptions& options);

// Built-in cells other than rnn, gru and lstm, by name ("lnlstm", "mgu", ...). Null when unknown.
UNROLL_API const CellFactory* find_cell(std::string_view name);
UNROLL_API std::vector<std::string> cell_names();  // the names that find_cell knows
UNROLL_API std::vector<std::string> built_in_cell_names();  // the composite ops: rnn, gru, lstm

}  // namespace unroll
