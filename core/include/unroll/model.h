// SPDX-License-Identifier: Apache-2.0
// Building models: a Scope names parameters and random sites while layers append nodes; a Cell is what a user writes.
// Shapes: T time, B batch, I input, H hidden, P output of a recurrent layer, L layers, D directions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unroll/graph.h"
#include "unroll/ops.h"
#include "unroll/tensor.h"

namespace unroll {

// How a parameter starts. fan_in and fan_out are the last and the first dimension of its shape.
struct Initializer {
  enum class Kind : std::uint8_t { constant, uniform, normal, xavier_uniform, xavier_normal, orthogonal };
  Kind kind = Kind::constant;
  double scale = 0;  // constant: the value; uniform: [-scale, scale); normal: deviation; xavier, orthogonal: gain
  // The first dimension is this many equal parts (the gates), each drawn on its own with its own fan_out.
  int blocks = 1;
  int shifted_block = -1;  // this part gets `shift` added: an lstm's forget bias
  double shift = 0;

  static Initializer zeros() { return {}; }
  static Initializer constant(double value) { return {.kind = Kind::constant, .scale = value}; }
  static Initializer uniform(double bound) { return {.kind = Kind::uniform, .scale = bound}; }
  static Initializer normal(double deviation) { return {.kind = Kind::normal, .scale = deviation}; }
  static Initializer xavier_uniform(double gain = 1) { return {.kind = Kind::xavier_uniform, .scale = gain}; }
  static Initializer xavier_normal(double gain = 1) { return {.kind = Kind::xavier_normal, .scale = gain}; }
  static Initializer orthogonal(double gain = 1) { return {.kind = Kind::orthogonal, .scale = gain}; }
};

struct ParameterSpec {
  std::string name;
  Type type;
  Initializer initializer;
};

// Draws every parameter on the host from (seed, name) alone: the same bits on every machine and backend,
// whatever the order of the list.
UNROLL_API TensorMap initialize(std::span<const ParameterSpec> parameters, std::uint64_t seed);

// Where a model is being built. Copies made by child() share one registry and add a prefix to the names.
class UNROLL_API Scope {
 public:
  explicit Scope(Graph& graph, bool training = true, DType dtype = DType::f32);

  Graph& graph() const;
  bool training() const;  // dropout acts only when true
  DType dtype() const;
  Scope child(std::string_view prefix) const;  // names become "prefix.name"

  // The parameter of that name as a graph input; asked again, the same value. Throws Error(shape) when the
  // shape differs from the first time.
  Value parameter(std::string_view name, Shape shape, Initializer initializer);
  Value key() const;  // i32[3]: seed low, seed high, update; the graph input "key" unless another is used
  void use_key(Value key);           // before anything is drawn
  std::int64_t next_site() const;    // a fresh random draw site
  const std::vector<ParameterSpec>& parameters() const;
  // A float scalar that the trainer adds to the task's loss, in training only.
  void add_penalty(Value penalty);
  const std::vector<Value>& penalties() const;

