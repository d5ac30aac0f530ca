// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/sequential/sequential.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "core/support/tensor_role.h"
#include "core/support/text/in_quotes.h"
#include "core/tasks/common/pooling.h"
#include "core/tasks/common/task_parts.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

constexpr std::int64_t k_most_layers = 64;

// The state of a network during construction, after the layers so far.
struct Chain {
  Scope& scope;
  Value x;
  std::span<const Value> initial;    // of all recurrent layers; empty: zeros
  std::vector<Value> states = {};    // after the last step
  bool bidirectional = false;        // of the last recurrent layer
  bool is_stream = false;
};

Scope scope_of(const Chain& chain, const SequentialLayer& layer) {
  return layer.name.empty() ? chain.scope : chain.scope.child(layer.name);
}

void append_embedding(Chain& c, const SequentialLayer& layer) {
  c.x = embedding_layer(scope_of(c, layer), c.x, layer.tokens, layer.size);
}
void append_linear(Chain& c, const SequentialLayer& layer) {
  c.x = linear_layer(scope_of(c, layer), c.x, layer.size, layer.bias);
}
void append_recurrent(Chain& c, const SequentialLayer& layer) {
  const std::size_t n = recurrent_state_names(layer.model).size();
  const auto initial = c.initial.empty() ? c.initial : c.initial.subspan(c.states.size(), n);
  CellLayerResult r = recurrent_model(scope_of(c, layer), c.x, layer.model, initial);
  c.x = r.y;
  c.states.insert(c.states.end(), r.states.begin(), r.states.end());
  c.bidirectional = layer.model.bidirectional;
}
template <Value (*function)(Value)>
void append_function(Chain& c, const SequentialLayer&) {
  c.x = function(c.x);
}
void append_last(Chain& c, const SequentialLayer&) {
  if (!c.is_stream) c.x = row(c.x, c.x.shape()[0] - 1);
}
void append_pooled(Chain& c, const SequentialLayer& layer) {
  if (!c.is_stream) c.x = pooled(c.scope, c.x, layer.kind, c.bidirectional).output;
}

// The input form of a layer. `vector` also accepts steps.
enum class Form : std::uint8_t { ids, steps, vector };
struct KindRow {
  std::string_view kind;
  void (*append)(Chain&, const SequentialLayer&);
  Form reads;       // vector: also accepts steps
  bool pools = false;
  bool reads_all = false;  // needs all steps, so it cannot run as a stream
};
constexpr KindRow k_kinds[] = {{"embedding", append_embedding, Form::ids},
                               {"recurrent", append_recurrent, Form::steps},
                               {"linear", append_linear, Form::vector},
                               {"tanh", append_function<tanh>, Form::vector},
                               {"relu", append_function<relu>, Form::vector},
                               {"sigmoid", append_function<sigmoid>, Form::vector},
                               {"softmax", append_function<softmax>, Form::vector},
                               {"log_softmax", append_function<log_softmax>, Form::vector},
                               {"last", append_last, Form::steps, true},
                               {"final", append_pooled, Form::steps, true},
                               {"mean", append_pooled, Form::steps, true, true},
                               {"max", append_pooled, Form::steps, true, true}};

const KindRow& row_of(const SequentialLayer& layer, ErrorKind error) {
  for (const KindRow& row : k_kinds)
    if (row.kind == layer.kind) return row;
  throw Error(error, "sequential", "unknown layer " + in_quotes(layer.kind),
              "Use embedding, recurrent, linear, tanh, relu, sigmoid, softmax, log_softmax, last, final, mean or "
              "max");
}

std::int64_t width_after(const SequentialLayer& layer, std::int64_t width) {
  if (layer.kind == "embedding" || layer.kind == "linear") return layer.size;
  if (layer.kind != "recurrent") return width;
  const std::int64_t output = layer.model.projection > 0 ? layer.model.projection : layer.model.hidden;
  return output * (layer.model.bidirectional ? 2 : 1);
}

bool reads_ids(const Sequential& model) { return !model.layers.empty() && model.layers[0].kind == "embedding"; }

bool is_pooled(const Sequential& model) {
  return std::ranges::any_of(model.layers,
                             [](const SequentialLayer& l) { return row_of(l, ErrorKind::input_file).pools; });
}

// True if a stream can run the model.
bool is_causal(const Sequential& model) {
  return std::ranges::none_of(model.layers, [](const SequentialLayer& l) {
    return row_of(l, ErrorKind::input_file).reads_all || (l.kind == "recurrent" && l.model.bidirectional);
  });
}

void check(const Sequential& model, ErrorKind error) {
  if (model.layers.empty() || std::ssize(model.layers) > k_most_layers)
    throw Error(error, "sequential", "expected 1 to 64 layers, got " + std::to_string(model.layers.size()));
  Form form = reads_ids(model) ? Form::ids : Form::steps;
  for (const SequentialLayer& layer : model.layers) {
    const KindRow& row = row_of(layer, error);
    const bool fits = row.reads == form || (row.reads == Form::vector && form != Form::ids);
    if (!fits)
      throw Error(error, "sequential", "the layer '" + (layer.name.empty() ? layer.kind : layer.name) + "' cannot " +
                                           (row.reads == Form::ids ? "be behind another layer" : "read one vector "
                                                                                                 "per sequence"),
                  row.reads == Form::ids ? "Put the embedding first" : "Put last, final, mean or max behind it");
    form = row.pools ? Form::vector : form == Form::ids ? Form::steps : form;
  }
}

