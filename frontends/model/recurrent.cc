// SPDX-License-Identifier: Apache-2.0
// Built-in recurrent layers: parameters by PyTorch's names around the rnn, gru and lstm composites, and the choice of
// a layer by the name of its cell.
#include <cmath>

#include "core/support/nearest_name.h"
#include "unroll/error.h"
#include "unroll/model.h"

namespace unroll {

namespace {

struct Widths {
  std::int64_t gates, hidden, output, directions;
};

Widths widths_of(Op cell, const RecurrentOptions& o) {
  const std::int64_t gates = cell == Op::lstm ? 4 : cell == Op::gru ? 3 : 1;
  return {gates, o.hidden, cell == Op::lstm && o.projection > 0 ? o.projection : o.hidden, o.bidirectional ? 2 : 1};
}

// PyTorch draws everything from U(-1/sqrt H, 1/sqrt H). xavier and orthogonal treat each gate's matrix on its own and
// start biases from zero.
struct Starts {
  Initializer input, recurrent, bias_ih, bias_hh, projection, peephole;
};

Starts starts_of(const Widths& w, const RecurrentLayerOptions& o) {
  const auto uniform = Initializer::uniform(1 / std::sqrt(static_cast<double>(w.hidden)));
  Starts s{uniform, uniform, uniform, uniform, uniform, uniform};
  if (o.init != RecurrentInit::pytorch) {
    s.input = s.recurrent = s.projection = Initializer::xavier_uniform();
    s.bias_ih = s.bias_hh = s.peephole = Initializer::zeros();
    if (o.init == RecurrentInit::orthogonal) s.recurrent = Initializer::orthogonal();
    s.input.blocks = s.recurrent.blocks = static_cast<int>(w.gates);
  }
  if (w.gates == 4 && o.forget_bias != 0) {
    s.bias_ih.blocks = 4;
    s.bias_ih.shifted_block = 1;
    s.bias_ih.shift = o.forget_bias;
  }
  return s;
}

std::vector<Value> layer_parameters(Scope& scope, Op cell, std::int64_t inputs, const RecurrentLayerOptions& o) {
  const Widths w = widths_of(cell, o);
  const Starts start = starts_of(w, o);
  const std::int64_t rows = w.gates * w.hidden;
  std::vector<Value> list;
  for (int layer = 0; layer < o.layers; ++layer)
    for (std::int64_t d = 0; d < w.directions; ++d) {
      const std::string suffix = "_l" + std::to_string(layer) + (d == 1 ? "_reverse" : "");
      const auto add = [&](const char* name, Shape shape, const Initializer& from) {
        list.push_back(scope.parameter(name + suffix, shape, from));
      };
      add("weight_ih", {rows, layer == 0 ? inputs : w.directions * w.output}, start.input);
      add("weight_hh", {rows, w.output}, start.recurrent);
      if (o.bias) {
        add("bias_ih", {rows}, start.bias_ih);
        add("bias_hh", {rows}, start.bias_hh);
      }
      if (cell == Op::lstm && o.projection > 0) add("weight_hr", {o.projection, w.hidden}, start.projection);
      if (cell == Op::lstm && o.peephole)
        for (const char* name : {"weight_ci", "weight_cf", "weight_co"}) add(name, {w.hidden}, start.peephole);
    }
  return list;
}

void check_options(const RecurrentOptions& o) {
  if (o.hidden < 1 || o.layers < 1)
    throw Error(
        ErrorKind::usage, "recurrent_layer",
        "hidden and layers must be at least 1; got " + std::to_string(o.hidden) + " and " + std::to_string(o.layers));
}

}  // namespace

RecurrentResult recurrent_layer(Scope scope, Op cell, Value x, const RecurrentLayerOptions& options, Value h0, Value c0,
                                Value lengths) {
  check_options(options);
  if (x.rank() != 3) throw Error(ErrorKind::shape, "recurrent_layer", "x must be [T,B,I]; got " + x.shape().text());
  const Widths w = widths_of(cell, options);
  const std::int64_t slots = options.layers * w.directions, batch = x.shape()[1];
  const auto zeros = [&](std::int64_t width) { return filled(scope.graph(), {x.dtype(), {slots, batch, width}}, 0); };

  RecurrentOptions used = options;
  if (!scope.training() || options.layers == 1) used.dropout = 0;
  RecurrentInputs in;
  in.x = x;
  in.h0 = h0 ? h0 : zeros(w.output);
  if (cell == Op::lstm) in.c0 = c0 ? c0 : zeros(w.hidden);
  in.lengths = lengths;
  if (used.dropout > 0) {
    in.key = scope.key();
    used.site = scope.next_site();  // layer l draws at site + l
    for (int layer = 2; layer < options.layers; ++layer) scope.next_site();
  }
  in.parameters = layer_parameters(scope, cell, x.shape()[2], options);
  return recurrent(cell, in, used);
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
  std::string list;
  for (const std::string& cell : known) list += (list.empty() ? "" : ", ") + cell;
  const std::string_view near = nearest_name(o.cell, std::vector<std::string_view>(known.begin(), known.end()));
  const std::string question = near.empty() ? "" : "Did you mean " + std::string(near) + "? ";
  refuse("there is no cell '" + o.cell + "'", question + "Known cells: " + list + "; others are given as text, in a config as [cells.NAME]");
}

RecurrentInit init_of(const std::string& name) {
  if (name == "pytorch") return RecurrentInit::pytorch;
  if (name == "xavier") return RecurrentInit::xavier;
  if (name == "orthogonal") return RecurrentInit::orthogonal;
  refuse("init must be pytorch, xavier or orthogonal; got '" + name + "'");
}

// Every text cell is checked, also those that nobody asks for.
void check_text_cells(const std::vector<TextCell>& cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    make_text_cell(cells[i]);
    for (std::size_t j = 0; j < i; ++j)
      if (cells[j].name == cells[i].name) refuse("there are two text cells '" + cells[i].name + "'", "Rename one");
  }
}

