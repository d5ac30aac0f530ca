// SPDX-License-Identifier: Apache-2.0
#include "core/ir/graph_hash.h"

#include <algorithm>
#include <vector>

#include "core/support/fnv.h"

namespace unroll {

namespace {

// Texts with their lengths, so that neighbors do not run together.
class Hash {
 public:
  Hash& add(std::string_view text) {
    fnv_.add(std::uint64_t{text.size()}).add(text);
    return *this;
  }
  Hash& add(std::uint64_t number) {
    fnv_.add(number);
    return *this;
  }
  std::uint64_t value() const { return fnv_.value(); }

 private:
  Fnv fnv_;
};

std::uint64_t unsigned_of(std::int64_t number) { return static_cast<std::uint64_t>(number); }

}  // namespace

std::string type_and_elements(const std::shared_ptr<const Tensor>& tensor) {
  const auto bytes = tensor->bytes();
  return tensor->type().text().append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::string attribute_bytes(const Attributes& attributes, const TensorBytes& tensor_bytes) {
  std::string text;
  for (const auto& [name, attribute] : attributes.all()) {
    text += name;
    text += '=';
    std::visit(
        [&](const auto& v) {
          using T = std::decay_t<decltype(v)>;
          if constexpr (std::is_same_v<T, std::string>) text += v;
          else if constexpr (std::is_same_v<T, Ints>) for (const auto i : v) text += std::to_string(i) + ",";
          else if constexpr (std::is_same_v<T, DType>) text += dtype_name(v);
          else if constexpr (std::is_same_v<T, std::shared_ptr<const Tensor>>) text += tensor_bytes(v);
          else text.append(reinterpret_cast<const char*>(&v), sizeof v);
        },
        attribute);
    text += ';';
  }
  return text;
}

std::uint64_t graph_hash(const Graph& graph) {
  std::vector<std::uint64_t> nodes(graph.nodes().size());
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const ValueId id = graph.inputs()[i].value;
    nodes[id.node] = Hash().add("input").add(i).add(graph.type(id).text()).value();
  }
  const auto of = [&](const ValueId& id) {
    return Hash().add(nodes[id.node]).add(unsigned_of(id.output)).value();
  };
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const Node& node = graph.nodes()[n];
    if (node.op == Op::input) continue;
    Hash hash;
    hash.add(op_info(node.op).name).add(attribute_bytes(node.attributes));
    for (const ValueId& id : node.inputs) hash.add(of(id));
    for (const Type& type : node.outputs) hash.add(type.text());
    if (node.body) hash.add(graph_hash(*node.body));
    nodes[n] = hash.value();
  }
  Hash hash;
  for (const NamedValue& output : graph.outputs()) hash.add(of(output.value));
  return hash.value();
}

bool is_same_graph(const Graph& a, const Graph& b) {
  const auto is_same_name = [](const NamedValue& x, const NamedValue& y) {
    return x.name == y.name && x.value == y.value;
  };
  const auto is_same_node = [](const Node& x, const Node& y) {
    if (x.op != y.op || x.inputs != y.inputs || x.outputs != y.outputs || !x.body != !y.body) return false;
    return x.attributes == y.attributes && (x.body == y.body || is_same_graph(*x.body, *y.body));
  };
  return std::ranges::equal(a.nodes(), b.nodes(), is_same_node) &&
         std::ranges::equal(a.inputs(), b.inputs(), is_same_name) &&
         std::ranges::equal(a.outputs(), b.outputs(), is_same_name);
}

}  // namespace unroll
