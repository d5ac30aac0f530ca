// SPDX-License-Identifier: Apache-2.0
#include "frontends/python/network/model.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <tuple>
#include <utility>

#include "unroll/support/error.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace unroll::python {

namespace {

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

// Returns the axes of an output: axes with another size in the second build are free.
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

BuiltNetwork build_network(const Function& function, std::vector<TensorSpec> inputs) {
  std::map<std::string, std::int64_t> first, second;
  for (const TensorSpec& spec : inputs)
    for (const Axis& axis : spec.axes)
      if (!axis.letter.empty() && !first.contains(axis.letter)) {
        const auto n = static_cast<std::int64_t>(first.size());
        first.emplace(axis.letter, 3 + 2 * n);
        second.emplace(axis.letter, 4 + 5 * n);
      }
  Inference inference{.inputs = std::move(inputs), .outputs = {}, .states = {}, .network = network_of(function)};
  Built a = build_with(inference.network, inference.inputs, first);
  const Built b = build_with(inference.network, inference.inputs, second);
  if (a.outputs.size() != b.outputs.size() || a.parameters.size() != b.parameters.size())
    throw Error(ErrorKind::usage, "network", "the function builds another network for other sizes of the free axes");
  for (std::size_t k = 0; k < a.outputs.size(); ++k)
    inference.outputs.push_back(
        output_spec(a.outputs[k].first, a.outputs[k].second, b.outputs[k].second, first, second));
  return {std::move(inference), std::move(a.parameters)};
}

LoadedModel network_model(const Function& function, Inference inference, TensorFile parameters,
                          const std::string& backend, int threads) {
  LoadedModel model(std::move(parameters), backend, threads, std::move(inference));
  model.function = function;
  return model;
}

void add_network_model(nb::module_& module) {
  using Input = std::tuple<std::string, std::string, std::vector<std::string>>;
  module.def("_network", [](const nb::object& function, const std::vector<Input>& inputs, std::uint64_t seed,
                            const std::string& backend, int threads) {
    std::vector<TensorSpec> specs;
    for (const auto& [name, dtype, axes] : inputs) {
      TensorSpec spec{name, dtype_from_name(dtype), {}};
      for (const std::string& axis : axes) {
        const bool is_size = !axis.empty() && axis.find_first_not_of("0123456789") == std::string::npos;
        spec.axes.push_back(is_size ? Axis{"", std::stoll(axis)} : Axis{axis, 0});
      }
      specs.push_back(std::move(spec));
    }
    const Function shared_function = shared(function);
    BuiltNetwork built = build_network(shared_function, std::move(specs));
    return network_model(shared_function, std::move(built.inference), {initialize(built.parameters, seed), {}}, backend,
                         threads);
  }, "network"_a, "inputs"_a, "seed"_a, "backend"_a, "threads"_a);
}

}  // namespace unroll::python
