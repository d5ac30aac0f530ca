// SPDX-License-Identifier: Apache-2.0
// Built-in recurrent layers: the rnn, gru and lstm composites, one per layer if layers have connections between them,
// and the selection of a layer by cell name.
#include "core/model/cells/built_in_cells.h"
#include "core/model/cells/stack.h"
#include "core/nn/in_layer.h"
#include "core/support/text/counted.h"
#include "core/support/text/exact_text.h"
#include "core/support/text/nearest_name.h"
#include "unroll/model/model.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

void check_options(Op cell, const RecurrentLayerOptions& o) {
  if (o.hidden < 1 || o.layers < 1)
    throw Error(
        ErrorKind::usage, "recurrent_layer",
        "hidden and layers must be at least 1; got " + std::to_string(o.hidden) + " and " + std::to_string(o.layers));
  for (const double rate : {o.recurrent_dropout, o.weight_drop})
    if (!(rate >= 0 && rate < 1))
      throw Error(ErrorKind::usage, "recurrent_layer",
                  "recurrent_dropout and weight_drop must be in [0,1); got " + exact_text(rate));
  if (cell == Op::rnn && o.recurrent_dropout > 0 && o.mask == DropoutMask::step)
    throw Error(ErrorKind::usage, "recurrent_layer", "recurrent_dropout of an rnn needs variational = true",
                "A plain rnn has no candidate state");
}

// Appends `o.layers` layers from number `first` on as one composite; h0 and c0 belong to these layers.
RecurrentResult composite(Scope scope, Op cell, Value x, int first, const RecurrentLayerOptions& o, Value h0, Value c0,
                          Value lengths) {
  RecurrentOptions used = o;
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

RecurrentResult layer_by_layer(const Scope& scope, Op cell, Value x, const RecurrentLayerOptions& o, Value h0, Value c0,
                               Value lengths) {
  const std::int64_t slots = h0.shape()[0] / o.layers;
  const auto part = [&](Value states, int layer) { return states ? slice(states, 0, layer * slots, slots) : Value(); };
  RecurrentLayerOptions one = o;
  one.layers = 1;
  std::vector<Value> hn, cn;
  const Value y = stacked(scope, x, {o.layers, o.dropout, o.mask, o.stack}, lengths, [&](int layer, Value input) {
    const RecurrentResult r = composite(scope, cell, input, layer, one, part(h0, layer), part(c0, layer), lengths);
    hn.push_back(r.hn);
    if (r.cn) cn.push_back(r.cn);
    return r.y;
  });
  return {y, concat(hn, 0), cn.empty() ? Value() : concat(cn, 0)};
}

RecurrentResult by_cell(const Scope& scope, Op cell, Value x, const RecurrentLayerOptions& o, Value h0, Value c0,
                        Value lengths, Value reset) {
  const CellLayerOptions layers{.hidden = o.hidden,
                                .layers = o.layers,
                                .bidirectional = o.bidirectional,
                                .dropout = o.dropout,
                                .mask = o.mask,
                                .stack = o.stack,
                                .weight_drop = o.weight_drop};
  std::vector<Value> initial{h0};
  if (c0) initial.push_back(c0);
  const CellFactory factory = [&](std::int64_t) { return built_in_cell(cell, o); };
  const CellLayerResult r = cell_layer(scope, factory, x, layers, initial, lengths, reset);
  return {r.y, r.states[0], r.states.size() > 1 ? r.states[1] : Value()};
}

}  // namespace

namespace {

RecurrentResult checked_layer(Scope scope, Op cell, Value x, const RecurrentLayerOptions& options, Value h0, Value c0,
                              Value lengths, Value reset) {
  if (x.rank() != 3) throw Error(ErrorKind::shape, "recurrent_layer", "x must be [T,B,I]; got " + x.shape().text());
  const BuiltInWidths w = BuiltInWidths::of(cell, options);
  const std::int64_t slots = options.layers * w.directions, batch = x.shape()[1];
  const auto zeros = [&](std::int64_t width) { return filled(scope.graph(), {x.dtype(), {slots, batch, width}}, 0); };
  if (!h0) h0 = zeros(w.output);
  if (cell == Op::lstm && !c0) c0 = zeros(w.hidden);
  // Options that the composites do not support.
  if (reset || (scope.training() && options.recurrent_dropout > 0))
    return by_cell(scope, cell, x, options, h0, c0, lengths, reset);
  const bool masked = scope.training() && options.dropout > 0 && options.mask != DropoutMask::step;
  if (options.stack != Stack::plain || masked) return layer_by_layer(scope, cell, x, options, h0, c0, lengths);
  return composite(scope, cell, x, 0, options, h0, c0, lengths);
}

}  // namespace

RecurrentResult recurrent_layer(Scope scope, Op cell, Value x, const RecurrentLayerOptions& options, Value h0, Value c0,
                                Value lengths, Value reset) {
  check_options(cell, options);
  return in_layer(scope, [&] { return checked_layer(scope, cell, x, options, h0, c0, lengths, reset); });
}