Value build(Chain& chain, const Sequential& model) {
  for (const SequentialLayer& layer : model.layers) row_of(layer, ErrorKind::input_file).append(chain, layer);
  return chain.x;
}

// Returns the shapes [slots,B,size] of the states of all layers.
std::vector<Shape> state_shapes(const Sequential& model, std::int64_t batch) {
  std::vector<Shape> shapes;
  for (const SequentialLayer& layer : model.layers)
    if (layer.kind == "recurrent")
      for (const Shape& shape : recurrent_state_shapes(layer.model, batch)) shapes.push_back(shape);
  return shapes;
}

std::string key_of(std::int64_t layer) { return "layer." + std::to_string(layer) + "."; }

Sequential sequential_of(const Metadata& metadata) {
  Sequential model{.inputs = get_integer(metadata, "inputs")};
  const std::int64_t n = std::clamp<std::int64_t>(get_integer(metadata, "layers"), 0, k_most_layers + 1);
  for (std::int64_t k = 0; k < n; ++k) {
    Metadata own;
    const std::string prefix = key_of(k);
    for (auto at = metadata.lower_bound(prefix); at != metadata.end() && at->first.starts_with(prefix); ++at)
      own.emplace(at->first.substr(prefix.size()), at->second);
    SequentialLayer layer{.kind = get_text(own, "kind"), .name = get_text(own, "name")};
    if (layer.kind == "embedding") layer.tokens = get_integer(own, "tokens");
    if (layer.kind == "embedding" || layer.kind == "linear") layer.size = get_integer(own, "size");
    if (layer.kind == "linear") layer.bias = get_integer(own, "bias") != 0;
    if (layer.kind == "recurrent") layer.model = get_model_options(own);
    model.layers.push_back(std::move(layer));
  }
  check(model, ErrorKind::input_file);
  return model;
}

}  // namespace

Metadata sequential_metadata(const Sequential& model) {
  check(model, ErrorKind::usage);
  Metadata metadata{{"task", "sequential"},
                    {"inputs", std::to_string(model.inputs)},
                    {"layers", std::to_string(model.layers.size())}};
  for (std::int64_t k = 0; k < std::ssize(model.layers); ++k) {
    const SequentialLayer& layer = model.layers[k];
    Metadata own{{"kind", layer.kind}, {"name", layer.name}};
    if (layer.kind == "embedding") own["tokens"] = std::to_string(layer.tokens);
    if (layer.kind == "embedding" || layer.kind == "linear") own["size"] = std::to_string(layer.size);
    if (layer.kind == "linear") own["bias"] = std::string(1, layer.bias ? '1' : '0');
    if (layer.kind == "recurrent") put_model_options(own, layer.model);
    for (const auto& [key, value] : own) metadata.emplace(key_of(k) + key, value);
  }
  return metadata;
}

Inference sequential_inference(const Metadata& metadata) {
  const Sequential model = sequential_of(metadata);
  const Axis steps{"T", 0}, sequences{"B", 0};
  std::int64_t width = model.inputs;
  for (const SequentialLayer& layer : model.layers) width = width_after(layer, width);
  const std::string in = reads_ids(model) ? "ids" : "x";
  Inference i{.inputs = {{in, reads_ids(model) ? DType::i32 : DType::f32, {steps, sequences}}},
              .outputs = {{"y", DType::f32, {steps, sequences, {"", width}}}}};
  if (!reads_ids(model)) i.inputs[0].axes.push_back({"", model.inputs});
  if (is_pooled(model)) i.outputs[0].axes.erase(i.outputs[0].axes.begin());
  if (is_causal(model))
    for (const Shape& shape : state_shapes(model, 1)) {
      i.states.push_back(state_name(i.states.size()));
      i.inputs.push_back({i.states.back(), DType::f32, {{"", shape[0]}, sequences, {"", shape[2]}}});
      i.outputs.push_back(i.inputs.back());
    }
  i.network = [model, in, names = i.states](Scope& scope, const Inputs& inputs) {
    std::vector<Value> initial;
    for (const std::string& name : names) initial.push_back(inputs[name]);
    Chain chain{scope, inputs[in], initial};
    TaskGraph graph;
    graph.outputs.emplace_back("y", build(chain, model));
    for (std::size_t k = 0; k < names.size(); ++k) graph.outputs.emplace_back(names[k], chain.states[k]);
    return graph;
  };
  return i;
}

StreamModel sequential_stream(const Metadata& metadata) {
  const Sequential model = sequential_of(metadata);
  if (!is_causal(model))
    throw Error(ErrorKind::unsupported, "task_stream",
                "the model is bidirectional, or takes the mean or maximum over all steps: it needs the whole sequence",
                "Use `unroll run` for whole sequences");
  return {.input = reads_ids(model) ? DType::i32 : DType::f32,
          .inputs = model.inputs,
          .state_shapes = [model](std::int64_t lanes) { return state_shapes(model, lanes); },
          .build = [model](Scope& scope, Value x, std::span<const Value> states) {
            Chain chain{.scope = scope, .x = x, .initial = states, .is_stream = true};
            const Value y = build(chain, model);
            return CellLayerResult{y, std::move(chain.states)};
          }};
}

}  // namespace unroll
