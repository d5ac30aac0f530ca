// SPDX-License-Identifier: Apache-2.0
// Builds a named model from the found layers: stacks, parameters, states, and the positions of the ONNX model's tensors
// in it. L layers of a stack, D directions, T steps, B sequences, H hidden.
#include "frontends/onnx/layers/import_layers.h"

#include <algorithm>
#include <array>
#include <set>

#include "core/support/tensor_role.h"
#include "frontends/onnx/layers/walk.h"

namespace unroll::onnx {
namespace {

constexpr std::array<std::string_view, 9> k_leaves{"weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_ci",
                                                   "weight_cf", "weight_co", "weight", "bias"};

// Returns "encoder.rnn" for "encoder.rnn.weight_ih_l0.W"; nullopt if no part is a parameter name.
std::optional<std::string> path_of_parameter(const std::string& name) {
  for (std::size_t at = 0; at != std::string::npos; at = name.find('.', at) == std::string::npos
                                                             ? std::string::npos : name.find('.', at) + 1) {
    const std::string_view part = std::string_view(name).substr(at, name.find('.', at) - at);
    const bool is_leaf = std::ranges::any_of(k_leaves, [&](std::string_view leaf) {
      return part == leaf || (leaf.find('_') != std::string::npos && part.starts_with(leaf));
    });
    if (is_leaf) return name.substr(0, at == 0 ? 0 : at - 1);
  }
  return std::nullopt;
}

// Returns "encoder.rnn" for "/encoder/rnn/LSTM_1".
std::optional<std::string> path_of_node(const std::string& name) {
  if (name.size() < 2 || name[0] != '/') return std::nullopt;
  const std::size_t end = name.rfind('/');
  std::string path = end == 0 ? "" : name.substr(1, end - 1);
  std::ranges::replace(path, '/', '.');
  return path;
}

bool is_name(const std::string& path) {
  return path.size() <= 200 && std::ranges::all_of(path, [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '.' || c == '-';
  });
}

class Assembly {
 public:
  Assembly(LayerWalk& walk, const Model& model) : walk_(walk), model_(model) {}

  LayerImport run(Graph& graph);

 private:
  struct Slot {  // position of a recurrent layer in its stack
    std::size_t first_state = 0;  // index of the stack's first state
    std::int64_t offset = 0;      // slots before it
  };
  struct Element {  // element of one of unroll's tensors
    std::string name;
    std::int32_t at = 0;
  };

  std::set<std::string> sources_of(Value value) const;
  std::string path_of(const FoundLayer& found) const;
  void add_layer(const FoundLayer& found);
  void add_parameter(const FoundParameter& parameter, const SequentialLayer& layer);
  void place_states();
  PlacedTensor placed_input(const InputBlock& input) const;
  PlacedTensor placed_output(const std::string& name, Value value) const;
  Element element_of_y(std::int32_t place) const;

