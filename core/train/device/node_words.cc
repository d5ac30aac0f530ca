// SPDX-License-Identifier: Apache-2.0
#include "core/train/device/node_words.h"

#include <algorithm>
#include <set>
#include <vector>

#include "unroll/ir/ops.h"

namespace unroll {

namespace {

struct SeenValue {
  const Inside* inside;
  ValueId id;
};

// The input of a loop's body as the value that the loop is given; a state as the one it starts from.
SeenValue outside(SeenValue seen) {
  while (seen.inside->around && seen.inside->graph.node(seen.id.node).op == Op::input) {
    const auto inputs = seen.inside->graph.inputs();
    const auto at = std::find_if(inputs.begin(), inputs.end(), [&](const NamedValue& i) { return i.value == seen.id; });
    seen = {seen.inside->around, seen.inside->loop->inputs[at - inputs.begin()]};
  }
  return seen;
}

// Names of the inputs that a node reads, itself or through up to a few others.
std::string reads(const Inside& inside, const Node& node) {
  constexpr int k_depth = 3;
  std::set<std::string> names;
  std::vector<SeenValue> open;
  for (const ValueId id : node.inputs) open.push_back({&inside, id});
  for (int depth = 0; depth < k_depth && names.empty() && !open.empty(); ++depth) {
    std::vector<SeenValue> next;
    for (const SeenValue& seen : open) {
      const SeenValue at = outside(seen);
      const Node& from = at.inside->graph.node(at.id.node);
      if (from.op == Op::input) names.insert(from.attributes.get<std::string>("name"));
      for (const ValueId id : from.inputs) next.push_back({at.inside, id});
    }
    open = std::move(next);
  }
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? " of " : ", ") + name;
  return list;
}

// The functions in a group, each once, in their order.
std::string members(const Graph& body) {
  std::vector<std::string_view> names;
  for (const Node& node : body.nodes()) {
    const std::string_view name = op_info(node.op).name;
    const bool told = std::find(names.begin(), names.end(), name) != names.end();
    if (!told && node.op != Op::input && node.op != Op::constant) names.push_back(name);
  }
  std::string list;
  for (const std::string_view name : names) list.append(list.empty() ? "" : ", ").append(name);
  return "(" + list + ")";
}

}  // namespace

std::string node_words(const Inside& inside, const Node& node) {
  if (node.op == Op::input) return "'" + node.attributes.get<std::string>("name") + "'";
  std::string name(op_info(node.op).name);
  if (node.op == Op::gradient) name = "the gradient of " + node.attributes.get<std::string>("of");
  if (node.op == Op::fused || node.op == Op::fused_reduction) name += members(*node.body);
  return name + reads(inside, node);
}

Ints coordinates(const Shape& shape, std::int64_t index) {
  Ints at(static_cast<std::size_t>(shape.rank()));
  for (int axis = shape.rank(); axis-- > 0;) {
    at[static_cast<std::size_t>(axis)] = index % shape[axis];
    index /= shape[axis];
  }
  return at;
}

std::string element_words(const Type& type, std::int64_t index) {
  std::string text;
  for (const std::int64_t i : coordinates(type.shape, index)) text += (text.empty() ? "" : ",") + std::to_string(i);
  return " at [" + text + "] of " + type.text();
}

}  // namespace unroll
