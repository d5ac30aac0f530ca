// SPDX-License-Identifier: Apache-2.0
#include "frontends/python/layers.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "unroll/error.h"
#include "unroll/model.h"
#include "unroll/ops.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace unroll::python {

namespace {

// One call of the Python function. Its values are of no use afterwards: the graph may be gone.
struct Building {
  Scope scope;
  bool is_open = true;
};

struct NetworkValue {
  std::shared_ptr<Building> at;
  Value value;

  Value get() const {
    if (!at->is_open)
      throw Error(ErrorKind::usage, "layers", "a value is used after the function that builds the network returned",
                  "Return it from the function");
    return value;
  }
  Value get_beside(const NetworkValue& other) const {
    if (other.at != at) throw Error(ErrorKind::usage, "layers", "values of two networks are mixed");
    return get();
  }
  NetworkValue with(Value v) const { return {at, v}; }
  Scope scope(const std::string& name) const { return name.empty() ? at->scope : at->scope.child(name); }
};

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
template <Value (*function)(Value, Value)>
NetworkValue with_number(const NetworkValue& a, double b) {
  return a.with(function(a.get(), scalar_like(a.get(), b)));
}
template <Value (*function)(Value, Value)>
NetworkValue with_number_before(const NetworkValue& b, double a) {
  return b.with(function(scalar_like(b.get(), a), b.get()));
}

std::int64_t axis_of(const Value& x, std::int64_t axis) {
  if (axis < -x.rank() || axis >= x.rank())
    throw Error(ErrorKind::shape, "layers", "axis " + std::to_string(axis) + " is outside of " + x.shape().text());
  return axis < 0 ? axis + x.rank() : axis;
}

NetworkValue mean_over(const NetworkValue& x, std::int64_t axis) {
  const std::int64_t at = axis_of(x.get(), axis);
  return x.with(reduce_sum(x.get(), {at}) / static_cast<double>(x.get().shape()[static_cast<int>(at)]));
}

void add_value(nb::module_& module) {
  nb::class_<NetworkValue>(module, "Value", "A value of a network while a function builds it. Its shape is known.")
      .def_prop_ro("shape", [](const NetworkValue& v) {
        nb::list dims;
        for (const std::int64_t d : v.get().shape()) dims.append(d);
        return nb::tuple(dims);
      })
      .def_prop_ro("dtype", [](const NetworkValue& v) { return std::string(dtype_name(v.get().dtype())); })
      .def("__repr__", [](const NetworkValue& v) { return "unroll.layers.Value " + v.get().type().text(); })
      .def("__getitem__", [](const NetworkValue& v, std::int64_t k) {
             const std::int64_t n = v.get().rank() == 0 ? 0 : v.get().shape()[0];
             if (k < -n || k >= n) throw nb::index_error("out of range");
             return v.with(row(v.get(), k < 0 ? k + n : k));
           }, "index"_a, "x[k]: element k of the first axis, which the result lacks.")
      .def("__neg__", unary<neg>)
      .def("__add__", binary<add>).def("__add__", with_number<add>).def("__radd__", with_number<add>)
      .def("__sub__", binary<sub>).def("__sub__", with_number<sub>).def("__rsub__", with_number_before<sub>)
      .def("__mul__", binary<mul>).def("__mul__", with_number<mul>).def("__rmul__", with_number<mul>)
      .def("__truediv__", binary<div>).def("__truediv__", with_number<div>)
      .def("__rtruediv__", with_number_before<div>);
}

void add_functions(nb::module_& module) {
  module.def("tanh", unary<tanh>, "x"_a).def("sigmoid", unary<sigmoid>, "x"_a).def("relu", unary<relu>, "x"_a);
  module.def("exp", unary<exp>, "x"_a).def("log", unary<log>, "x"_a).def("silu", unary<silu>, "x"_a);
  module.def("softmax", unary<softmax>, "x"_a, "Softmax over the last axis.");
  module.def("log_softmax", unary<log_softmax>, "x"_a, "Logarithm of softmax over the last axis.");
  module.def("maximum", binary<maximum>, "a"_a, "b"_a).def("minimum", binary<minimum>, "a"_a, "b"_a);
  module.def("matmul", [](const NetworkValue& a, const NetworkValue& b) {
    return a.with(matmul(a.get(), b.get_beside(a)));
  }, "a"_a, "b"_a, "Matrix product [..., M, K] x [..., K, N].");
  module.def("mean", mean_over, "x"_a, "axis"_a, "Mean over an axis, which the result lacks.");
  module.def("sum", [](const NetworkValue& x, std::int64_t axis) {
    return x.with(reduce_sum(x.get(), {axis_of(x.get(), axis)}));
  }, "x"_a, "axis"_a, "Sum over an axis, which the result lacks.");
  module.def("max", [](const NetworkValue& x, std::int64_t axis) {
    return x.with(reduce_max(x.get(), {axis_of(x.get(), axis)}));
  }, "x"_a, "axis"_a, "Largest value over an axis, which the result lacks.");
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

void add_layer_functions(nb::module_& module) {
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
  module.def("dropout", [](const NetworkValue& x, double rate) {
    return x.with(dropout_layer(x.at->scope, x.get(), rate));
  }, "x"_a, "rate"_a, "Set elements to zero with this probability in training; the identity otherwise.");
}

// rnn, gru, lstm and cell of layers.py, which have defaults and documentation.
void add_recurrent(nb::module_& module) {
  module.def("_recurrent", [](const NetworkValue& x, const std::string& cell, std::int64_t hidden, int layers,
                              bool bidirectional, double dropout, bool bias, const std::string& nonlinearity,
                              std::int64_t projection, const std::string& step,
                              const std::vector<std::string>& step_states, const std::string& name,
                              const std::optional<Values>& states, const std::optional<NetworkValue>& lengths) {
    RecurrentModelOptions model{.cell = cell, .hidden = hidden, .layers = layers, .bidirectional = bidirectional,
                                .bias = bias, .dropout = dropout, .projection = projection,
                                .nonlinearity = nonlinearity};
    if (!step.empty()) model.cells.push_back({.name = cell, .states = step_states, .step = step});
    const std::vector<Value> initial = states ? plain(x, *states) : std::vector<Value>();
    const CellLayerResult result = recurrent_model(x.scope(name), x.get(), model, initial,
                                                   lengths ? lengths->get_beside(x) : Value());
    Values after;
    for (const Value& v : result.states) after.push_back(x.with(v));
    return std::pair(x.with(result.y), after);
  });
}

// The function of Python, which copies of the network share. Its last owner may be a thread without Python's lock.
using Function = std::shared_ptr<nb::object>;
Function shared(const nb::object& function) {
  return Function(new nb::object(function), [](nb::object* object) {
    const nb::gil_scoped_acquire lock;
    delete object;
  });
}

TaskGraph task_graph(const nb::object& result, const std::shared_ptr<Building>& at) {
  TaskGraph graph;
  const auto add = [&](const std::string& name, nb::handle value) {
    const auto v = cast_to<NetworkValue>(value, "network", "a value of the network as output '" + name + "'");
    if (v.at != at) throw Error(ErrorKind::usage, "network", "output '" + name + "' belongs to another network");
    graph.outputs.emplace_back(name, v.get());
  };
  if (!nb::isinstance<nb::dict>(result)) {
    add("y", result);
    return graph;
  }
  for (const auto& [name, value] : nb::cast<nb::dict>(result))
    add(cast_to<std::string>(name, "network", "a name"), value);
  if (graph.outputs.empty()) throw Error(ErrorKind::usage, "network", "the function returned no output");
  return graph;
}

Network network_of(const Function& function) {
  return [function](Scope& scope, const Inputs& inputs) {
    const nb::gil_scoped_acquire lock;
    const auto at = std::make_shared<Building>(Building{scope});
    struct Close {
      Building& building;
      ~Close() { building.is_open = false; }
    } close{*at};
    nb::dict named;
    for (const auto& [name, value] : inputs.all()) named[name.c_str()] = NetworkValue{at, value};
    if (!function->is_valid()) throw Error(ErrorKind::usage, "network", "the model is being destroyed");
    return task_graph((*function)(**named), at);
  };
}

struct Built {
  std::vector<ParameterSpec> parameters;
  std::vector<std::pair<std::string, Type>> outputs;
};
Built build_with(const Network& network, const std::vector<TensorSpec>& specs,
                 const std::map<std::string, std::int64_t>& sizes) {
  Graph graph;
  Scope scope(graph, /*training=*/false);
  std::map<std::string, Value, std::less<>> inputs;
  for (const TensorSpec& spec : specs)
    inputs.emplace(spec.name, graph.input(spec.name, {spec.dtype, shape_of(spec, sizes)}));
  const TaskGraph task = network(scope, Inputs(std::move(inputs)));
  Built built{scope.parameters(), {}};
  for (const auto& [name, value] : task.outputs) built.outputs.emplace_back(name, value.type());
  return built;
}

// Axes of an output: those that have another size in the second build are free.
TensorSpec output_spec(const std::string& name, const Type& first, const Type& second,
                       const std::map<std::string, std::int64_t>& a, const std::map<std::string, std::int64_t>& b) {
  TensorSpec spec{name, first.dtype, {}};
  for (int k = 0; k < first.shape.rank(); ++k) {
    Axis axis{"", first.shape[k]};
    if (first.shape[k] != second.shape[k]) {
      axis = {"?", 0};
      for (const auto& [letter, size] : a)
        if (size == first.shape[k] && b.at(letter) == second.shape[k]) axis.letter = letter;
    }
    spec.axes.push_back(axis);
  }
  return spec;
}

}  // namespace

LoadedModel network_model(const NetworkRequest& request) {
  const Function function = shared(request.function);
  std::map<std::string, std::int64_t> first, second;
  for (const TensorSpec& spec : request.inputs)
    for (const Axis& axis : spec.axes)
      if (!axis.letter.empty() && !first.contains(axis.letter)) {
        const auto n = static_cast<std::int64_t>(first.size());
        first.emplace(axis.letter, 3 + 2 * n);
        second.emplace(axis.letter, 4 + 5 * n);
      }
  Inference inference{.inputs = request.inputs, .outputs = {}, .states = {},
                      .network = network_of(function)};
  const Built a = build_with(inference.network, inference.inputs, first);
  const Built b = build_with(inference.network, inference.inputs, second);
  if (a.outputs.size() != b.outputs.size() || a.parameters.size() != b.parameters.size())
    throw Error(ErrorKind::usage, "network", "the function builds another network for other sizes of the free axes");
  for (std::size_t k = 0; k < a.outputs.size(); ++k)
    inference.outputs.push_back(
        output_spec(a.outputs[k].first, a.outputs[k].second, b.outputs[k].second, first, second));
  LoadedModel model({initialize(a.parameters, request.seed), {}}, request.backend, request.threads,
                    std::move(inference));
  model.function = function;
  return model;
}

void add_layers(nb::module_& module) {
  add_value(module);
  add_functions(module);
  add_layer_functions(module);
  add_recurrent(module);
  using Input = std::tuple<std::string, std::string, std::vector<std::string>>;
  module.def("_network", [](const nb::object& function, const std::vector<Input>& inputs, std::uint64_t seed,
                            const std::string& backend, int threads) {
    NetworkRequest request{function, {}, seed, backend, threads};
    for (const auto& [name, dtype, axes] : inputs) {
      TensorSpec spec{name, dtype_from_name(dtype), {}};
      for (const std::string& axis : axes) {
        const bool is_size = !axis.empty() && axis.find_first_not_of("0123456789") == std::string::npos;
        spec.axes.push_back(is_size ? Axis{"", std::stoll(axis)} : Axis{axis, 0});
      }
      request.inputs.push_back(std::move(spec));
    }
    return network_model(request);
  });
}

}  // namespace unroll::python
