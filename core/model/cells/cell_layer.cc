// SPDX-License-Identifier: Apache-2.0
// Custom cells. The step function runs once per layer and direction on a body graph; its parameters become constants of
// a scan. The compiler then treats custom and built-in cells alike.
#include <cmath>
#include <map>

#include "core/ir/input_range.h"
#include "core/model/cells/stack.h"
#include "core/model/cells/delayed.h"
#include "core/nn/in_layer.h"
#include "core/support/text/counted.h"
#include "core/support/text/exact_text.h"
#include "unroll/model/model.h"
#include "unroll/support/error.h"

namespace unroll {

// The body graph of one layer in one direction, and the outer values of its constants.
class Body {
 public:
  Body(Scope scope, std::string suffix, double weight_drop, std::vector<Value> earlier)
      : scope_(std::move(scope)), suffix_(std::move(suffix)), weight_drop_(weight_drop), earlier_(std::move(earlier)) {}

  Value parameter(std::string_view name, const Shape& shape, const Initializer& initializer) {
    const Value plain = scope_.parameter(std::string(name) + suffix_, shape, initializer);
    if (name != "weight_hh") return constant(plain);
    if (!weight_hh_) weight_hh_ = dropout_layer(scope_, plain, weight_drop_);
    return constant(weight_hh_);
  }

  // The update's key is the same in every step. A mask per step adds the step number; a sequence mask does not.
  Value dropout(Value x, double rate, DropoutMask mask) {
    if (!(rate >= 0 && rate < 1))
      throw Error(ErrorKind::usage, "Step::dropout", "the rate must be in [0,1); got " + exact_text(rate));
    if (!scope_.training() || rate == 0) return x;
    if (mask == DropoutMask::sequence)
      return x * constant(dropout_layer(scope_, filled(scope_.graph(), x.type(), 1), rate));
    if (!step_index_) step_index_ = traced_->input("step", {DType::i32, Shape{}});
    return unroll::dropout(x, constant(scope_.key()), rate, scope_.next_rng_stream(), step_index_);
  }

  Value constant(Value outer) { return inner("constant", outer, outer.type(), constants_); }

  Value slice_of(Value sequence) {
    Type type = sequence.type();
    if (type.shape.rank() == 0)
      throw Error(ErrorKind::shape, "Step::slice_of", "a sequence must be [T,...]; got " + type.text());
    type.shape = type.shape.removed(0);
    return inner("sequence", sequence, type, sequences_);
  }

  Value window(Value x, std::int64_t steps) {
    if (steps < 1 || steps > std::ssize(earlier_) + 1)
      throw Error(ErrorKind::usage, "Step::window",
                  "the cell has a window of " + counted(earlier_.size() + 1, "input") + "; got " +
                      std::to_string(steps));
    std::vector<Value> inputs;
    for (std::int64_t j = steps - 1; j >= 1; --j) inputs.push_back(slice_of(earlier_[j - 1]));
    inputs.push_back(x);
    return inputs.size() == 1 ? x : concat(inputs, -1);
  }

  Graph& graph() { return *traced_; }
  // Values of the outer graph, in the order of first use.
  const std::vector<Value>& constants() const { return constants_; }
  const std::vector<Value>& sequences() const { return sequences_; }
  bool has_step_index() const { return static_cast<bool>(step_index_); }

  // Returns the traced graph with its inputs in scan order: states, x, step number, sequences, constants.
  std::shared_ptr<const Graph> finished() const {
    if (!step_index_ && sequences_.empty()) return traced_;
    const auto ordered = std::make_shared<Graph>();
    std::vector<Value> inputs(traced_->inputs().size());
    for (const char* kind : {"state", "x0", "step", "sequence", "constant"})
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const NamedValue& input = traced_->inputs()[i];
        if (input.name.starts_with(kind)) inputs[i] = ordered->input(input.name, traced_->type(input.value));
      }
    const std::vector<Value> outputs = inline_graph(*ordered, *traced_, inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) ordered->output(traced_->outputs()[i].name, outputs[i]);
    return ordered;
  }

 private:
  // Returns the input "<kind><number>" of the body for a value of the outer graph.
  Value inner(const std::string& kind, Value outer, const Type& type, std::vector<Value>& list) {
    const auto [at, is_new] = inner_.try_emplace({kind, outer.id()});
    if (!is_new) return at->second;
    at->second = traced_->input(kind + std::to_string(list.size()), type);
    list.push_back(outer);
    return at->second;
  }

  Scope scope_;
  std::string suffix_;
  double weight_drop_;
  std::vector<Value> earlier_;  // x of 1, 2, ... steps before, [T,B,I]
  Value weight_hh_;  // of the outer graph, after its first use
  std::shared_ptr<Graph> traced_ = std::make_shared<Graph>();
  std::vector<Value> constants_, sequences_;
  std::map<std::pair<std::string, ValueId>, Value> inner_;  // values of the body, by kind and outer value
  Value step_index_;
};