namespace {

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

RecurrentInit init_of(const std::string& name) {
  if (name == "pytorch") return RecurrentInit::pytorch;
  if (name == "xavier") return RecurrentInit::xavier;
  if (name == "orthogonal") return RecurrentInit::orthogonal;
  refuse("init must be pytorch, xavier or orthogonal; got '" + name + "'");
}

Stack stack_of(const std::string& name) {
  if (name == "plain") return Stack::plain;
  if (name == "residual") return Stack::residual;
  if (name == "highway") return Stack::highway;
  refuse("stack must be plain, residual or highway; got '" + name + "'");
}

// Checks every text cell, including unused ones.
void check_text_cells(const std::vector<TextCell>& cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    make_text_cell(cells[i]);
    for (std::size_t j = 0; j < i; ++j)
      if (cells[j].name == cells[i].name) refuse("there are two text cells '" + cells[i].name + "'", "Rename one");
  }
}

void check_model(const RecurrentModelOptions& o) {
  check_options(o, "recurrent_model");
  check_text_cells(o.cells);
  const auto only = [&](bool given, const char* key, const char* cell) {
    if (given && o.cell != cell)
      refuse(std::string(key) + " is an option of " + cell + "; the cell is '" + o.cell + "'");
  };
  only(o.projection != 0, "projection", "lstm");
  only(o.peephole, "peephole", "lstm");
  only(o.forget_bias != 0, "forget_bias", "lstm");
  only(!o.reset_after, "reset_after", "gru");
  only(o.nonlinearity != "tanh", "nonlinearity", "rnn");
  if (!find_built_in(o.cell) && !o.bias)
    refuse("bias = false is for rnn, gru and lstm; cell '" + o.cell + "' sets its own parameters");
  if (!find_built_in(o.cell) && init_of(o.init) != RecurrentInit::pytorch)
    refuse("init = '" + o.init + "' is for rnn, gru and lstm; cell '" + o.cell + "' sets its own initial values");
  if (!find_built_in(o.cell) && (o.recurrent_dropout != 0 || o.weight_drop != 0))
    refuse("recurrent_dropout and weight_drop are for rnn, gru and lstm; cell '" + o.cell + "' has its own equations",
           "Write dropout(...) into the cell");
  if (o.projection >= o.hidden) refuse("projection must be below hidden; got " + std::to_string(o.projection));
}

RecurrentLayerOptions layer_options(const RecurrentModelOptions& o) {
  RecurrentLayerOptions r;
  r.hidden = o.hidden;
  r.layers = o.layers;
  r.bidirectional = o.bidirectional;
  r.bias = o.bias;
  r.dropout = o.dropout;
  r.relu = o.nonlinearity == "relu";
  r.reset_after = o.reset_after;
  r.projection = o.projection;
  r.peephole = o.peephole;
  r.init = init_of(o.init);
  r.forget_bias = o.forget_bias;
  r.stack = stack_of(o.stack);
  r.mask = o.mask();
  r.recurrent_dropout = o.recurrent_dropout;
  r.weight_drop = o.weight_drop;
  return r;
}

CellLayerResult layers_of_model(const Scope& scope, Value x, const RecurrentModelOptions& options,
                                std::span<const Value> initial, Value lengths, Value reset) {
  const BuiltIn* built_in = find_built_in(options.cell);
  if (!built_in) {
    const CellLayerOptions o{.hidden = options.hidden,
                             .layers = options.layers,
                             .bidirectional = options.bidirectional,
                             .dropout = options.dropout,
                             .mask = options.mask(),
                             .stack = stack_of(options.stack)};
    return cell_layer(scope, require_cell(options), x, o, initial, lengths, reset);
  }
  const std::size_t n_states = built_in->op == Op::lstm ? 2 : 1;
  if (!initial.empty() && initial.size() != n_states)
    refuse(options.cell + " has " + counted(n_states, "state") + "; got " + std::to_string(initial.size()));
  const RecurrentResult r =
      recurrent_layer(scope, built_in->op, x, layer_options(options), initial.empty() ? Value() : initial[0],
                      initial.size() > 1 ? initial[1] : Value(), lengths, reset);
  return {r.y, n_states == 2 ? std::vector<Value>{r.hn, r.cn} : std::vector<Value>{r.hn}};
}

}  // namespace

CellLayerResult recurrent_model(Scope scope, Value x, const RecurrentModelOptions& options,
                                std::span<const Value> initial, Value lengths, Value reset) {
  check_model(options);
  CellLayerResult r =
      in_layer(scope, [&] { return layers_of_model(scope, x, options, initial, lengths, reset); });
  activation_penalties(scope, r.y, options.activation_penalty, options.temporal_penalty, lengths);
  return r;
}

Cell recurrent_cell(const RecurrentModelOptions& options) {
  check_model(options);
  const BuiltIn* built_in = find_built_in(options.cell);
  return built_in ? built_in_cell(built_in->op, layer_options(options)) : require_cell(options)(options.hidden);
}

std::vector<Shape> recurrent_state_shapes(const RecurrentModelOptions& options, std::int64_t batch) {
  check_model(options);
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
  if (const TextCell* text = find_text_cell(options)) return text->states;
  std::vector<std::string> names{"h", "c"};
  const std::size_t n_states = recurrent_state_shapes(options, 1).size();
  for (std::size_t i = names.size(); i < n_states; ++i) names.push_back("s" + std::to_string(i) + "_");
  names.resize(n_states);
  return names;
}

std::vector<std::string> built_in_cell_names() {
  std::vector<std::string> names;
  for (const BuiltIn& row : k_built_in) names.emplace_back(row.name);
  return names;
}

}  // namespace unroll
