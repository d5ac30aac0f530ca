// SPDX-License-Identifier: Apache-2.0
#include "core/ir/input_range.h"

#include <algorithm>
#include <array>

#include "core/ir/graph_edit.h"
#include "core/support/text/in_quotes.h"

namespace unroll {

namespace {

constexpr const char *k_least = "least", *k_most = "most", *k_most_is = "most_is";

// Their results have each element of each operand, and no other.
constexpr std::array k_keeping_elements{Op::reshape, Op::transpose, Op::broadcast, Op::concat,
                                        Op::cast,    Op::stop_gradient};

void check(const Attributes& range, const std::string& what, const Tensor& tensor, ErrorKind kind,
           std::string_view who) {
  if (!range.has(k_most) || tensor.dtype() != DType::i32) return;
  const std::int64_t least = range.get<std::int64_t>(k_least), most = range.get<std::int64_t>(k_most);
  const auto values = tensor.values<std::int32_t>();
  const auto at = std::find_if(values.begin(), values.end(), [&](std::int64_t v) { return v < least || v > most; });
  if (at == values.end()) return;
  throw Error(kind, who,
              what + " has " + std::to_string(*at) + " as element " + std::to_string(at - values.begin()) +
                  "; it must be between " + std::to_string(least) + " and " + std::to_string(most) + ", " +
                  range.get<std::string>(k_most_is));
}

// An input of several layers has the values that all of them accept.
void mark(Attributes& input, const Attributes& range) {
  const auto least = range.get<std::int64_t>(k_least), most = range.get<std::int64_t>(k_most);
  if (most < input.get_or<std::int64_t>(k_most, most + 1)) {
    input.set(k_most, most);
    input.set(k_most_is, range.get<std::string>(k_most_is));
  }
  input.set(k_least, std::max(least, input.get_or<std::int64_t>(k_least, least)));
}

void require(Graph& graph, ValueId id, const Attributes& range) {
  Node& node = GraphEdit::nodes(graph)[id.node];
  if (node.outputs[0].dtype != DType::i32) return;
  if (node.op == Op::input) return mark(node.attributes, range);
  if (node.op == Op::constant)
    return check(range, "a constant", *node.attributes.get<std::shared_ptr<const Tensor>>("value"), ErrorKind::usage,
                 "Graph");
  if (std::ranges::count(k_keeping_elements, node.op) == 0) return;
  for (const ValueId& operand : node.inputs) require(graph, operand, range);
}

}  // namespace

void require_range(Value value, std::int64_t least, std::int64_t most, std::string_view most_is) {
  require(value.graph(), value.id(), {{k_least, least}, {k_most, most}, {k_most_is, std::string(most_is)}});
}

void require_lengths(Value lengths, std::int64_t steps) {
  if (lengths) require_range(lengths, 0, steps, "the number of steps");
}

bool has_ranges(const Graph& graph) {
  return std::ranges::any_of(graph.inputs(), [&](const NamedValue& input) {
    return graph.node(input.value.node).attributes.has(k_most);
  });
}

void copy_ranges(const Graph& source, std::span<const Value> values) {
  for (std::size_t i = 0; i < source.inputs().size(); ++i) {
    const Attributes& range = source.node(source.inputs()[i].value.node).attributes;
    if (range.has(k_most)) require(values[i].graph(), values[i].id(), range);
  }
}

void check_range(const Graph& graph, const NamedValue& input, const Tensor& tensor, ErrorKind kind,
                 std::string_view who) {
  check(graph.node(input.value.node).attributes, "input " + in_quotes(input.name), tensor, kind, who);
}

void check_ranges(const Graph& graph, const TensorMap& tensors, ErrorKind kind, std::string_view who) {
  for (const NamedValue& input : graph.inputs())
    if (const auto at = tensors.find(input.name); at != tensors.end())
      check_range(graph, input, at->second, kind, who);
}

}  // namespace unroll