  LayerWalk& walk_;
  const Model& model_;
  LayerImport result_;
  std::vector<std::pair<const FoundLayer*, Slot>> recurrent_;
  std::size_t n_states_ = 0;
  std::map<std::int32_t, Element> initial_, final_;  // by id
};

std::set<std::string> Assembly::sources_of(Value value) const {
  std::set<std::string> names;
  std::set<std::int32_t> seen;
  std::vector<std::int32_t> open{value.id().node};
  while (!open.empty()) {
    const std::int32_t at = open.back();
    open.pop_back();
    if (!seen.insert(at).second) continue;
    if (const auto found = walk_.initializers.find({at, 0}); found != walk_.initializers.end())
      if (value.graph().type(found->first).dtype == value.dtype()) names.insert(found->second);
    for (const ValueId input : value.graph().node(at).inputs) open.push_back(input.node);
  }
  return names;
}

// Returns PyTorch's module path, from the names of its parameters or of the node; otherwise the kind of the layer.
std::string Assembly::path_of(const FoundLayer& found) const {
  for (const FoundParameter& parameter : found.parameters)
    for (const std::string& source : sources_of(parameter.value))
      if (const auto path = path_of_parameter(source); path && is_name(*path)) return *path;
  if (const auto path = path_of_node(found.node); path && is_name(*path)) return *path;
  return found.layer.kind == "recurrent" ? found.layer.model.cell : found.layer.kind;
}

void Assembly::add_layer(const FoundLayer& found) {
  Sequential& model = result_.imported.model;
  SequentialLayer layer = found.layer;
  const bool is_recurrent = layer.kind == "recurrent";
  if (!found.parameters.empty()) layer.name = path_of(found);
  SequentialLayer* const last = model.layers.empty() ? nullptr : &model.layers.back();
  const auto continues = [&] {
    RecurrentModelOptions a = last->model, b = layer.model;
    return last->kind == "recurrent" && last->name == layer.name && a.cell == b.cell && a.hidden == b.hidden &&
           a.bidirectional == b.bidirectional && a.bias == b.bias && a.nonlinearity == b.nonlinearity &&
           a.reset_after == b.reset_after && a.peephole == b.peephole;
  };
  if (is_recurrent && last && continues()) {
    ++last->model.layers;
    recurrent_.emplace_back(&found, Slot{recurrent_.back().second.first_state,
                                         recurrent_.back().second.offset + (layer.model.bidirectional ? 2 : 1)});
  } else {
    const std::string stem = layer.name;
    const auto is_taken = [&](const std::string& name) {
      return std::ranges::any_of(model.layers, [&](const SequentialLayer& l) {
        return l.name == name && (l.kind == "embedding" || l.kind == "linear" || l.kind == "recurrent");
      });
    };
    for (int k = 2; !found.parameters.empty() && is_taken(layer.name); ++k)
      layer.name = (stem.empty() ? layer.kind : stem) + "_" + std::to_string(k);
    model.layers.push_back(layer);
    if (is_recurrent) {
      recurrent_.emplace_back(&found, Slot{n_states_, 0});
      n_states_ += found.initial.size();
    }
  }
  for (const FoundParameter& parameter : found.parameters) add_parameter(parameter, model.layers.back());
}

void Assembly::add_parameter(const FoundParameter& parameter, const SequentialLayer& layer) {
  std::string leaf = parameter.name, reverse;
  if (layer.kind == "recurrent") {
    if (const std::size_t at = leaf.find("_reverse"); at != std::string::npos) reverse = leaf.substr(at);
    leaf = leaf.substr(0, leaf.size() - reverse.size()) + "_l" + std::to_string(layer.model.layers - 1) + reverse;
  }
  const std::string name = layer.name.empty() ? leaf : layer.name + "." + leaf;
  // Several tensors of the file may be one operand: this one names the source.
  std::set<std::string> sources = walk_.initializers.empty() ? std::set<std::string>{} : sources_of(parameter.value);
  const auto own = std::ranges::find_if(
      sources, [&](const std::string& s) { return s == leaf || s.ends_with("." + leaf); });
  if (own != sources.end()) sources = {*own};
  MappedTensor row{.from = {}, .to = name, .stored = {}};
  for (const std::string& source : sources) {
    row.from += (row.from.empty() ? "" : ", ") + source;
    row.stored += (row.stored.empty() ? "" : ", ") + model_.graph.initializers.at(source)->type().text();
  }
  if (sources.empty()) row.from = "constants", row.stored = parameter.value.type().text();
  result_.imported.mapping.push_back(std::move(row));
  result_.imported.parameters.emplace(name, walk_.constant(parameter.value).cast(DType::f32));
}

// Element k of a state [D,B,H] of one layer is element (slots before it) * B * H + k of unroll's state [L*D,B,H].
void Assembly::place_states() {
  for (const auto& [found, slot] : recurrent_) {
    for (std::size_t s = 0; s < found->final.size(); ++s) {
      const std::string name = state_name(slot.first_state + s);
      const Shape& shape = found->final[s].shape();
      const std::int64_t first = slot.offset * shape[1] * shape[2];
      const auto element = [&](std::int64_t k) { return Element{name, static_cast<std::int32_t>(first + k)}; };
      const auto add = [&](const Tensor& ids, std::map<std::int32_t, Element>& to) {
        const auto list = ids.values<std::int32_t>();
        for (std::size_t k = 0; k < list.size(); ++k) to.emplace(list[k], element(static_cast<std::int64_t>(k)));
      };
      add(found->initial[s], initial_);
      add(found->final[s], final_);
    }
  }
}

// Rows of y are steps and sequences, like those of x, or sequences only.
Assembly::Element Assembly::element_of_y(std::int32_t place) const {
  if (walk_.is_pooled) return {"y", place};
  const std::int64_t row = place / walk_.stage->width, e = place % walk_.stage->width;
  const bool first = *walk_.time_first;
  const std::int64_t t = first ? row / walk_.rows_q : row % walk_.rows_q;
  const std::int64_t b = first ? row % walk_.rows_q : row / walk_.rows_q;
  return {"y", static_cast<std::int32_t>((t * walk_.batch() + b) * walk_.stage->width + e)};
}

struct Placing {
  PlacedTensor placed;
  void add(const std::string& name, std::int32_t at) {
    auto found = std::ranges::find(placed.names, name);
    if (found == placed.names.end()) found = placed.names.insert(found, name);
    placed.ours.push_back(static_cast<std::int32_t>(found - placed.names.begin()));
    placed.elements.push_back(at);
  }
};

PlacedTensor Assembly::placed_input(const InputBlock& input) const {
  Placing placing{{.name = input.name, .type = input.type, .names = {}, .ours = {}, .elements = {}}};
  const bool is_x = &input == &walk_.inputs[walk_.first_input];
  const std::int64_t width = is_x && input.type.shape.rank() == 3 ? input.type.shape[2] : 1;
  for (std::int32_t k = 0; k < input.type.shape.elements(); ++k) {
    if (is_x) {
      const std::int64_t row = k / width, p = row / walk_.rows_q, q = row % walk_.rows_q;
      const std::int64_t at = *walk_.time_first ? row : q * walk_.rows_p + p;
      placing.add(input.type.dtype == DType::i32 ? "ids" : "x", static_cast<std::int32_t>(at * width + k % width));
      continue;
    }
    const auto found = initial_.find(input.first + k);
    if (found == initial_.end())
      walk_.refuse("a part of the input '" + input.name + "' is not the initial state of a layer");
    placing.add(found->second.name, found->second.at);
  }
  return placing.placed;
}

PlacedTensor Assembly::placed_output(const std::string& name, Value value) const {
  Placing placing{{.name = name, .type = value.type(), .names = {}, .ours = {}, .elements = {}}};
  const Tensor* const ids = walk_.ids(value);
  if (!ids) walk_.refuse("is not computed by a layer");
  const bool is_y = walk_.is_whole(*ids);
  for (const std::int32_t id : ids->values<std::int32_t>()) {
    const auto found = final_.find(id);
    if (!is_y && found == final_.end())
      walk_.refuse("is neither the output of the last layer nor a state after the last step");
    const Element at = is_y ? element_of_y(id - walk_.stage->first) : found->second;
    placing.add(at.name, at.at);
  }
  return placing.placed;
}

LayerImport Assembly::run(Graph& graph) {
  // The output of the last layer is y. If no output contains all of it, the first output ends with a pooling.
  std::vector<std::pair<std::string, Value>> outputs;
  for (const NamedValue& each : graph.outputs()) outputs.emplace_back(each.name, graph.value(each.value));
  const auto whole = std::ranges::find_if(outputs, [&](const auto& each) {
    const Tensor* const ids = walk_.ids(each.second);
    return ids && walk_.is_whole(*ids);
  });
  walk_.place = "output '" + outputs[0].first + "'";
  if (!walk_.time_first) walk_.refuse("the model has no recurrent layer");
  if (whole != outputs.end()) std::rotate(outputs.begin(), whole, whole + 1);
  walk_.read(outputs[0].second);
  if (walk_.inputs[walk_.first_input].type.dtype != DType::i32)
    result_.imported.model.inputs = walk_.inputs[walk_.first_input].type.shape[2];
  for (const FoundLayer& found : walk_.layers) add_layer(found);
  place_states();
  for (const NamedValue& input : graph.inputs()) {
    walk_.place = "input '" + input.name + "'";
    const auto block = std::ranges::find(walk_.inputs, input.name, &InputBlock::name);
    if (block == walk_.inputs.end()) walk_.refuse("no layer reads it");
    result_.inputs.push_back(placed_input(*block));
  }
  for (const auto& [name, value] : outputs) {
    walk_.place = "output '" + name + "'";
    result_.outputs.push_back(placed_output(name, value));
  }
  result_.sizes = {{"T", walk_.steps()}, {"B", walk_.batch()}};
  return std::move(result_);
}

}  // namespace

LayerImport import_layers(const Model& model, const std::map<std::string, Type>& types) {
  LayerWalk walk(model);
  const ImportedGraph imported = Importer(model, {}, &walk).run(types);
  return Assembly(walk, model).run(*imported.graph);
}

}  // namespace unroll::onnx