// Options that only some cells have.
void check_model(const RecurrentModelOptions& o) {
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
  if (o.nonlinearity != "tanh" && o.nonlinearity != "relu")
    refuse("nonlinearity must be tanh or relu; got '" + o.nonlinearity + "'");
  if (!find_built_in(o.cell) && !o.bias)
    refuse("bias = false is for rnn, gru and lstm; cell '" + o.cell + "' sets its own parameters");
  if (!find_built_in(o.cell) && init_of(o.init) != RecurrentInit::pytorch)
    refuse("init = '" + o.init + "' is for rnn, gru and lstm; cell '" + o.cell + "' sets its own initial values");
  if (o.hidden < 1 || o.layers < 1) refuse("hidden and layers must be at least 1");
  if (o.projection < 0 || o.projection >= o.hidden) {
    if (o.projection != 0) refuse("projection must be below hidden; got " + std::to_string(o.projection));
  }
  if (!(o.dropout >= 0 && o.dropout < 1)) refuse("dropout must be in [0,1); got " + std::to_string(o.dropout));
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
  return r;
}

}  // namespace

CellLayerResult recurrent_model(Scope scope, Value x, const RecurrentModelOptions& options,
                                std::span<const Value> initial, Value lengths) {
  check_model(options);
  const BuiltIn* built_in = find_built_in(options.cell);
  if (!built_in) {
    const CellLayerOptions o{options.hidden, options.layers, options.bidirectional, options.dropout};
    return cell_layer(scope, require_cell(options), x, o, initial, lengths);
  }
  const std::size_t n_states = built_in->op == Op::lstm ? 2 : 1;
  if (!initial.empty() && initial.size() != n_states)
    refuse(options.cell + " has " + std::to_string(n_states) + " states; got " + std::to_string(initial.size()));
  const RecurrentResult r =
      recurrent_layer(scope, built_in->op, x, layer_options(options), initial.empty() ? Value() : initial[0],
                      initial.size() > 1 ? initial[1] : Value(), lengths);
  return {r.y, n_states == 2 ? std::vector<Value>{r.hn, r.cn} : std::vector<Value>{r.hn}};
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
