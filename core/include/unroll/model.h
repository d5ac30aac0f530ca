// SPDX-License-Identifier: Apache-2.0
// Build models: layers append nodes and create parameters in a Scope. A Cell defines a custom recurrent cell.
// Shapes: T time, B batch, I input, H hidden, P output of a recurrent layer, L layers, D directions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unroll/detail/option.h"
#include "unroll/graph.h"
#include "unroll/ops.h"
#include "unroll/scope.h"

namespace unroll {

// Layers. Parameters have PyTorch's names, layouts and default initialization.
// "weight" [O, I], "bias" [O]
UNROLL_API Value linear_layer(Scope scope, Value x, std::int64_t outputs, bool bias = true);
// "weight" [V, E]
UNROLL_API Value embedding_layer(Scope scope, Value ids, std::int64_t n_ids, std::int64_t width,
                                 Initializer start = Initializer::normal(1));
// Output layer with the transposed embedding weight: logits y E^T + b [...,V]. E [V,E] is the weight of the embedding
// layer of scope `embedding`; its width must equal that of y (Press & Wolf 2017, section 3; Inan et al. 2017, section
// 3.2). "bias" [V] starts at zero. Initialize the embedding with U(-0.1, 0.1), because it is also the weight of a
// product.
UNROLL_API Value tied_linear_layer(Scope scope, Scope embedding, Value y, std::int64_t outputs);
inline constexpr double k_tied_embedding_start = 0.1;
// "weight", "bias" [width of x]
UNROLL_API Value layer_norm_layer(Scope scope, Value x, double epsilon = 1e-5);
// How dropout draws its mask for a sequence [T,B,...].
enum class DropoutMask : std::uint8_t {
  step,      // a new mask in every step
  sequence,  // one mask [B,...] for all steps (variational dropout, Gal & Ghahramani 2016, section 4)
};
// The identity when not training or when rate is 0. With DropoutMask::sequence, axis 0 of x is time.
UNROLL_API Value dropout_layer(Scope scope, Value x, double rate, DropoutMask mask = DropoutMask::step);
// Activation regularization of y [T,B,P], which must be zero at t >= lengths[b]. Adds two penalties to the scope:
//   activation * mean over t of y[t]^2             (AR)
//   temporal   * mean over t of (y[t+1] - y[t])^2  (TAR)
// Means are over existing steps, or pairs of them (Merity et al. 2017, "Revisiting Activation Regularization for
// Language RNNs"; "Regularizing and Optimizing LSTM Language Models", section 4.6). Adds nothing when not training or
// if both are 0.
UNROLL_API void activation_penalties(Scope scope, Value y, double activation, double temporal, Value lengths = {});

// Skip connections between recurrent layers of equal width. x is the input of a layer, H(x) its output.
enum class Stack : std::uint8_t {
  plain,     // no skip connection: H(x)
  residual,  // H(x) + x (He et al. 2016, eq. 1; between recurrent layers Wu et al. 2016, eq. 6)
  highway,   // H(x) * g + x * (1 - g), g = s(W x + b) (Srivastava et al. 2015, eq. 3). Parameters:
             // "highway.weight_l0" [W,W], "highway.bias_l0" [W] (initially -1)
};

// Linear-chain conditional random field over K labels (Lafferty et al. 2001). The score of labels y for a row of n
// steps is (Lample et al. 2016, section 2.2)
//   start[y_0] + sum over t of scores[t][y_t] + sum over t > 0 of transition[y_(t-1)][y_t] + end[y_(n-1)]
// Its probability is e^score / Z. The forward algorithm, as a scan, computes Z, the sum over all label sequences.
struct Crf {
  Value start, transition, end;  // [K], [K,K] from one label to the next, [K]
};
// "start", "transition", "end"; all start at zero
UNROLL_API Crf crf_parameters(Scope scope, std::int64_t labels);
// Negative log-likelihood of each row [B]: scores [T,B,K], labels i32 [T,B], lengths i32 [B]. Padding is not read. A
// row of length 0 gives 0. A label outside [0,K) contributes no score, so the result is then not a probability.
UNROLL_API Value crf_loss(const Crf& crf, Value scores, Value labels, Value lengths);
// The most likely labels, i32 [T,B], by the Viterbi algorithm; ties go to the lower label. Padding is 0.
UNROLL_API Value crf_decode(const Crf& crf, Value scores, Value lengths);

// pytorch: U(-1/sqrt(H), 1/sqrt(H)) for everything. xavier: Xavier-uniform weights. orthogonal: orthogonal recurrent
// weights, other weights as xavier. With xavier and orthogonal each gate is drawn separately and biases are zero.
enum class RecurrentInit : std::uint8_t { pytorch, xavier, orthogonal };
struct RecurrentLayerOptions : RecurrentOptions {
  RecurrentInit init = RecurrentInit::pytorch;
  double forget_bias = 0;  // lstm: added to the forget gate's block of bias_ih
  Stack stack = Stack::plain;
  DropoutMask mask = DropoutMask::step;  // for `dropout` and `recurrent_dropout`
  // Recurrent dropout rate, in training. d is dropout with this rate.
  //   mask step      gru, lstm: on the candidate state, h' = (1 - z) d(n) + z h, c' = f c + i d(g), with a new mask in
  //                  every step (Semeniuta et al. 2016)
  //   mask sequence  on the previous hidden state in every product, W_hh d(h), with one mask for all steps (Gal &
  //                  Ghahramani 2016, eq. 7)
  double recurrent_dropout = 0;
  // DropConnect on weight_hh, in training: one mask for all steps and rows (Merity et al. 2017, "Regularizing and
  // Optimizing LSTM Language Models", section 2).
  double weight_drop = 0;
};
// Stacked rnn, gru or lstm layers. x [T,B,I]; h0, c0 [L*D,B,...], empty: zeros; lengths i32 [B]. reset b8 [T,B]: where
// true, the row's states are set to zero before the step; not supported with lengths or two directions. Parameters:
// "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_hr_l0", and "..._reverse".
UNROLL_API RecurrentResult recurrent_layer(Scope scope, Op cell, Value x, const RecurrentLayerOptions& options,
                                           Value h0 = {}, Value c0 = {}, Value lengths = {}, Value reset = {});

struct Cell;
struct CellStep;

// One time step, as the function of a cell sees it. All values belong to the graph of the step.
class UNROLL_API Step {
 public:
  Value x() const { return x_; }                             // [B, I]
  Value state(int i) const;                                  // [B, size of state i]
  std::int64_t hidden() const { return hidden_; }
  // A parameter of the layer: created once, shared by all steps.
  Value parameter(std::string_view name, Shape shape, Initializer initializer);
  // The sum over args of args[i] times parameter "<name>.weight_<i>" [outputs, width], plus "<name>.bias" [outputs].
  Value affine(std::string_view name, std::span<const Value> args, std::int64_t outputs, bool bias = true);
  Value layer_norm(std::string_view name, Value x, double epsilon = 1e-5);  // "<name>.weight", "<name>.bias"
  // Uses the same masks in the forward and backward pass. The identity when not training or when rate is 0.
  Value dropout(Value x, double rate, DropoutMask mask = DropoutMask::step);
  // A value of the model around the layer, such as the memory of an attention: the same in every step.
  Value outer(Value value);
  // Slice t of a sequence [T,...] of the model around the layer.
  Value slice_of(Value sequence);
  // A step of another cell inside this one, on x [B,I] and the states of that cell. Its parameters become parameters of
  // this layer.
  CellStep run(const Cell& cell, Value x, std::span<const Value> states);

