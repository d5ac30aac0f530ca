// SPDX-License-Identifier: Apache-2.0
// Custom recurrent cells, defined by a function or as text.
// Shapes: T time, B batch, I input, H hidden, P output of a recurrent layer, L layers, D directions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "unroll/model/layers.h"
#include "unroll/nn/scope.h"

namespace unroll {

struct Cell;
struct CellStep;

// One time step as the function of a cell sees it. All values belong to the graph of the step.
class UNROLL_API Step {
 public:
  Value x() const { return x_; }                             // [B, I]
  Value state(int i) const;                                  // [B, size of state i]
  // Returns the last `steps` inputs [B, steps*I], oldest first; those before the start are zero. At most Cell::window.
  Value window(std::int64_t steps);
  std::int64_t hidden() const { return hidden_; }
  // Returns a parameter of the layer. It is created once and shared by all steps.
  Value parameter(std::string_view name, Shape shape, Initializer initializer);
  // The sum over args of args[i] times parameter "<name>.weight_<i>" [outputs, width], plus "<name>.bias" [outputs].
  Value affine(std::string_view name, ValueList args, std::int64_t outputs, bool bias = true);
  Value layer_norm(std::string_view name, Value x, double epsilon = 1e-5);  // "<name>.weight", "<name>.bias"
  // Uses the same masks in the forward and backward pass. The identity when not training or when rate is 0.
  Value dropout(Value x, double rate, DropoutMask mask = DropoutMask::step);
  // Returns a value of the enclosing model, such as an attention memory. It is constant over the steps.
  Value outer(Value value);
  // Returns slice t of a sequence [T,...] of the enclosing model.
  Value slice_of(Value sequence);
  // Runs a step of another cell inside this one, on x [B,I] and that cell's states. Its parameters become parameters of
  // this layer.
  CellStep run(const Cell& cell, Value x, ValueList states);

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
  // Further outputs of the step, stacked to [T,...]. Requires a single layer, one direction and no lengths.
  std::vector<Value> outputs = {};
};

// A recurrent cell defined by one function. Gradients, batching over time and all backends follow from it.
struct Cell {
  std::vector<std::int64_t> state_sizes;
  std::function<CellStep(Step&)> step;
  std::int64_t window = 1;  // inputs that Step::window may return
};
// Creates the cell for a hidden size.
using CellFactory = std::function<Cell(std::int64_t hidden)>;

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

}  // namespace unroll