 private:
  struct Registry;
  std::shared_ptr<Registry> registry_;
  std::string prefix_;
};

// Layers. Parameters have PyTorch's names, layouts and default initial values.
// "weight" [O, I], "bias" [O]
UNROLL_API Value linear_layer(Scope scope, Value x, std::int64_t outputs, bool bias = true);
// "weight" [V, E]
UNROLL_API Value embedding_layer(Scope scope, Value ids, std::int64_t n_ids, std::int64_t width,
                                 Initializer start = Initializer::normal(1));
// Logits y E^T + b [...,V] by the weight E [V,E] of the embedding layer of scope `embedding`, which y must be as wide
// as (Press & Wolf 2017, section 3; Inan et al. 2017, section 3.2); "bias" [V], zeros. That embedding starts small, as
// weights of a product do: U(-0.1, 0.1).
UNROLL_API Value tied_linear_layer(Scope scope, Scope embedding, Value y, std::int64_t outputs);
inline constexpr double k_tied_embedding_start = 0.1;
// "weight", "bias" [width of x]
UNROLL_API Value layer_norm_layer(Scope scope, Value x, double epsilon = 1e-5);
// What the steps of a sequence [T,B,...] have in common when elements are dropped.
enum class DropoutMask : std::uint8_t {
  step,      // nothing: a fresh mask in every step
  sequence,  // the mask: one [B,...] for all steps (variational dropout, Gal & Ghahramani 2016, section 4)
};
// Identity when not training or rate is 0. With DropoutMask::sequence axis 0 of x is time.
UNROLL_API Value dropout_layer(Scope scope, Value x, double rate, DropoutMask mask = DropoutMask::step);
// Adds to the scope's penalties, for y [T,B,P] that is zero at t >= lengths[b],
//   activation * mean over t of y[t]^2             (AR)
//   temporal   * mean over t of (y[t+1] - y[t])^2  (TAR)
// over the steps, or pairs of them, that exist (Merity et al. 2017, "Revisiting Activation Regularization for Language
// RNNs"; "Regularizing and Optimizing LSTM Language Models", section 4.6). Nothing when not training or both are 0.
UNROLL_API void activation_penalties(Scope scope, Value y, double activation, double temporal, Value lengths = {});

// What the layers of a stack give on, x being a layer's input and H(x) what it computes, where both have one width:
enum class Stack : std::uint8_t {
  plain,     // H(x)
  residual,  // H(x) + x (He et al. 2016, eq. 1; between recurrent layers Wu et al. 2016, eq. 6)
  highway,   // H(x) * g + x * (1 - g), g = s(W x + b) (Srivastava et al. 2015, eq. 3); "highway.weight_l0" [W,W],
             // "highway.bias_l0" [W], which starts at -1
};

// A linear-chain conditional random field over K labels (Lafferty et al. 2001): labels y of a row of n steps have the
// score (Lample et al. 2016, section 2.2)
//   start[y_0] + sum over t of scores[t][y_t] + sum over t > 0 of transition[y_(t-1)][y_t] + end[y_(n-1)]
// and the probability e^score / Z, Z the sum over all labels, made by the forward algorithm as a scan.
struct Crf {
  Value start, transition, end;  // [K], [K,K] from a label to the next, [K]
};
// "start", "transition", "end", zeros at first
UNROLL_API Crf crf_parameters(Scope scope, std::int64_t labels);
// -log probability of each row [B]: scores [T,B,K], labels i32 [T,B], lengths i32 [B]. What lies behind the end of a
// row is not read; a row of length 0 gives 0. A label outside [0,K) adds no score, so no probability comes of it.
UNROLL_API Value crf_loss(const Crf& crf, Value scores, Value labels, Value lengths);
// The likeliest labels, i32 [T,B], by Viterbi's algorithm; of equal ones the lower label. 0 behind the end of a row.
UNROLL_API Value crf_decode(const Crf& crf, Value scores, Value lengths);

// orthogonal: the recurrent weights, xavier the rest.
enum class RecurrentInit : std::uint8_t { pytorch, xavier, orthogonal };
struct RecurrentLayerOptions : RecurrentOptions {
  RecurrentInit init = RecurrentInit::pytorch;
  double forget_bias = 0;  // lstm: added to the forget gate's part of bias_ih
  Stack stack = Stack::plain;
  DropoutMask mask = DropoutMask::step;  // of `dropout` and `recurrent_dropout`
  // In training, with d for dropout of this rate:
  //   mask step      gru, lstm: of what a step adds, h' = (1 - z) d(n) + z h, c' = f c + i d(g), with a fresh mask in
  //                  every step (Semeniuta et al. 2016)
  //   mask sequence  of the old state in every product with it, W_hh d(h), with one mask for all steps (Gal &
  //                  Ghahramani 2016, eq. 7)
  double recurrent_dropout = 0;
  // In training: dropout of the elements of weight_hh, one mask for all steps and rows (DropConnect; Merity et al.
  // 2017, "Regularizing and Optimizing LSTM Language Models", section 2).
  double weight_drop = 0;
};
// Empty h0, c0 start from zeros. reset b8 [T,B]: where it is set, a row's states are zero before the step; not with
// lengths or two directions. "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_hr_l0",
// "_reverse".
UNROLL_API RecurrentResult recurrent_layer(Scope scope, Op cell, Value x, const RecurrentLayerOptions& options,
                                           Value h0 = {}, Value c0 = {}, Value lengths = {}, Value reset = {});

// What a cell's function sees of one time step. Everything is a value of the step's own graph.
class UNROLL_API Step {
 public:
  Value x() const { return x_; }                             // [B, I]
  Value state(int i) const;                                  // [B, size of state i]
  std::int64_t hidden() const { return hidden_; }
  // Owned by the layer: created once, shared by all steps.
  Value parameter(std::string_view name, Shape shape, Initializer initializer);
  // sum over args of args[i] times parameter "<name>.weight_<i>" [outputs, width], plus "<name>.bias"
  Value affine(std::string_view name, std::span<const Value> args, std::int64_t outputs, bool bias = true);
  Value layer_norm(std::string_view name, Value x, double epsilon = 1e-5);  // "<name>.weight", "<name>.bias"
  // The same masks for forward and gradient. Identity when not training or rate is 0.
  Value dropout(Value x, double rate, DropoutMask mask = DropoutMask::step);

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
};

// A recurrent cell: one function over symbols. Gradients, batching over time and every backend follow from it.
struct Cell {
  std::vector<std::int64_t> state_sizes;
  std::function<CellStep(Step&)> step;
};
// Makes the cell for a hidden size.
using CellFactory = std::function<Cell(std::int64_t hidden)>;

struct CellLayerOptions {
  std::int64_t hidden = 0;
  int layers = 1;
  bool bidirectional = false;
  double dropout = 0;  // between layers
  DropoutMask mask = DropoutMask::step;
  Stack stack = Stack::plain;
  double weight_drop = 0;  // of the parameters called weight_hh, as in RecurrentLayerOptions
};
struct CellLayerResult {
  Value y;                    // [T, B, D*P]
  std::vector<Value> states;  // final states, each [L*D, B, size]
};
// Stacks a user cell as the built-in ones are stacked; parameters get the suffix _l0, _l1_reverse.
// initial: empty for zeros, or one [L*D, B, size] per state. reset as for recurrent_layer.
UNROLL_API CellLayerResult cell_layer(Scope scope, const CellFactory& cell, Value x, const CellLayerOptions& options,
                                      std::span<const Value> initial = {}, Value lengths = {}, Value reset = {});

// Where the first character of a text stands in a file, for errors. No file: the text came from a program.
struct TextPlace {
  std::string file;
  int line = 0;  // from 1; 0: somewhere in the file
  int column = 1;
};
// A cell as a few lines of text, such as a minimal gated unit with one state h:
//   f  = sigmoid(affine(x, h))
//   n  = tanh(affine(x, f * h))
//   h' = (1 - f) * h + f * n
// docs/adding-a-cell.md has the grammar, the functions, the names of the parameters and the bounds.
struct TextCell {
  std::string name;
  std::vector<std::string> states = {};  // each of size H; the first is the output unless y is given
  std::string step = {};  // a statement per line; every state gets its next value once
  std::string y = {};               // the output of a step as one expression; empty: a line `y = ...` of step, or none
  TextPlace place = {}, step_place = {}, y_place = {};
};
// Throws Error(usage), or Error(input_file) for a text with a file, naming cell, line and column. What depends on
// sizes (widths that do not agree) is said when the layer is built.
UNROLL_API CellFactory make_text_cell(const TextCell& cell);

// A stack of recurrent layers by the name of its cell; the keys of [model] in a config have the fields' names.
struct RecurrentModelOptions {
  std::string cell = "lstm";          // rnn, gru, lstm, a name of cell_names(), or one of `cells`
  std::int64_t hidden = 128;
  int layers = 1;
  bool bidirectional = false;
  bool bias = true;                   // rnn, gru, lstm
  double dropout = 0;                 // between layers; a task also applies it around them
  bool variational = false;           // one mask for all steps of a sequence, see DropoutMask
  double recurrent_dropout = 0;       // rnn (variational), gru, lstm; see RecurrentLayerOptions
  double weight_drop = 0;             // rnn, gru, lstm
  double activation_penalty = 0;      // see activation_penalties
  double temporal_penalty = 0;
  std::string stack = "plain";        // plain, residual, highway
  std::int64_t projection = 0;        // lstm
  std::string nonlinearity = "tanh";  // rnn: tanh, relu
  bool reset_after = true;            // gru
  bool peephole = false;              // lstm
  std::string init = "pytorch";       // pytorch, xavier, orthogonal
  double forget_bias = 0;             // lstm
  std::vector<TextCell> cells = {};   // before a ready one of the same name; not rnn, gru, lstm

  DropoutMask mask() const { return variational ? DropoutMask::sequence : DropoutMask::step; }
};
// initial: empty for zeros, or one value per shape of recurrent_state_shapes. An lstm has two states, h and c.
// Throws Error(usage) on an unknown cell, with the known ones, and on options that the cell does not have.
UNROLL_API CellLayerResult recurrent_model(Scope scope, Value x, const RecurrentModelOptions& options,
                                           std::span<const Value> initial = {}, Value lengths = {}, Value reset = {});
UNROLL_API std::vector<Shape> recurrent_state_shapes(const RecurrentModelOptions& options, std::int64_t batch);
// "h" and "c" as PyTorch calls them, further ones "s2_", "s3_" ...; those of a text cell have names of their own.
UNROLL_API std::vector<std::string> recurrent_state_names(const RecurrentModelOptions& options);

// Ready cells beyond the built-in composites, by name ("lnlstm", "mgu", ...); null when there is none.
UNROLL_API const CellFactory* find_cell(std::string_view name);
UNROLL_API std::vector<std::string> cell_names();  // of find_cell
UNROLL_API std::vector<std::string> built_in_cell_names();  // the composites: rnn, gru, lstm

}  // namespace unroll