 private:
  friend class CellRun;
  class Body* body_ = nullptr;
  Value x_;
  std::vector<Value> states_;
  std::int64_t hidden_ = 0;
};

struct CellStep {
  std::vector<Value> states;  // next states, in the order of Cell::state_sizes
  Value y;                    // output of the step [B, P]; empty: the first state
  // Further outputs of the step, stacked to [T,...]. Only for one layer in one direction, without lengths.
  std::vector<Value> outputs = {};
};

// A recurrent cell defined by one function. Gradients, batching over time and all backends follow from it.
struct Cell {
  std::vector<std::int64_t> state_sizes;
  std::function<CellStep(Step&)> step;
};
// Creates the cell for a hidden size.
using CellFactory = std::function<Cell(std::int64_t hidden)>;

struct CellLayerOptions {
  std::int64_t hidden = 0;
  int layers = 1;
  bool bidirectional = false;
  double dropout = 0;  // between layers
  DropoutMask mask = DropoutMask::step;
  Stack stack = Stack::plain;
  double weight_drop = 0;  // for parameters called weight_hh, as in RecurrentLayerOptions
};
struct CellLayerResult {
  Value y;                    // [T, B, D*P]
  std::vector<Value> states;  // final states, each [L*D, B, size]
  std::vector<Value> outputs = {};  // CellStep::outputs, each [T,...]
};
// Stacked layers of a custom cell. Parameter names end in _l0, _l1_reverse, ... `initial`: one [L*D, B, size] per
// state, or empty for zeros. `reset`: as for recurrent_layer.
UNROLL_API CellLayerResult cell_layer(Scope scope, const CellFactory& cell, Value x, const CellLayerOptions& options,
                                      std::span<const Value> initial = {}, Value lengths = {}, Value reset = {});

// Position of a text in a file, for error messages. Without a file the text came from a program.
struct TextPlace {
  std::string file;
  int line = 0;  // from 1; 0: unknown
  int column = 1;
};
// A cell defined in text, such as a minimal gated unit with one state h:
//   f  = sigmoid(affine(x, h))
//   n  = tanh(affine(x, f * h))
//   h' = (1 - f) * h + f * n
// docs/adding-a-cell.md has the grammar, the functions, the parameter names and the limits.
struct TextCell {
  std::string name;
  std::vector<std::string> states = {};  // each of size H; the first is the output, unless y is given
  std::string step = {};  // one statement per line; each state is assigned its next value once
  // Output of a step, an expression. Empty: the line `y = ...` of `step`, or else the first state.
  std::string y = {};
  TextPlace place = {}, step_place = {}, y_place = {};
};
// Throws Error(usage), or Error(input_file) for a text from a file, with cell, line and column. Errors that depend on
// sizes, such as incompatible widths, are thrown when the layer is built.
UNROLL_API CellFactory make_text_cell(const TextCell& cell);

// Options of a stack of recurrent layers. The rows of k_options have their ranges and config keys.
struct RecurrentModelOptions {
  std::string cell = "lstm";          // rnn, gru, lstm, one of cell_names(), or one of `cells`
  std::int64_t hidden = 128;
  int layers = 1;
  bool bidirectional = false;
  bool bias = true;
  double dropout = 0;                 // between layers; tasks also apply it before and after the stack
  bool variational = false;           // see DropoutMask
  double recurrent_dropout = 0;       // see RecurrentLayerOptions
  double weight_drop = 0;
  double activation_penalty = 0;      // see activation_penalties
  double temporal_penalty = 0;
  std::string stack = "plain";
  std::int64_t projection = 0;
  std::string nonlinearity = "tanh";
  bool reset_after = true;
  bool peephole = false;
  std::string init = "pytorch";
  double forget_bias = 0;
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
    option<&RecurrentModelOptions::hidden>({"model.hidden", between(1, 1e6), "width H of the state"}),
    option<&RecurrentModelOptions::layers>({"model.layers", between(1, 64), "number of stacked layers L"}),
    option<&RecurrentModelOptions::stack>(
        {"model.stack", one_of("plain|residual|highway"),
         "skip connections between layers of equal width: none, residual, or highway"}),
    option<&RecurrentModelOptions::bidirectional>(
        {"model.bidirectional", any_value, "add a second direction that reads the sequence in reverse"}),
    option<&RecurrentModelOptions::projection>(
        {"model.projection", between(0, 1e6), "lstm: width P of the projected output; 0: no projection"}),
    option<&RecurrentModelOptions::nonlinearity>(
        {"model.nonlinearity", one_of("tanh|relu"), "rnn: activation function of the state"}),
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
         Affects::training}),
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
        {"model.init", one_of("pytorch|xavier|orthogonal"), "initialization of the recurrent layers", AtResume::fixed,
         Affects::training}),
    option<&RecurrentModelOptions::forget_bias>(
        {"model.forget_bias", between(-10, 10), "lstm: added to the initial bias of the forget gate", AtResume::fixed,
         Affects::training}),
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
