// SPDX-License-Identifier: Apache-2.0
#include "core/ir/graph_hash.h"

#include <vector>

#include "unroll/plan_hash.h"

namespace unroll {

namespace {

// Fowler, Noll, Vo: FNV-1a, 64 bits.
class Hash {
 public:
  Hash& add(std::string_view bytes) {
    add(static_cast<std::uint64_t>(bytes.size()));
    for (const char c : bytes) mix(static_cast<unsigned char>(c));
    return *this;
  }
  Hash& add(std::uint64_t number) {
    for (int i = 0; i < 8; ++i) mix((number >> (8 * i)) & 0xff);
    return *this;
  }
  std::uint64_t value() const { return value_; }

 private:
  void mix(std::uint64_t byte) { value_ = (value_ ^ byte) * 0x100000001b3; }
  std::uint64_t value_ = 0xcbf29ce484222325;
};

std::uint64_t unsigned_of(std::int64_t number) { return static_cast<std::uint64_t>(number); }

}  // namespace

std::string attribute_bytes(const Attributes& attributes) {
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
          else if constexpr (std::is_same_v<T, std::shared_ptr<const Tensor>>)
            text.append(v->type().text()).append(reinterpret_cast<const char*>(v->bytes().data()), v->bytes().size());
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
    nodes[static_cast<std::size_t>(id.node)] = Hash().add("input").add(i).add(graph.type(id).text()).value();
  }
  const auto of = [&](const ValueId& id) {
    return Hash().add(nodes[static_cast<std::size_t>(id.node)]).add(unsigned_of(id.output)).value();
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

std::uint64_t plan_hash(const Plan& plan) {
  Hash hash;
  hash.add(graph_hash(*plan.graph)).add(plan.arena_bytes);
  hash.add(static_cast<std::uint64_t>(plan.weights)).add(std::uint64_t{plan.one_thread});
  const auto add = [&](const Storage& s) {
    hash.add(static_cast<std::uint64_t>(s.place)).add(unsigned_of(s.index)).add(s.offset);
    for (const std::int64_t stride : s.strides) hash.add(unsigned_of(stride));
  };
  for (const auto& outputs : plan.storage)
    for (const Storage& s : outputs) add(s);
  for (const Storage& s : plan.outputs) add(s);
  for (const int donor : plan.donors) hash.add(unsigned_of(donor));
  for (const auto& body : plan.bodies) hash.add(body ? plan_hash(*body) : 0);
  for (const auto* sizes : {&plan.scratch_offset, &plan.scratch_bytes})
    for (const std::size_t bytes : *sizes) hash.add(bytes);
  return hash.value();
}

}  // namespace unroll
