// SPDX-License-Identifier: Apache-2.0
// Built-in recurrent layers: the rnn, gru and lstm composites, one per layer if layers have connections between them,
// and the selection of a layer by cell name.
#include "core/model/cells/built_in_cells.h"
#include "core/model/cells/stack.h"
#include "core/model/front.h"
#include "core/nn/in_layer.h"
#include "core/support/text/counted.h"
#include "core/support/text/exact_text.h"
#include "core/support/text/nearest_name.h"
#include "unroll/model/model.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

RecurrentOptions op_options(const RecurrentModelOptions& o) {
  return {.hidden = o.hidden,
          .layers = o.layers,
          .bidirectional = o.bidirectional,
          .bias = o.bias,
          .dropout = o.dropout,
          .relu = o.nonlinearity == Nonlinearity::relu,
          .reset_after = o.reset_after,
          .projection = o.projection,
          .peephole = o.peephole};
}

// `o.layers` layers from number `first` on as one composite; h0 and c0 are of those layers.
RecurrentResult composite(Scope scope, Op cell, Value x, int first, const RecurrentModelOptions& o, Value h0, Value c0,
                          Value lengths) {
  RecurrentOptions used = op_options(o);
  if (!scope.training() || o.layers == 1) used.dropout = 0;
  RecurrentInputs in{.x = x, .h0 = h0, .c0 = c0, .lengths = lengths, .key = {}, .parameters = {}};
  if (used.dropout > 0) {
    in.key = scope.key();
    used.rng_stream = scope.next_rng_stream();  // layer l draws at rng_stream + l
    for (int layer = 2; layer < o.layers; ++layer) scope.next_rng_stream();
  }
  in.parameters = built_in_parameters(scope, cell, x.shape()[2], first, o);
  // The composite names its inner layers itself.
  const OriginScope of_layer(scope.graph(), {o.layers == 1 ? ".l" + std::to_string(first) : ""});
  return recurrent(cell, in, used);
}

RecurrentResult layer_by_layer(const Scope& scope, Op cell, Value x, const RecurrentModelOptions& o, Value h0, Value c0,
                               Value lengths) {
  const std::int64_t slots = h0.shape()[0] / o.layers;
  const auto part = [&](Value states, int layer) { return states ? slice(states, 0, layer * slots, slots) : Value(); };
  RecurrentModelOptions one = o;
  one.layers = 1;
  std::vector<Value> hn, cn;
  const Value y = stacked(scope, x, o, lengths, [&](int layer, Value input) {
    const RecurrentResult r = composite(scope, cell, input, layer, one, part(h0, layer), part(c0, layer), lengths);
    hn.push_back(r.hn);
    if (r.cn) cn.push_back(r.cn);
    return r.y;
  });
  return {y, concat(hn, 0), cn.empty() ? Value() : concat(cn, 0)};
}

RecurrentResult by_cell(const Scope& scope, Op cell, Value x, const RecurrentModelOptions& o, Value h0, Value c0,
                        Value lengths, Value reset) {
  std::vector<Value> initial{h0};
  if (c0) initial.push_back(c0);
  const CellFactory factory = [&](std::int64_t) { return built_in_cell(cell, o); };
  const CellLayerResult r = layers_of_cell(scope, factory, x, o, initial, lengths, reset);
  return {r.y, r.states[0], r.states.size() > 1 ? r.states[1] : Value()};
}

RecurrentResult built_in_layers(const Scope& scope, Op cell, Value x, const RecurrentModelOptions& options, Value h0,
                                Value c0, Value lengths, Value reset) {
  if (x.rank() != 3) throw Error(ErrorKind::shape, "recurrent_model", "x must be [T,B,I]; got " + x.shape().text());
  const BuiltInWidths w = BuiltInWidths::of(cell, options);
  const std::int64_t slots = options.layers * w.directions, batch = x.shape()[1];
  const auto zeros = [&](std::int64_t width) { return filled(scope.graph(), {x.dtype(), {slots, batch, width}}, 0); };
  if (!h0) h0 = zeros(w.output);
  if (cell == Op::lstm && !c0) c0 = zeros(w.hidden);
  // Options that the composites do not support.
  if (reset || (scope.training() && options.recurrent_dropout > 0))
    return by_cell(scope, cell, x, options, h0, c0, lengths, reset);
  const bool masked = scope.training() && options.dropout > 0 && options.variational;
  if (options.skip != SkipConnection::none || masked) return layer_by_layer(scope, cell, x, options, h0, c0, lengths);
  return composite(scope, cell, x, 0, options, h0, c0, lengths);
}