Value Step::state(int i) const {
  if (i < 0 || i >= std::ssize(states_))
    throw Error(ErrorKind::usage, "Step",
                "state " + std::to_string(i) + " of a cell with " + std::to_string(states_.size()));
  return states_[i];
}

Value Step::window(std::int64_t steps) { return body_->window(x_, steps); }

Value Step::parameter(std::string_view name, Shape shape, Initializer initializer) {
  return body_->parameter(name, shape, initializer);
}

Value Step::affine(std::string_view name, ValueList args, std::int64_t outputs, bool bias) {
  if (args.empty())
    throw Error(ErrorKind::usage, "Step::affine", "'" + std::string(name) + "' needs at least one value");
  const auto start = Initializer::uniform(1 / std::sqrt(static_cast<double>(hidden_)));
  Value total;
  for (std::size_t k = 0; k < args.size(); ++k) {
    const Shape shape{outputs, args[k].shape()[args[k].rank() - 1]};
    const Value weight = parameter(std::string(name) + ".weight_" + std::to_string(k), shape, start);
    const Value product = linear(args[k], weight);
    total = total ? total + product : product;
  }
  return bias ? total + parameter(std::string(name) + ".bias", {outputs}, start) : total;
}

Value Step::layer_norm(std::string_view name, Value x, double epsilon) {
  const std::int64_t width = x.shape()[x.rank() - 1];
  const Value weight = parameter(std::string(name) + ".weight", {width}, Initializer::constant(1));
  return unroll::layer_norm(x, weight, parameter(std::string(name) + ".bias", {width}, Initializer::zeros()), epsilon);
}

Value Step::dropout(Value x, double rate, DropoutMask mask) { return body_->dropout(x, rate, mask); }

Value Step::outer(Value value) { return body_->constant(value); }

Value Step::slice_of(Value sequence) { return body_->slice_of(sequence); }

CellStep Step::run(const Cell& cell, Value x, ValueList states) {
  if (states.size() != cell.state_sizes.size())
    throw Error(ErrorKind::usage, "Step::run",
                "the cell has " + counted(cell.state_sizes.size(), "state") + "; got " +
                    std::to_string(states.size()));
  if (cell.window > 1)
    throw Error(ErrorKind::usage, "Step::run", "the cell reads earlier inputs with window",
                "A cell within another one sees the input of one step");
  Step inner = *this;
  inner.x_ = x;
  inner.states_.assign(states.begin(), states.end());
  CellStep next = cell.step(inner);
  if (!next.y) next.y = next.states.at(0);
  return next;
}

namespace {

struct Sweep {
  Value y;                     // [T, B, P]
  std::vector<Value> states;   // final, [B, size]
  std::vector<Value> outputs;  // [T, ...]
};

}  // namespace

class CellRun {
 public:
  CellRun(const Cell& cell, const RecurrentModelOptions& options)
      : cell_(cell), hidden_(options.hidden), weight_drop_(options.weight_drop) {
    if (!cell.step) throw Error(ErrorKind::usage, "cell_layer", "the cell has no step function");
  }

  // `earlier`: x of 1, 2, ... steps before.
  Sweep sweep(const Scope& scope, const std::string& suffix, Value x, std::vector<Value> earlier,
              std::span<const Value> initial, Value lengths, Value reset, bool reverse) const {
    Body body(scope, suffix, weight_drop_, std::move(earlier));
    const std::size_t n_outputs = trace(body, x, initial);
    if (n_outputs > 0 && lengths)
      throw Error(ErrorKind::usage, "cell_layer", "further outputs are for sequences without lengths");
    std::vector<Value> inputs(initial.begin(), initial.end());
    inputs.push_back(x);
    if (body.has_step_index()) inputs.push_back(iota(scope.graph(), {x.shape()[0]}, 0));
    inputs.insert(inputs.end(), body.sequences().begin(), body.sequences().end());
    inputs.insert(inputs.end(), body.constants().begin(), body.constants().end());
    if (lengths) inputs.push_back(lengths);
    require_lengths(lengths, x.shape()[0]);
    if (reset) inputs.push_back(reset);
    const Attributes attributes{{"steps", x.shape()[0]},
                                {"states", std::ssize(initial)},
                                {"sequences", static_cast<std::int64_t>(1 + (body.has_step_index() ? 1 : 0) +
                                                                        body.sequences().size())},
                                {"reverse", reverse},
                                {"lengths", static_cast<bool>(lengths)},
                                {"reset", static_cast<bool>(reset)}};
    const std::vector<Value> all = scan_body(inputs, attributes, body.finished());
    const auto y = all.begin() + static_cast<std::ptrdiff_t>(initial.size());
    return {*y, {all.begin(), y}, {y + 1, all.end()}};
  }

