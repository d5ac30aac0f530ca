// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/free_sizes.h"

#include <algorithm>
#include <set>

#include "frontends/onnx/import.h"
#include "unroll/support/error.h"
#include "unroll/support/result.h"

namespace unroll::onnx {
namespace {

std::string name_of(const ValueDef& input, std::size_t axis) {
  const Dimension& d = (*input.shape)[axis];
  return d.symbol.empty() ? input.name + "." + std::to_string(axis) : d.symbol;
}

bool can_import(const Model& model, const FreeSizes& sizes, const TensorMap& known) {
  const auto graph = attempt([&] { return import_graph(model, input_types(model, sizes), known).graph; });
  if (!graph.ok()) return false;
  for (const Node& node : graph.value()->nodes())  // windows that do not fit give nothing
    for (const Type& type : node.outputs)
      if (type.shape.elements() == 0) return false;
  return true;
}

std::set<std::int64_t> parameter_sizes(const Model& model) {
  std::set<std::int64_t> found;
  for (const auto& [name, tensor] : model.graph.initializers)
    for (const std::int64_t size : tensor->shape())
      if (size > 0) found.insert(size);
  return found;
}

}  // namespace

std::vector<FreeDimension> free_dimensions(const Model& model) {
  std::vector<FreeDimension> found;
  for (const ValueDef& input : required_inputs(model)) {
    if (!input.shape) continue;
    for (std::size_t axis = 0; axis < input.shape->size(); ++axis) {
      const Dimension& d = (*input.shape)[axis];
      const std::string name = name_of(input, axis);
      if (d.size < 0 && !std::ranges::count(found, name, &FreeDimension::name))
        found.push_back({name, d.symbol.empty() ? "axis " + std::to_string(axis) : d.symbol});
    }
  }
  return found;
}

FreeSizes sizes_in_order(const Model& model, std::vector<std::int64_t> sizes) {
  FreeSizes by_group, by_name;
  for (const FreeDimension& d : free_dimensions(model)) {
    const std::size_t n = by_group.size();
    if (n >= sizes.size()) sizes.push_back(sizes.back() + 2);
    by_name.emplace(d.name, by_group.emplace(d.group, sizes[n]).first->second);
  }
  return by_name;
}

std::map<std::string, Type> input_types(const Model& model, const FreeSizes& sizes) {
  std::map<std::string, Type> types;
  for (const ValueDef& input : required_inputs(model)) {
    const ElementType* const element = find_element_type(input.element_type);
    if (!element || !input.shape)
      throw Error(ErrorKind::unsupported, model.file, "the type of input '" + input.name + "' is not given");
    std::vector<std::int64_t> dims;
    for (const Dimension& d : *input.shape) {
      const auto at = sizes.find(name_of(input, dims.size()));
      dims.push_back(d.size >= 0 ? d.size : at == sizes.end() ? 1 : at->second);
    }
    types.emplace(input.name, Type{element->dtype, Shape(dims)});
  }
  return types;
}

FreeSizes sizes_of_parameters(const Model& model, const FreeSizes& sizes, const TensorMap& known) {
  if (can_import(model, sizes, known)) return {};
  std::vector<FreeDimension> dimensions = free_dimensions(model);
  std::ranges::reverse(dimensions);  // features are last in most files
  for (const FreeDimension& d : dimensions) {
    std::vector<std::int64_t> fitting;
    for (const std::int64_t size : parameter_sizes(model)) {
      FreeSizes tried = sizes;
      tried[d.name] = size;
      if (can_import(model, tried, known)) fitting.push_back(size);
    }
    if (fitting.size() > 1 && fitting[0] == 1) fitting.erase(fitting.begin());  // it repeats to any size
    if (fitting.size() == 1) return {{d.name, fitting[0]}};
  }
  return {};
}

}  // namespace unroll::onnx