struct BuiltIn {
  std::string_view name;
  Op op;
};
constexpr BuiltIn k_built_in[] = {{"rnn", Op::rnn}, {"gru", Op::gru}, {"lstm", Op::lstm}};

const BuiltIn* find_built_in(std::string_view name) {
  for (const BuiltIn& row : k_built_in)
    if (row.name == name) return &row;
  return nullptr;
}

[[noreturn]] void refuse(const std::string& what, const std::string& next = {}) {
  throw Error(ErrorKind::usage, "model", what, next);
}

const TextCell* find_text_cell(const RecurrentModelOptions& o) {
  for (const TextCell& cell : o.cells)
    if (cell.name == o.cell) return &cell;
  return nullptr;
}

CellFactory require_cell(const RecurrentModelOptions& o) {
  if (const TextCell* text = find_text_cell(o)) return make_text_cell(*text);
  if (const CellFactory* found = find_cell(o.cell)) return *found;
  std::vector<std::string> known = built_in_cell_names();
  for (std::string& cell : cell_names()) known.push_back(std::move(cell));
  for (const TextCell& cell : o.cells) known.push_back(cell.name);
  refuse("unknown cell '" + o.cell + "'",
         known_names(o.cell, std::vector<std::string_view>(known.begin(), known.end())) +
             "; define other cells as text: [cells.NAME] in a config");
}

// Every text cell is checked, also those that nobody asks for.
void check_text_cells(const std::vector<TextCell>& cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    make_text_cell(cells[i]);
    for (std::size_t j = 0; j < i; ++j)
      if (cells[j].name == cells[i].name) refuse("there are two text cells '" + cells[i].name + "'", "Rename one");
  }
}

// Options that only one cell, or only rnn, gru and lstm have.
void check_options_of(const std::string& cell, const RecurrentModelOptions& o) {
  struct Row {
    bool given;
    const char *key, *cell;
  };
  for (const Row& row : {Row{o.projection != 0, "projection", "lstm"}, {o.peephole, "peephole", "lstm"},
                         {o.forget_bias != 0, "forget_bias", "lstm"}, {!o.reset_after, "reset_after", "gru"},
                         {o.nonlinearity != Nonlinearity::tanh, "nonlinearity", "rnn"}})
    if (row.given && cell != row.cell)
      refuse(std::string(row.key) + " is an option of " + row.cell + "; the cell is '" + cell + "'");
  if (find_built_in(cell)) return;
  if (!o.bias) refuse("bias = false is for rnn, gru and lstm; cell '" + cell + "' sets its own parameters");
  if (o.init != RecurrentInit::pytorch)
    refuse("init = '" + word_of(o.init) + "' is for rnn, gru and lstm; cell '" + cell +
           "' sets its own initial values");
  if (o.recurrent_dropout != 0 || o.weight_drop != 0)
    refuse("recurrent_dropout and weight_drop are for rnn, gru and lstm; cell '" + cell + "' has its own equations",
           "Write dropout(...) into the cell");
}

void check_model(const RecurrentModelOptions& o) {
  check_options(o, "recurrent_model");
  check_text_cells(o.cells);
  check_options_of(o.cell, o);
  if (o.cell == "rnn" && o.recurrent_dropout > 0 && !o.variational)
    refuse("recurrent_dropout of an rnn needs variational = true", "A plain rnn has no candidate state");
  if (o.projection >= o.hidden) refuse("projection must be below hidden; got " + std::to_string(o.projection));
}

// The numbers of states that hold inputs: windows of layers, convolutions of the front.
struct InputStates {
  std::int64_t windows = 0;
  std::size_t front = 0;
};
InputStates input_states(const RecurrentModelOptions& o) {
  if (o.bidirectional) return {};
  const bool has_window = !find_built_in(o.cell) && require_cell(o)(o.hidden).window > 1;
  return {has_window ? o.layers : 0, front_states(o.front)};
}

CellLayerResult layers_of_model(const Scope& scope, Value x, const RecurrentModelOptions& options,
                                std::span<const Value> initial, Value lengths, Value reset) {
  const BuiltIn* built_in = find_built_in(options.cell);
  if (!built_in) return layers_of_cell(scope, require_cell(options), x, options, initial, lengths, reset);
  const std::size_t n_states = built_in->op == Op::lstm ? 2 : 1;
  if (!initial.empty() && initial.size() != n_states)
    refuse(options.cell + " has " + counted(n_states, "state") + "; got " + std::to_string(initial.size()));
  const RecurrentResult r =
      built_in_layers(scope, built_in->op, x, options, initial.empty() ? Value() : initial[0],
                      initial.size() > 1 ? initial[1] : Value(), lengths, reset);
  return {r.y, n_states == 2 ? std::vector<Value>{r.hn, r.cn} : std::vector<Value>{r.hn}};
}

}  // namespace

