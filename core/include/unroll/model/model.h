// SPDX-License-Identifier: Apache-2.0
// Model building: layers append nodes and create parameters in a Scope. A Cell defines a custom recurrent cell.
// Shapes: T time, B batch, I input, H hidden, P output of a recurrent layer, L layers, D directions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "unroll/model/cell.h"
#include "unroll/model/layers.h"
#include "unroll/support/option.h"

namespace unroll {

// Options of stacked recurrent layers: of the built-in ones, of a cell in text and of a cell of your own. The rows of
// k_options have their ranges and config keys. The op has its own options (RecurrentOptions in ir/recurrent.h), which
// are the attributes of its node: they know no parameters, initialization or cells.
struct RecurrentModelOptions {
  std::string cell = "lstm";          // rnn, gru, lstm, one of cell_names(), or one of `cells`; cell_layer ignores it
  std::int64_t hidden = 128;
  int layers = 1;
  bool bidirectional = false;
  bool bias = true;
  double dropout = 0;                 // between layers; tasks also apply it before and after the stack
  bool variational = false;           // dropout and recurrent_dropout with DropoutMask::sequence, else step
  // Recurrent dropout rate of rnn, gru and lstm, in training. d is dropout with this rate.
  //   mask step      gru, lstm: on the candidate state, h' = (1 - z) d(n) + z h, c' = f c + i d(g), with a new mask in
  //                  every step (Semeniuta et al. 2016)
  //   mask sequence  on the previous hidden state in every product, W_hh d(h), with one mask for all steps (Gal &
  //                  Ghahramani 2016, eq. 7)
  double recurrent_dropout = 0;
  // DropConnect on weight_hh of rnn, gru and lstm, in training: one mask for all steps and rows (Merity et al. 2017,
  // "Regularizing and Optimizing LSTM Language Models", section 2).
  double weight_drop = 0;
  double activation_penalty = 0;      // see activation_penalties
  double temporal_penalty = 0;
  SkipConnection skip = SkipConnection::none;
  std::int64_t projection = 0;        // lstm: width P of the output; 0: none
  Nonlinearity nonlinearity = Nonlinearity::tanh;
  bool reset_after = true;            // gru, see RecurrentOptions
  bool peephole = false;              // lstm
  RecurrentInit init = RecurrentInit::pytorch;
  double forget_bias = 0;             // lstm: added to the forget gate's block of bias_ih
  // Layers before the recurrent ones: convolutions over time, pooling and activations, such as "conv(64, kernel=5)",
  // "relu", "max_pool(2)". docs/config.md has their arguments.
  std::vector<std::string> front = {};
  std::vector<TextCell> cells = {};   // override built-in cells of the same name, except rnn, gru, lstm

