// SPDX-License-Identifier: Apache-2.0
#include "frontends/python/network/layers.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "frontends/python/binding/errors.h"
#include "frontends/python/network/value.h"
#include "unroll/ir/ops.h"
#include "unroll/model/model.h"
#include "unroll/support/error.h"
#include "unroll/tasks/inference.h"
#include "unroll/train/trainer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace unroll::python {

namespace {

using Values = std::vector<NetworkValue>;

std::vector<Value> plain(const NetworkValue& like, const Values& from) {
  std::vector<Value> values;
  for (const NetworkValue& v : from) values.push_back(v.get_beside(like));
  return values;
}

template <Value (*function)(Value)>
NetworkValue unary(const NetworkValue& x) {
  return x.with(function(x.get()));
}
template <Value (*function)(Value, Value)>
NetworkValue binary(const NetworkValue& a, const NetworkValue& b) {
  return a.with(function(a.get(), b.get_beside(a)));
}

std::int64_t axis_of(const Value& x, std::int64_t axis) {
  if (axis < -x.rank() || axis >= x.rank())
    throw Error(ErrorKind::shape, "layers", "axis " + std::to_string(axis) + " is outside of " + x.shape().text());
  return axis < 0 ? axis + x.rank() : axis;
}

std::int64_t last_axis(const Value& x) {
  return x.shape()[static_cast<int>(axis_of(x, -1))];
}

void add_functions(nb::module_& module) {
  module.def("tanh", unary<tanh>, "x"_a).def("sigmoid", unary<sigmoid>, "x"_a).def("relu", unary<relu>, "x"_a);
  module.def("exp", unary<exp>, "x"_a).def("log", unary<log>, "x"_a).def("silu", unary<silu>, "x"_a);
  module.def("gelu", unary<gelu>, "x"_a, "Gaussian error linear unit, as torch.nn.functional.gelu.");
  module.def("glu", unary<glu>, "x"_a, "a * sigmoid(b) for the halves a, b of the last axis, as nn.GLU.");
  module.def("softmax", unary<softmax>, "x"_a, "Softmax over the last axis.");
  module.def("log_softmax", unary<log_softmax>, "x"_a, "Logarithm of softmax over the last axis.");
  module.def("maximum", binary<maximum>, "a"_a, "b"_a).def("minimum", binary<minimum>, "a"_a, "b"_a);
  module.def("abs", unary<abs>, "x"_a).def("square", unary<square>, "x"_a).def("sqrt", unary<sqrt>, "x"_a);
  module.def("argmax", [](const NetworkValue& x, std::int64_t axis) {
    return x.with(argmax(x.get(), static_cast<int>(axis_of(x.get(), axis))));
  }, "x"_a, "axis"_a = -1, "int32 index of the first largest value over an axis, which the result lacks.");
  module.def("equal", binary<equal>, "a"_a, "b"_a, "Where a = b: bool. Combine bools with &, | and ~.");
  module.def("less", binary<less>, "a"_a, "b"_a, "Where a < b: bool.");
  module.def("where", [](const NetworkValue& condition, const NetworkValue& a, const NetworkValue& b) {
    return a.with(select(condition.get_beside(a), a.get(), b.get_beside(a)));
  }, "condition"_a, "a"_a, "b"_a, "a where the condition is true, else b.");
  module.def("concat", [](const Values& parts, std::int64_t axis) {
    if (parts.empty()) throw Error(ErrorKind::usage, "layers.concat", "there are no parts");
    return parts[0].with(concat(plain(parts[0], parts), static_cast<int>(axis_of(parts[0].get(), axis))));
  }, "parts"_a, "axis"_a = -1, "Parts side by side along an axis.");
  module.def("slice", [](const NetworkValue& x, std::int64_t axis, std::int64_t start, std::int64_t size) {
    return x.with(slice(x.get(), static_cast<int>(axis_of(x.get(), axis)), start, size));
  }, "x"_a, "axis"_a, "start"_a, "size"_a, "Elements start, ..., start + size - 1 of an axis.");
  module.def("reshape", [](const NetworkValue& x, const std::vector<std::int64_t>& shape) {
    return x.with(reshape(x.get(), Shape(shape)));
  }, "x"_a, "shape"_a);
  module.def("transpose", [](const NetworkValue& x, const std::vector<std::int64_t>& axes) {
    return x.with(transpose(x.get(), axes));
  }, "x"_a, "axes"_a, "Axes in another order.");
}

// The network of a folder or model file, with its parameters as starting values. Further inputs are states: zeros.
NetworkValue imported(const NetworkValue& x, const std::string& path, const std::string& name) {
  const bool is_file = path.ends_with(".safetensors");
  const TensorFile file = load_model(is_file ? path : path + "/best.safetensors");
  const Inference inference = task_inference(file.metadata);
  const TensorSpec& spec = inference.inputs.at(0);
  std::map<std::string, std::int64_t> sizes;
  for (std::size_t k = 0; k < spec.axes.size() && std::cmp_less(k, x.get().rank()); ++k)
    sizes.emplace(spec.axes[k].letter, x.get().shape()[static_cast<int>(k)]);
  if (x.get().type() != Type{spec.dtype, shape_of(spec, sizes)})
    throw Error(ErrorKind::shape, "layers.imported", "x must be " + spec.text() + "; got " + x.get().type().text());
  Graph graph;
  Scope scope(graph, /*training=*/false);
  std::map<std::string, Value, std::less<>> inputs;
  inputs.emplace(spec.name, graph.input(spec.name, x.get().type()));
  for (const TensorSpec& state : std::span(inference.inputs).subspan(1))
    inputs.emplace(state.name, filled(graph, {state.dtype, shape_of(state, sizes)}, 0));
  const TaskGraph network = inference.network(scope, Inputs(std::move(inputs)));
  graph.output("y", network.outputs.at(0).second);
  std::vector<Value> operands{x.get()};
  for (const ParameterSpec& parameter : scope.parameters())
    operands.push_back(x.scope(name).parameter(parameter.name, parameter.type.shape,
                                               Initializer::given(file.tensors.at(parameter.name))));
  return x.with(inline_graph(x.at->scope.graph(), graph, operands)[0]);
}

void add_layer_functions(nb::module_& module) {
  module.def("parameter", [](const std::string& name, const std::vector<std::int64_t>& shape,
                             std::optional<double> start) {
    const auto at = current_building();
    return NetworkValue{at, at->scope.parameter(name, Shape(shape), start ? Initializer::constant(*start)
                                                                          : Initializer::xavier_uniform())};
  }, "name"_a, "shape"_a, "start"_a = nb::none(),
             "A trained float32 value. It starts at the number `start`, or with Xavier's uniform distribution.");
  module.def("linear", [](const NetworkValue& x, std::int64_t outputs, bool bias, const std::string& name) {
    return x.with(linear_layer(x.scope(name), x.get(), outputs, bias));
  }, "x"_a, "outputs"_a, "bias"_a = true, "name"_a = "",
             "x [..., I] -> [..., outputs]. Parameters NAME.weight [outputs, I], NAME.bias [outputs], as nn.Linear.");
  module.def("embedding", [](const NetworkValue& ids, std::int64_t tokens, std::int64_t width,
                             const std::string& name) {
    return ids.with(embedding_layer(ids.scope(name), ids.get(), tokens, width));
  }, "ids"_a, "tokens"_a, "width"_a, "name"_a = "",
             "int32 ids [...] -> [..., width]. Parameter NAME.weight [tokens, width], as nn.Embedding.");
  module.def("layer_norm", [](const NetworkValue& x, double epsilon, const std::string& name) {
    return x.with(layer_norm_layer(x.scope(name), x.get(), epsilon));
  }, "x"_a, "epsilon"_a = 1e-5, "name"_a = "",
             "Normalize the last axis. Parameters NAME.weight, NAME.bias [I], as nn.LayerNorm.");
  module.def("imported", imported, "x"_a, "path"_a, "name"_a = "",
             "The first output of an imported or trained model, whose run folder or file is at `path`, for x as its "
             "first input. Its parameters are trained further; states start from zeros.");
  module.def("dropout", [](const NetworkValue& x, double rate) {
    return x.with(dropout_layer(x.at->scope, x.get(), rate));
  }, "x"_a, "rate"_a, "Set elements to zero with this probability in training; the identity otherwise.");
}

using MaybeValue = std::optional<NetworkValue>;
Value beside(const NetworkValue& x, const MaybeValue& other) { return other ? other->get_beside(x) : Value(); }
std::pair<NetworkValue, NetworkValue> attended(const NetworkValue& like, const AttentionResult& result) {
  return {like.with(result.y), like.with(result.weights)};
}

void add_attention(nb::module_& module) {
  module.def("dot_attention", [](const NetworkValue& q, const NetworkValue& k, const NetworkValue& v,
                                 const MaybeValue& mask, double scale) {
    return attended(q, dot_attention(q.get(), k.get_beside(q), v.get_beside(q), beside(q, mask), scale));
  }, "q"_a, "k"_a, "v"_a, "mask"_a = nb::none(), "scale"_a = 0.0,
             "softmax(scale * q k^T) v of q [B, Q, D], k [B, S, D], v [B, S, E] -> y [B, Q, E], weights [B, Q, S].\n"
             "Positions where the bool mask, which broadcasts to [B, Q, S], is false are ignored. scale 0: 1/sqrt(D).");
  module.def("additive_attention", [](const NetworkValue& q, const NetworkValue& k, const NetworkValue& v,
                                      std::int64_t width, const std::string& name, const MaybeValue& mask) {
    const Scope scope = q.scope(name);
    const auto weight = [&](const char* of, const Shape& shape) {
      return Scope(scope).parameter(of, shape, Initializer::xavier_uniform());
    };
    const Value query = q.get(), key = k.get_beside(q);
    return attended(q, additive_attention(query, key, v.get_beside(q), weight("w_q", {width, last_axis(query)}),
                                          weight("w_k", {width, last_axis(key)}), weight("v_a", {width}),
                                          beside(q, mask)));
  }, "q"_a, "k"_a, "v"_a, "width"_a, "name"_a = "", "mask"_a = nb::none(),
             "Attention with scores v_a . tanh(w_q q + w_k k) (Bahdanau et al. 2015). Shapes as for dot_attention.\n"
             "Parameters NAME.w_q [width, D], NAME.w_k [width, D], NAME.v_a [width].");
  module.def("multi_head_attention", [](const NetworkValue& q, const NetworkValue& k, const NetworkValue& v, int heads,
                                        const std::string& name, const MaybeValue& mask) {
    Scope scope = q.scope(name), out = scope.child("out_proj");
    const std::int64_t E = last_axis(q.get());
    const auto zeros = Initializer::zeros();
    return attended(q, multi_head_attention(
                           q.get(), k.get_beside(q), v.get_beside(q),
                           scope.parameter("in_proj_weight", {3 * E, E}, Initializer::xavier_uniform()),
                           scope.parameter("in_proj_bias", {3 * E}, zeros),
                           out.parameter("weight", {E, E}, Initializer::uniform(1 / std::sqrt(static_cast<double>(E)))),
                           out.parameter("bias", {E}, zeros), heads, beside(q, mask)));
  }, "q"_a, "k"_a, "v"_a, "heads"_a, "name"_a = "", "mask"_a = nb::none(),
             "As nn.MultiheadAttention with batch_first: q [B, Q, E], k and v [B, S, E] -> y [B, Q, E] and the mean\n"
             "weights of the heads [B, Q, S]. Mask as for dot_attention. Parameters NAME.in_proj_weight [3E, E],\n"
             "NAME.in_proj_bias, NAME.out_proj.weight [E, E], NAME.out_proj.bias.");
}

void add_losses(nb::module_& module) {
  module.def("softmax_cross_entropy", binary<softmax_cross_entropy>, "logits"_a, "labels"_a,
             "Logits [..., V] and int32 labels 0, ..., V - 1 [...] -> losses [...]. A negative label has loss 0.");
  module.def("bce", binary<bce>, "logits"_a, "target"_a,
             "Binary cross-entropy of logits with targets from 0 to 1, for each element.");
  module.def("mse", binary<mse>, "prediction"_a, "target"_a, "Squared error of each element.");
  module.def("mae", binary<mae>, "prediction"_a, "target"_a, "Absolute error of each element.");
  module.def("huber", [](const NetworkValue& prediction, const NetworkValue& target, double delta) {
    return prediction.with(huber(prediction.get(), target.get_beside(prediction), delta));
  }, "prediction"_a, "target"_a, "delta"_a = 1.0, "Squared error / 2 up to delta, linear beyond, for each element.");
  module.def("pinball", [](const NetworkValue& prediction, const NetworkValue& target, double quantile) {
    return prediction.with(pinball(prediction.get(), target.get_beside(prediction), quantile));
  }, "prediction"_a, "target"_a, "quantile"_a, "Loss of a quantile forecast, for each element.");
  module.def("sequence_mask", [](const NetworkValue& lengths, std::int64_t steps) {
    return lengths.with(sequence_mask(lengths.get(), steps));
  }, "lengths"_a, "steps"_a, "Whether step t of a sequence exists, t < length: bool [steps, B] of int32 lengths [B].");
  module.def("masked_mean", [](const NetworkValue& x, const NetworkValue& mask) {
    return x.with(masked_mean(x.get(), mask.get_beside(x)));
  }, "x"_a, "mask"_a, "Mean over the elements whose mask is true.");
}

// Binds rnn, gru, lstm and cell of layers.py, which has defaults and documentation.
void add_recurrent(nb::module_& module) {
  module.def("_recurrent", [](const NetworkValue& x, const std::string& cell, std::int64_t hidden, int layers,
                              bool bidirectional, double dropout, bool bias, const std::string& nonlinearity,
                              std::int64_t projection, const std::string& step,
                              const std::vector<std::string>& step_states, const std::string& name,
                              const std::optional<Values>& states, const MaybeValue& lengths) {
    RecurrentModelOptions model{.cell = cell, .hidden = hidden, .layers = layers, .bidirectional = bidirectional,
                                .bias = bias, .dropout = dropout, .projection = projection,
                                .nonlinearity = from_word<Nonlinearity>(nonlinearity, "nonlinearity")};
    if (dropout > 0 && layers == 1)
      warn("dropout has no effect with layers = 1: it acts between layers. For the output write "
           "layers.dropout(y, rate)");
    if (!step.empty()) model.cells.push_back({.name = cell, .states = step_states, .step = step});
    const std::vector<Value> initial = states ? plain(x, *states) : std::vector<Value>();
    const CellLayerResult result = recurrent_model(x.scope(name), x.get(), model, initial,
                                                   beside(x, lengths));
    Values after;
    for (const Value& v : result.states) after.push_back(x.with(v));
    return std::pair(x.with(result.y), after);
  }, "x"_a, "cell"_a, "hidden"_a, "layers"_a, "bidirectional"_a, "dropout"_a, "bias"_a, "nonlinearity"_a,
             "projection"_a, "step"_a, "variables"_a, "name"_a, "states"_a.none(), "lengths"_a.none());
}

}  // namespace

void add_layers(nb::module_& module) {
  add_value(module);
  add_arithmetic(module);
  add_functions(module);
  add_layer_functions(module);
  add_convolutions(module);
  add_attention(module);
  add_losses(module);
  add_recurrent(module);
}

}  // namespace unroll::python
