// SPDX-License-Identifier: Apache-2.0
// Prints graph text (grammar in docs/conventions.md). Equal graphs give equal bytes, and numbers are exact.
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

#include "core/ir/text/text.h"
#include "core/support/formats.h"
#include "core/support/text/exact_text.h"
#include "unroll/ir/graph.h"

namespace unroll {

namespace {

template <class T>
std::string bits_text(T value) {
  using Word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, std::bit_cast<Word>(value), 16).ptr;
  return "#" + std::string(buffer, end);
}

// A NaN keeps its sign and payload; the usual one is just nan.
template <class T>
std::string float_text(T value) {
  if (std::isnan(value)) {
    const T usual = std::numeric_limits<T>::quiet_NaN();
    return std::memcmp(&value, &usual, sizeof value) == 0 ? "nan" : bits_text(value);
  }
  return exact_text(value);  // "inf" and "-inf" for infinities
}

std::string element_text(const Tensor& t, std::int64_t index) {
  const auto i = static_cast<std::size_t>(index);
  switch (t.dtype()) {
    case DType::f32: return float_text(t.values<float>()[i]);
    case DType::f64: return float_text(t.values<double>()[i]);
    case DType::i32: return std::to_string(t.values<std::int32_t>()[i]);
    case DType::b8: return t.values<std::uint8_t>()[i] ? "1" : "0";
    case DType::bf16: return float_text(to_float(t.values<Bf16>()[i]));
    case DType::f16: return float_text(to_float(t.values<F16>()[i]));
  }
  return {};
}

bool all_same_bits(const Tensor& t) {
  const std::size_t size = dtype_bytes(t.dtype());
  const auto bytes = t.bytes();
  return bytes.size() <= size || std::memcmp(bytes.data(), bytes.data() + size, bytes.size() - size) == 0;
}

std::string tensor_text(const Tensor& t) {
  std::string s = t.type().text() + "(";
  if (t.elements() > 1 && all_same_bits(t)) return s + "all " + element_text(t, 0) + ")";
  for (std::int64_t i = 0; i < t.elements(); ++i) s += (i ? ", " : "") + element_text(t, i);
  return s + ")";
}

// A double always has a point, an exponent or a word, so that it cannot be read as an integer.
std::string double_text(double value) {
  std::string s = float_text(value);
  if (s.find_first_not_of("-0123456789") == std::string::npos) s += ".0";
  return s;
}

std::string ints_text(const Ints& list) {
  std::string s = "[";
  for (std::size_t i = 0; i < list.size(); ++i) s += (i ? ", " : "") + std::to_string(list[i]);
  return s + "]";
}

struct AttributeText {
  std::string operator()(std::int64_t v) const { return std::to_string(v); }
  std::string operator()(double v) const { return double_text(v); }
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(const std::string& v) const { return quoted(v); }
  std::string operator()(const Ints& v) const { return ints_text(v); }
  std::string operator()(DType v) const { return std::string(dtype_name(v)); }
  std::string operator()(const std::shared_ptr<const Tensor>& v) const { return tensor_text(*v); }
};

void print_body(const Graph& graph, const std::string& indent, std::string& out);

void print_node(const Graph& graph, std::size_t id, const std::string& indent, std::string& out) {
  const Node& node = graph.nodes()[id];
  out += indent + "%" + std::to_string(id) + " = " + std::string(op_info(node.op).name) + "(";
  for (std::size_t i = 0; i < node.inputs.size(); ++i) out += (i ? ", " : "") + value_text(graph, node.inputs[i]);
  out += ")" + attributes_text(node);
  if (node.body) {
    out += " body {\n";
    print_body(*node.body, indent + "  ", out);
    out += indent + "}";
  }
  for (std::size_t i = 0; i < node.outputs.size(); ++i) out += (i ? ", " : " : ") + node.outputs[i].text();
  out += "\n";
}

void print_body(const Graph& graph, const std::string& indent, std::string& out) {
  for (std::size_t id = 0; id < graph.nodes().size(); ++id) print_node(graph, id, indent, out);
  for (const NamedValue& output : graph.outputs())
    out += indent + "output " + quoted(output.name) + " = " + value_text(graph, output.value) + "\n";
}

}  // namespace

std::string quoted(std::string_view text) {
  constexpr char k_hex[] = "0123456789abcdef";
  std::string s = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      s += {'\\', c};
    } else if (byte < 0x20 || byte == 0x7f) {
      s += {'\\', 'x', k_hex[byte >> 4], k_hex[byte & 15]};
    } else {
      s += c;
    }
  }
  return s + "\"";
}

std::string value_text(const Graph& graph, ValueId id) {
  std::string s = "%" + std::to_string(id.node);
  if (graph.node(id.node).outputs.size() > 1) s += "." + std::to_string(id.output);
  return s;
}

std::string attributes_text(const Node& node) {
  if (node.op == Op::input) return "{name=" + quoted(node.attributes.get<std::string>("name")) + "}";
  if (node.attributes.all().empty()) return {};
  std::string s = "{";
  for (const auto& [name, value] : node.attributes.all())
    s += (s.size() > 1 ? ", " : "") + name + "=" + std::visit(AttributeText{}, value);
  return s + "}";
}

std::string print_graph(const Graph& graph) {
  std::string out = "graph {\n";
  print_body(graph, "  ", out);
  return out + "}\n";
}

}  // namespace unroll