 private:
  // Runs the step function on the body graph; returns the number of its further outputs.
  std::size_t trace(Body& body, Value x, std::span<const Value> initial) const {
    Step step;
    step.body_ = &body;
    step.hidden_ = hidden_;
    for (std::size_t i = 0; i < initial.size(); ++i)
      step.states_.push_back(body.graph().input("state" + std::to_string(i), initial[i].type()));
    step.x_ = body.graph().input("x0", {x.dtype(), x.shape().removed(0)});
    const CellStep next = cell_.step(step);
    if (next.states.size() != initial.size())
      throw Error(ErrorKind::usage, "cell_layer",
                  "the step returns " + counted(next.states.size(), "state") + ", state_sizes has " +
                      std::to_string(initial.size()));
    if (!next.y && next.states.empty())
      throw Error(ErrorKind::usage, "cell_layer", "a cell without states must return y");
    Graph& graph = body.graph();
    for (std::size_t i = 0; i < next.states.size(); ++i) graph.output("next" + std::to_string(i), next.states[i]);
    graph.output("y0", next.y ? next.y : next.states[0]);
    for (std::size_t i = 0; i < next.outputs.size(); ++i) graph.output("output" + std::to_string(i), next.outputs[i]);
    return next.outputs.size();
  }

  const Cell& cell_;
  std::int64_t hidden_;
  double weight_drop_;
};

namespace {

// In one direction, each layer has its window as a state.
std::size_t n_windows(const Cell& cell, const RecurrentModelOptions& options) {
  return cell.window > 1 && !options.bidirectional ? options.layers : 0;
}

void check_cell(Value x, std::span<const Value> initial, const Cell& cell, std::size_t windows) {
  if (x.rank() != 3) throw Error(ErrorKind::shape, "cell_layer", "x must be [T,B,I]; got " + x.shape().text());
  if (!initial.empty() && initial.size() != cell.state_sizes.size() + windows)
    throw Error(ErrorKind::usage, "cell_layer",
                "the cell has " + counted(cell.state_sizes.size() + windows, "state") + "; got " +
                    std::to_string(initial.size()) + " initial ones");
}

}  // namespace

CellLayerResult layers_of_cell(const Scope& scope, const CellFactory& factory, Value x,
                               const RecurrentModelOptions& options, std::span<const Value> initial, Value lengths,
                               Value reset) {
  const Cell cell = factory(options.hidden);
  const std::size_t windows = n_windows(cell, options);
  in_layer(scope, [&] { check_cell(x, initial, cell, windows); });
  if (reset && (lengths || options.bidirectional))
    throw Error(ErrorKind::usage, "cell_layer", "reset is for one direction and sequences without lengths");
  const CellRun run(cell, options);
  const int n_directions = options.bidirectional ? 2 : 1;
  const std::size_t n_states = cell.state_sizes.size();
  std::vector<std::vector<Value>> finals(n_states);  // [state][layer * D + direction]
  std::vector<Value> outputs, window_states;
  const auto run_layer = [&](int layer, Value input) {
    std::vector<Value> y;
    for (int d = 0; d < n_directions; ++d) {
      std::vector<Value> start;
      for (std::size_t s = 0; s < n_states; ++s)
        start.push_back(initial.empty()
                            ? filled(scope.graph(), {input.dtype(), {input.shape()[1], cell.state_sizes[s]}}, 0)
                            : row(initial[s], layer * n_directions + d));
      const std::string suffix = "_l" + std::to_string(layer) + (d == 1 ? "_reverse" : "");
      const std::string layer_path = (scope.path().empty() ? "" : scope.path() + ".") + suffix.substr(1);
      const Value window = initial.empty() || windows == 0 ? Value() : initial[n_states + layer];
      Delayed past = cell.window > 1 ? delayed(input, window, cell.window - 1, lengths, reset, d == 1) : Delayed();
      if (windows > 0) window_states.push_back(past.state);
      if (!past.taps.empty()) past.taps.erase(past.taps.begin());  // x itself
      const Sweep swept = in_layer(scope.graph(), layer_path, [&] {
        return run.sweep(scope, suffix, input, std::move(past.taps), start, lengths, reset, d == 1);
      });
      y.push_back(swept.y);
      if (!swept.outputs.empty() && (options.layers > 1 || options.bidirectional))
        throw Error(ErrorKind::usage, "cell_layer", "further outputs are for one layer in one direction");
      outputs = swept.outputs;
      for (std::size_t s = 0; s < n_states; ++s) finals[s].push_back(swept.states[s]);
    }
    return y.size() > 1 ? concat(y, -1) : y[0];
  };
  CellLayerResult result{stacked(scope, without_padding(x, lengths), options, lengths, run_layer), {}, {}};
  result.outputs = std::move(outputs);
  for (const auto& slots : finals) result.states.push_back(stack(slots));
  result.states.insert(result.states.end(), window_states.begin(), window_states.end());
  return result;
}

}  // namespace unroll
