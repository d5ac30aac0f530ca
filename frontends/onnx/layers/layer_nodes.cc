// SPDX-License-Identifier: Apache-2.0
// The operators that make layers. The importer has already built each node. Its graph nodes are read if they are
// simpler than the ONNX node. A recurrent node in any layout and order of gates is then `rnn`, `gru` or `lstm`.
#include <algorithm>
#include <array>

#include "frontends/onnx/layers/walk.h"

namespace unroll::onnx {
namespace {

using Outputs = std::vector<Value>;

// Returns the first node of these ops appended since `first`.
const Node* find_node(const Graph& graph, std::int32_t first, std::initializer_list<Op> ops, std::int32_t& at) {
  for (at = first; at < static_cast<std::int32_t>(graph.nodes().size()); ++at)
    if (std::ranges::count(ops, graph.node(at).op) > 0) return &graph.node(at);
  return nullptr;
}

void require_rows(const LayerWalk& walk, const Tensor& places) {
  const std::int64_t width = walk.stage->width;
  const int rank = places.shape().rank();
  const auto found = places.values<std::int32_t>();
  bool is_row = rank > 0 && places.shape()[rank - 1] == width;
  for (std::size_t k = 0; is_row && k < found.size(); ++k)
    is_row = found[k] % width == static_cast<std::int64_t>(k) % width;
  if (!is_row) walk.refuse("works over another axis than the last one of the layer before it");
}

void recurrent_layer(LayerWalk& walk, Call& call, std::int32_t first, const Outputs&) {
  Graph& graph = call.graph();
  std::int32_t at = 0;
  const Node* const found = find_node(graph, first, {Op::rnn, Op::gru, Op::lstm}, at);
  if (!found)
    walk.refuse("its direction, activations, clip or input_forget have no recurrent layer of a folder");
  const Node node = *found;
  const Attributes& a = node.attributes;
  if (a.get_or<bool>("lengths", false)) walk.refuse("sequence_lens has no counterpart in a folder");
  const auto in = [&](std::size_t k) { return graph.value(node.inputs[k]); };
  const Tensor places = walk.read(in(0));
  if (!walk.are_steps(places, 0, /*decide=*/true)) walk.refuse("does not read rows of steps and sequences");

  RecurrentModelOptions model;
  model.cell = std::string(op_info(node.op).name);
  model.hidden = a.get<std::int64_t>("hidden");
  model.bidirectional = a.get_or<bool>("bidirectional", false);
  model.bias = a.get_or<bool>("bias", false);
  if (node.op == Op::rnn) model.nonlinearity = a.get_or<bool>("relu", false) ? Nonlinearity::relu : Nonlinearity::tanh;
  if (node.op == Op::gru) model.reset_after = a.get_or<bool>("reset_after", false);
  if (node.op == Op::lstm) model.peephole = a.get_or<bool>("peephole", false);
  FoundLayer layer{.layer = {.kind = "recurrent", .model = model}, .node = call.node.name};
  std::size_t next = 1;
  for (; next < (node.op == Op::lstm ? 3u : 2u); ++next) {
    const Value state = in(next);
    const Tensor* const ids = walk.depends(state) ? walk.ids(state) : nullptr;
    if (walk.depends(state) && !ids) walk.refuse("an initial state is computed from an input");
    const Tensor value = ids ? Tensor() : walk.constant(state);
    for (std::int64_t k = 0; !ids && k < value.elements(); ++k)
      if (value.at(k) != 0) walk.refuse("an initial state is a constant other than zero");
    layer.initial.push_back(ids ? *ids : Tensor(DType::i32, {0}));
  }
  std::vector<std::string> names{"weight_ih", "weight_hh"};
  if (model.bias) names.insert(names.end(), {"bias_ih", "bias_hh"});
  if (model.peephole) names.insert(names.end(), {"weight_ci", "weight_cf", "weight_co"});
  for (const char* direction : {"", "_reverse"}) {
    if (*direction != 0 && !model.bidirectional) continue;
    for (const std::string& name : names) {
      walk.expect_constant(in(next), name);
      layer.parameters.push_back({name + direction, in(next++)});
    }
  }
  std::vector<Value> outputs;
  for (std::int32_t k = 0; k < static_cast<std::int32_t>(node.outputs.size()); ++k)
    outputs.push_back(graph.value({at, k}));
  walk.append_recurrent(std::move(layer), outputs);
}

void append_linear(LayerWalk& walk, Call& call, Value x, Value weight, Value bias, Value out) {
  const Tensor places = walk.read(x);
  require_rows(walk, places);
  FoundLayer layer{.layer = {.kind = "linear", .size = weight.shape()[0], .bias = bool(bias)},
                   .parameters = {{"weight", weight}}, .node = call.node.name};
  if (bias) layer.parameters.push_back({"bias", bias});
  walk.append(std::move(layer), out, places, weight.shape()[0]);
}

// Returns a vector [width] that is added to each row; empty if `value` is none.
Value row_vector(Value value, std::int64_t width) {
  const bool fits = value.rank() > 0 && value.shape()[value.rank() - 1] == width && value.shape().elements() == width;
  return fits ? reshape(value, {width}) : Value();
}

void product(LayerWalk& walk, Call& call, std::int32_t, const Outputs& outputs) {
  const Value x = call.in(0), w = call.in(1);
  walk.expect_constant(w, "the second factor");
  if (w.rank() != 2) walk.refuse("the second factor is " + w.type().text() + ", not a matrix");
  append_linear(walk, call, x, transpose(w, {1, 0}), {}, outputs[0]);
}

void gemm(LayerWalk& walk, Call& call, std::int32_t, const Outputs& outputs) {
  const double alpha = call.number("alpha", 1), beta = call.number("beta", 1);
  Value w = call.in(1);
  walk.expect_constant(w, "the second factor");
  if (call.integer("transA", 0) != 0 || w.rank() != 2) walk.refuse("is no product of rows with a matrix");
  if (call.integer("transB", 0) == 0) w = transpose(w, {1, 0});
  if (alpha != 1) w = w * alpha;
  Value bias;
  if (call.has(2)) {
    walk.expect_constant(call.in(2), "the bias");
    bias = row_vector(call.in(2), w.shape()[0]);
    if (!bias) walk.refuse("adds " + call.in(2).type().text() + ", which is no bias of its outputs");
    if (beta != 1) bias = bias * beta;
  }
  append_linear(walk, call, call.in(0), w, bias, outputs[0]);
}

// Adds a bias to the previous linear layer.
void addition(LayerWalk& walk, Call& call, std::int32_t, const Outputs& outputs) {
  const bool first = walk.depends(call.in(0)), second = walk.depends(call.in(1));
  if (first && second) walk.refuse("adds two computed values: a skip connection has no counterpart in a folder");
  const Value x = call.in(first ? 0 : 1), b = call.in(first ? 1 : 0);
  FoundLayer* const last = walk.layers.empty() ? nullptr : &walk.layers.back();
  const Tensor* const ids = walk.ids(x);
  if (!last || last->layer.kind != "linear" || last->layer.bias || !ids || !walk.is_whole(*ids) ||
      outputs[0].shape() != x.shape())
    walk.refuse("adds a constant, and is not behind a linear layer without a bias");
  const Value bias = row_vector(b, last->layer.size);
  if (!bias) walk.refuse("adds " + b.type().text() + ", which is no bias of its outputs");
  require_rows(walk, walk.read(x));
  last->layer.bias = true;
  last->parameters.push_back({"bias", bias});
  walk.rename(x, outputs[0]);
}

void embedding(LayerWalk& walk, Call& call, std::int32_t, const Outputs& outputs) {
  const Value table = call.in(0), tokens = call.in(1);
  if (walk.depends(table)) walk.refuse("its indices or its table are computed");
  if (table.rank() != 2 || call.integer("axis", 0) != 0)
    walk.refuse("is no embedding: its table is not a matrix of rows");
  const Tensor places = walk.read(tokens);
  if (!walk.layers.empty()) walk.refuse("an embedding must be the first layer");
  walk.append({.layer = {.kind = "embedding", .size = table.shape()[1], .tokens = table.shape()[0]},
               .parameters = {{"weight", table}}, .node = call.node.name},
              outputs[0], places, table.shape()[1]);
}

template <std::size_t n>
struct Word {
  char text[n];
  constexpr Word(const char (&word)[n]) { std::copy_n(word, n, text); }
};

template <Word kind>
void function(LayerWalk& walk, Call& call, std::int32_t, const Outputs& outputs) {
  const Tensor places = walk.read(call.in(0));
  walk.append({.layer = {.kind = kind.text}, .node = call.node.name}, outputs[0], places, walk.stage->width);
}

// unroll's export writes relu(x) as max(x, 0).
void maximum_with_zero(LayerWalk& walk, Call& call, std::int32_t first, const Outputs& outputs) {
  const Value bound = call.n_inputs() == 2 ? call.in(1) : call.in(0);
  const Tensor zero = walk.depends(bound) ? Tensor() : walk.constant(bound);
  if (zero.elements() != 1 || zero.at(0) != 0 || walk.depends(bound) || outputs[0].shape() != call.in(0).shape())
    walk.refuse("is no layer of a model folder");
  function<"relu">(walk, call, first, outputs);
}

// Zeros for tokens outside the embedding, as unroll reads them.
void zero_rows(LayerWalk& walk, Call& call, std::int32_t, const Outputs& outputs) {
  const Value is_inside = call.in(0), rows = call.in(1), zero = call.in(2);
  const Tensor* const tokens = walk.depends(is_inside) ? walk.ids(is_inside) : nullptr;
  const Tensor* const ids = walk.ids(rows);
  const bool fits = tokens && walk.is_tokens(*tokens) && ids && walk.is_whole(*ids) && !walk.depends(zero) &&
                    walk.layers.size() == 1 && walk.layers[0].layer.kind == "embedding" &&
                    outputs[0].shape() == rows.shape();
  if (!fits || zero.shape().elements() != 1 || walk.constant(zero).at(0) != 0)
    walk.refuse("is no layer of a model folder");
  walk.rename(rows, outputs[0]);
}

template <Word kind>
void over_row(LayerWalk& walk, Call& call, std::int32_t, const Outputs& outputs) {
  const Value x = call.in(0);
  const Tensor places = walk.read(x);
  require_rows(walk, places);
  const std::int64_t axis = call.integer("axis", call.opset() >= 13 ? -1 : 1);
  if (call.axis(axis, x.rank()) != x.rank() - 1) walk.refuse("works over another axis than the last one");
  walk.append({.layer = {.kind = kind.text}, .node = call.node.name}, outputs[0], places, walk.stage->width);
}

template <Word kind>
void over_steps(LayerWalk& walk, Call& call, std::int32_t first, const Outputs& outputs) {
  const Tensor places = walk.read(call.in(0));
  std::int32_t at = 0;
  const Node* const node = find_node(call.graph(), first, {Op::reduce_sum, Op::reduce_max}, at);
  const Ints axes = node ? node->attributes.get<Ints>("axes") : Ints{};
  if (axes.size() != 1 || axes[0] > 1 || !walk.are_steps(places, static_cast<int>(axes[0])))
    walk.refuse("works over another axis than the steps of a recurrent layer");
  walk.append_pooling(kind.text, outputs[0]);
}

struct Row {
  std::string_view op;
  LayerBuilder build;
};
constexpr Row k_node_rows[] = {{"RNN", recurrent_layer},
                          {"GRU", recurrent_layer},
                          {"LSTM", recurrent_layer},
                          {"MatMul", product},
                          {"Gemm", gemm},
                          {"Add", addition},
                          {"Gather", embedding},
                          {"Tanh", function<"tanh">},
                          {"Relu", function<"relu">},
                          {"Max", maximum_with_zero},
                          {"Where", zero_rows},
                          {"Sigmoid", function<"sigmoid">},
                          {"Softmax", over_row<"softmax">},
                          {"LogSoftmax", over_row<"log_softmax">},
                          {"ReduceMean", over_steps<"mean">},
                          {"ReduceMax", over_steps<"max">}};

}  // namespace

LayerBuilder find_layer(std::string_view op) {
  const auto* const found = std::ranges::find(k_node_rows, op, &Row::op);
  return found == std::end(k_node_rows) ? nullptr : found->build;
}

}  // namespace unroll::onnx