  DropoutMask mask() const { return variational ? DropoutMask::sequence : DropoutMask::step; }
  RecurrentModelOptions without_penalties() const {
    RecurrentModelOptions options = *this;
    options.activation_penalty = options.temporal_penalty = 0;
    return options;
  }
};
template <>
inline constexpr auto k_options<RecurrentModelOptions> = std::array{
    option<&RecurrentModelOptions::cell>(
        {"model.cell", any_value,
         "rnn, gru, lstm, another built-in cell (see `unroll doctor`), or the NAME of a table [cells.NAME]"}),
    option<&RecurrentModelOptions::front>(
        {"model.front", any_value,
         "layers before the recurrent ones, over time: conv(CHANNELS, kernel=K, stride=1, dilation=1, groups=1, "
         "padding=causal|same, bias=true), max_pool(K), average_pool(K), layer_norm, dropout(RATE), relu, gelu, silu, "
         "tanh, sigmoid, glu"}),
    option<&RecurrentModelOptions::hidden>({"model.hidden", between(1, 1e6), "width H of the state"}),
    option<&RecurrentModelOptions::layers>({"model.layers", between(1, 64), "number of stacked layers L"}),
    option<&RecurrentModelOptions::skip>(
        {"model.stack", one_of(k_enum_words<SkipConnection>),
         "skip connections between layers of equal width: none, residual, or highway"},
        "model.layers > 1"),
    option<&RecurrentModelOptions::bidirectional>(
        {"model.bidirectional", any_value, "add a second direction that reads the sequence in reverse"}),
    option<&RecurrentModelOptions::projection>(
        {"model.projection", between(0, 1e6), "lstm: width P of the projected output; 0: no projection"}),
    option<&RecurrentModelOptions::nonlinearity>(
        {"model.nonlinearity", one_of(k_enum_words<Nonlinearity>), "rnn: activation function of the state"}),
    option<&RecurrentModelOptions::bias>({"model.bias", any_value, "rnn, gru, lstm: use bias_ih and bias_hh"}),
    option<&RecurrentModelOptions::reset_after>(
        {"model.reset_after", any_value,
         "gru: apply the reset gate after the recurrent product, as in PyTorch and cuDNN"}),
    option<&RecurrentModelOptions::peephole>(
        {"model.peephole", any_value, "lstm: peephole connections from the cell state to the gates"}),
    option<&RecurrentModelOptions::dropout>(
        {"model.dropout", between(0, 0.99),
         "dropout between layers and before the output layer; label, translate, summarize: also on the embedding",
         AtResume::free, Affects::training}),
    option<&RecurrentModelOptions::variational>(
        {"model.variational", any_value, "variational dropout: one mask for all steps of a sequence", AtResume::free,
         Affects::training},
        "model.dropout > 0 or model.recurrent_dropout > 0"),
    option<&RecurrentModelOptions::recurrent_dropout>(
        {"model.recurrent_dropout", between(0, 0.99),
         "rnn, gru, lstm: recurrent dropout on the candidate state (gru, lstm); variational: on the previous hidden "
         "state", AtResume::free, Affects::training}),
    option<&RecurrentModelOptions::weight_drop>(
        {"model.weight_drop", between(0, 0.99), "rnn, gru, lstm: DropConnect on weight_hh, one mask per update",
         AtResume::free, Affects::training}),
    option<&RecurrentModelOptions::activation_penalty>(
        {"model.activation_penalty", between(0, 1e3),
         "AR: penalty on the mean square of the layer outputs, in training; typical 2", AtResume::free,
         Affects::training}),
    option<&RecurrentModelOptions::temporal_penalty>(
        {"model.temporal_penalty", between(0, 1e3),
         "TAR: penalty on the mean square of the change of the layer outputs between steps, in training; typical 1",
         AtResume::free, Affects::training}),
    option<&RecurrentModelOptions::init>(
        {"model.init", one_of(k_enum_words<RecurrentInit>), "initialization of the recurrent layers", AtResume::fixed,
         Affects::training}),
    option<&RecurrentModelOptions::forget_bias>(
        {"model.forget_bias", between(-10, 10), "lstm: added to the initial bias of the forget gate", AtResume::fixed,
         Affects::training}),
};
struct CellLayerResult {
  Value y;                    // [T, B, D*P]
  std::vector<Value> states;  // final states, each [L*D, B, size]
  std::vector<Value> outputs = {};  // CellStep::outputs, each [T,...]
};
// Stacked layers of options.cell on x [T,B,I]. `initial`: one [L*D,B,size] per shape of recurrent_state_shapes, or
// empty for zeros; an lstm has two states, h and c. lengths i32 [B]. reset b8 [T,B]: where true, the row's states are
// set to zero before the step; not supported with lengths or two directions. Parameters of rnn, gru and lstm:
// "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_hr_l0", and "..._reverse". With options.front,
// parameters "front.0.weight" and so on; strides make y shorter. In one direction, the last inputs of causal
// convolutions and of Step::window are further states, [steps,B,width], after those of the cell. Throws Error(usage) on
// an unknown cell, with a list of the known ones, and on options the cell does not support.
UNROLL_API CellLayerResult recurrent_model(Scope scope, Value x, const RecurrentModelOptions& options,
                                           ValueList initial = {}, Value lengths = {}, Value reset = {});
// The same of a cell of your own. Parameter names end in _l0, _l1_reverse, ...
UNROLL_API CellLayerResult cell_layer(Scope scope, const CellFactory& cell, Value x,
                                      const RecurrentModelOptions& options, ValueList initial = {}, Value lengths = {},
                                      Value reset = {});
// The cell of such a stack, for Step::run and cell_layer. Errors as above.
UNROLL_API Cell recurrent_cell(const RecurrentModelOptions& options);
// `inputs` is the width I of x; only models with options.front or Step::window need it.
UNROLL_API std::vector<Shape> recurrent_state_shapes(const RecurrentModelOptions& options, std::int64_t batch,
                                                     std::int64_t inputs = 0);
// "h" and "c" as in PyTorch, then "s2_", "s3_", ... The states of a text cell keep their own names. Then "front0_" and
// "window0_" and so on.
UNROLL_API std::vector<std::string> recurrent_state_names(const RecurrentModelOptions& options);

// Built-in cells other than rnn, gru and lstm, by name ("lnlstm", "mgu", ...). Null when unknown.
UNROLL_API const CellFactory* find_cell(std::string_view name);
UNROLL_API std::vector<std::string> cell_names();  // the names that find_cell knows
UNROLL_API std::vector<std::string> built_in_cell_names();  // the composite ops: rnn, gru, lstm

}  // namespace unroll
