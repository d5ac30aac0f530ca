// SPDX-License-Identifier: Apache-2.0
#include "core/nn/index_limits.h"

#include <limits>
#include <optional>

#include "unroll/support/error.h"

namespace unroll {

namespace {

constexpr std::int64_t k_any_negative = std::numeric_limits<std::int32_t>::min();

// A part of a graph input, in the order of the input or moved.
struct Part {
  IndexLimit of;
  bool moved;
};

std::vector<Part> sliced(std::vector<Part> parts, const Node& slice) {
  const std::size_t axis = slice.attributes.get<std::int64_t>("axis");
  std::erase_if(parts, [](const Part& part) { return part.moved; });  // the positions of its axes are unknown
  for (Part& part : parts) {
    part.of.begin[axis] += slice.attributes.get<std::int64_t>("start");
    part.of.size[axis] = slice.attributes.get<std::int64_t>("size");
  }
  return parts;
}

// Returns the parts of inputs that a value consists of, through moves only.
std::vector<Part> parts_of(const Graph& graph, ValueId id) {
  const Node& node = graph.node(id.node);
  if (node.op == Op::input) {
    const Shape& shape = graph.type(id).shape;
    const std::size_t rank = shape.rank();
    return {{{node.attributes.get<std::string>("name"), std::vector<std::int64_t>(rank), {shape.begin(), shape.end()},
              0, 0, {}},
             false}};
  }
  if (node.op == Op::slice) return sliced(parts_of(graph, node.inputs[0]), node);
  std::vector<Part> all;
  const bool moves = node.op == Op::reshape || node.op == Op::transpose || node.op == Op::broadcast;
  if (!moves && node.op != Op::concat) return all;
  for (const ValueId& operand : node.inputs)
    for (Part& part : parts_of(graph, operand)) all.push_back({std::move(part.of), true});
  return all;
}

// Returns x of select(x < 0, x + N, x), the form in which ONNX's Gather counts from the end.
std::optional<ValueId> wrapped_index(const Graph& graph, ValueId id) {
  const Node& node = graph.node(id.node);
  if (node.op != Op::select) return std::nullopt;
  const ValueId x = node.inputs[2];
  const Node &below = graph.node(node.inputs[0].node), &sum = graph.node(node.inputs[1].node);
  const bool is_wrap = below.op == Op::less && below.inputs[0] == x && sum.op == Op::add && sum.inputs[0] == x;
  return is_wrap ? std::optional(x) : std::nullopt;
}

std::string in_layer(const Node& node) {
  return node.origin.layer.empty() ? std::string() : " of layer '" + node.origin.layer + "'";
}

struct Lookup {
  ValueId indices;
  std::int64_t least, most;
  std::string what;
};
std::optional<Lookup> lookup_of(const Graph& graph, const Node& node) {
  if (node.op != Op::embedding && node.op != Op::gather && node.op != Op::softmax_cross_entropy) return std::nullopt;
  const Shape& first = graph.type(node.inputs[0]).shape;
  if (node.op == Op::softmax_cross_entropy) {
    const std::int64_t classes = first[first.rank() - 1];
    return Lookup{node.inputs[1], k_any_negative, classes - 1, "the " + std::to_string(classes) + " classes"};
  }
  const std::string rows = "the " + std::to_string(first[0]) + " rows of the table" + in_layer(node);
  if (node.op == Op::embedding) return Lookup{node.inputs[1], 0, first[0] - 1, rows};
  const auto index = wrapped_index(graph, node.inputs[1]);
  return index ? std::optional(Lookup{*index, -first[0], first[0] - 1, rows}) : std::nullopt;
}

[[noreturn]] void refuse(const IndexLimit& limit, const std::string& place, std::int32_t index) {
  const bool is_label = limit.least == k_any_negative;
  throw Error(ErrorKind::usage, "inputs",
              "'" + limit.input + "'" + place + " is " + std::to_string(index) + ", which is outside of " + limit.what +
                  ": expected " + std::to_string(is_label ? 0 : limit.least) + " to " + std::to_string(limit.most) +
                  (is_label ? ", or a negative number for a label to ignore" : ""),
              is_label ? "Number the classes from 0" : "Number the rows from 0, and pad with one of these numbers");
}

void check(const IndexLimit& limit, const Tensor& tensor) {
  if (tensor.dtype() != DType::i32 || tensor.shape().rank() != static_cast<int>(limit.begin.size())) return;
  const auto values = tensor.values<std::int32_t>();
  std::vector<std::int64_t> at = limit.begin;
  const std::size_t rank = at.size();
  std::int64_t n = 1;
  for (const std::int64_t size : limit.size) n *= size;
  for (std::int64_t i = 0; i < n; ++i) {
    std::int64_t offset = 0;
    for (std::size_t k = 0; k < rank; ++k) offset = offset * tensor.shape()[static_cast<int>(k)] + at[k];
    const std::int32_t index = values[offset];
    if (index < limit.least || index > limit.most) {
      std::string place;
      for (const std::int64_t k : at) place += (place.empty() ? "[" : ",") + std::to_string(k);
      refuse(limit, place.empty() ? place : place + "]", index);
    }
    for (std::size_t k = rank; k-- > 0;) {
      if (++at[k] < limit.begin[k] + limit.size[k]) break;
      at[k] = limit.begin[k];
    }
  }
}

}  // namespace

std::vector<IndexLimit> index_limits(const Graph& graph) {
  std::vector<IndexLimit> limits;
  for (const Node& node : graph.nodes()) {
    auto lookup = lookup_of(graph, node);
    if (!lookup) continue;
    for (Part& part : parts_of(graph, lookup->indices)) {
      limits.push_back(std::move(part.of));
      limits.back().least = lookup->least;
      limits.back().most = lookup->most;
      limits.back().what = lookup->what;
    }
  }
  return limits;
}

void check_indices(const std::vector<IndexLimit>& limits, const std::string& input, const Tensor& tensor) {
  for (const IndexLimit& limit : limits)
    if (limit.input == input) check(limit, tensor);
}

void check_indices(const std::vector<IndexLimit>& limits, const TensorMap& inputs) {
  for (const auto& [name, tensor] : inputs) check_indices(limits, name, tensor);
}

}  // namespace unroll