CellLayerResult cell_layer(Scope scope, const CellFactory& cell, Value x, const RecurrentModelOptions& options,
                           ValueList initial, Value lengths, Value reset) {
  check_options(options, "cell_layer");
  check_options_of("of your own", options);
  CellLayerResult r = layers_of_cell(scope, cell, x, options, initial, lengths, reset);
  activation_penalties(scope, r.y, options.activation_penalty, options.temporal_penalty, lengths);
  return r;
}

CellLayerResult recurrent_model(Scope scope, Value x, const RecurrentModelOptions& options, ValueList initial,
                                Value lengths, Value reset) {
  check_model(options);
  const std::span<const Value> given(initial.begin(), initial.end());
  const bool is_carried = (!given.empty() && !options.bidirectional) || reset;
  const std::size_t n_front = given.empty() || options.bidirectional ? 0 : front_states(options.front);
  if (const std::size_t n = n_front > 0 ? recurrent_state_names(options).size() : 0; n > 0 && given.size() != n)
    refuse("the model has " + counted(n, "state") + ", " + std::to_string(n_front) + " of them of model.front; got " +
           std::to_string(given.size()));
  FrontResult front{.y = x, .states = {}};
  if (!options.front.empty())
    front = front_layers(scope.child("front"), x, options.front, {is_carried, given.last(n_front), lengths, reset});
  CellLayerResult r = in_layer(scope, [&] {
    return layers_of_model(scope, front.y, options, given.first(given.size() - n_front), lengths, reset);
  });
  if (!options.bidirectional) r.states.insert(r.states.end(), front.states.begin(), front.states.end());
  activation_penalties(scope, r.y, options.activation_penalty, options.temporal_penalty, lengths);
  return r;
}

Cell recurrent_cell(const RecurrentModelOptions& options) {
  check_model(options);
  const BuiltIn* built_in = find_built_in(options.cell);
  return built_in ? built_in_cell(built_in->op, options) : require_cell(options)(options.hidden);
}

std::vector<Shape> recurrent_state_shapes(const RecurrentModelOptions& options, std::int64_t batch,
                                          std::int64_t inputs) {
  check_model(options);
  const InputStates of_inputs = input_states(options);
  if (of_inputs.windows > 0 || of_inputs.front > 0) {
    if (inputs < 1) refuse("the states of model.front and of a window depend on the width of the input; got none");
    Graph graph;
    Scope scope(graph, /*training=*/false);
    std::vector<Shape> shapes;
    for (const Value state : recurrent_model(scope, graph.input("x", {DType::f32, {1, batch, inputs}}), options).states)
      shapes.push_back(state.shape());
    return shapes;
  }
  const std::int64_t slots = options.layers * (options.bidirectional ? 2 : 1);
  const BuiltIn* built_in = find_built_in(options.cell);
  if (!built_in) {
    std::vector<Shape> shapes;
    for (const std::int64_t size : require_cell(options)(options.hidden).state_sizes)
      shapes.push_back({slots, batch, size});
    return shapes;
  }
  const Shape cell_shape{slots, batch, options.hidden};
  if (built_in->op != Op::lstm) return {cell_shape};
  return {{slots, batch, options.projection > 0 ? options.projection : options.hidden}, cell_shape};
}

std::vector<std::string> recurrent_state_names(const RecurrentModelOptions& options) {
  std::vector<std::string> names;
  if (const TextCell* text = find_text_cell(options)) {
    names = text->states;
  } else {
    names = {"h", "c"};
    const std::size_t n_states = recurrent_cell(options).state_sizes.size();
    for (std::size_t i = names.size(); i < n_states; ++i) names.push_back("s" + std::to_string(i) + "_");
    names.resize(n_states);
  }
  const InputStates of_inputs = input_states(options);
  for (std::int64_t i = 0; i < of_inputs.windows; ++i) names.push_back("window" + std::to_string(i) + "_");
  for (std::size_t i = 0; i < of_inputs.front; ++i) names.push_back("front" + std::to_string(i) + "_");
  return names;
}

std::vector<std::string> built_in_cell_names() {
  std::vector<std::string> names;
  for (const BuiltIn& row : k_built_in) names.emplace_back(row.name);
  return names;
}

}  // namespace unroll
