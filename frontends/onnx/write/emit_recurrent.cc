// SPDX-License-Identifier: Apache-2.0
// RNN, GRU and LSTM nodes, one per layer. L layers, D directions, G gates, T steps, B batch, H hidden.
#include <algorithm>
#include <cstring>
#include <optional>

#include "frontends/onnx/activations.h"
#include "frontends/onnx/write/emitter.h"

namespace unroll::onnx {
namespace {

using Integers = std::vector<std::int64_t>;

// Appends blocks along axis 0 in another order to `to`.
void append_blocks(std::vector<std::byte>& to, const Tensor& t, const std::vector<std::size_t>& order) {
  const std::size_t block = t.bytes().size() / order.size();
  for (const std::size_t from : order) {
    const auto bytes = t.bytes().subspan(from * block, block);
    to.insert(to.end(), bytes.begin(), bytes.end());
  }
}

struct RecurrentLayer {
  const Site& at;
  const RecurrentKind& kind;
  bool has_cell = false;
  std::vector<std::size_t> order = {};  // ONNX gate -> composite gate
  std::int64_t hidden = 0, layers = 0;
  std::size_t directions = 1, per_direction = 0;  // parameters of a direction
  bool bias = false, peephole = false;
  std::string lengths, h0, c0;
  std::size_t first_parameter = 0;
};

std::vector<Operand> tensors_of(const RecurrentLayer& l, std::int64_t layer, std::size_t direction) {
  const std::size_t slot = layer * l.directions + direction;
  const Operand* begin = &l.at.inputs[l.first_parameter + slot * l.per_direction];
  return {begin, begin + l.per_direction};
}

// Stacks parameter `k` of all directions to [D, ...] with gates in ONNX's order.
std::string stacked(const RecurrentLayer& l, std::int64_t layer, std::initializer_list<std::size_t> parts,
                    const std::vector<std::size_t>& order, Ints dims, const char* stem) {
  std::vector<std::byte> bytes;
  for (std::size_t d = 0; d < l.directions; ++d) {
    const std::vector<Operand> parameters = tensors_of(l, layer, d);
    for (const std::size_t k : parts) append_blocks(bytes, *parameters[k].tensor, order);
  }
  dims.insert(dims.begin(), static_cast<std::int64_t>(l.directions));
  const Operand first = tensors_of(l, layer, 0)[*parts.begin()];
  Tensor tensor(first.tensor->dtype(), Shape(dims));
  std::memcpy(tensor.bytes().data(), bytes.data(), bytes.size());
  return l.at.emit.initializer(std::make_shared<const Tensor>(std::move(tensor)),
                               (first.label.empty() ? "recurrent" : first.label) + "." + stem);
}

// Slices [L*D,B,H] -> [D,B,H] of one layer; empty if zeros.
std::string layer_state(const RecurrentLayer& l, const std::string& all, std::int64_t layer) {
  if (all.empty() || l.layers == 1) return all;
  Emitter& e = l.at.emit;
  const auto d = static_cast<std::int64_t>(l.directions);
  return e.node("Slice", {all, e.integers({layer * d}), e.integers({layer * d + d}), e.integers({0})});
}

bool is_zero(const Operand& operand) {
  if (!operand.tensor || !operand.label.empty()) return false;
  const auto bytes = operand.tensor->bytes();
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

// If the state is broadcast, the broadcast's operand determines whether it is zero.
std::string initial_state_name(const Site& at, std::size_t input) {
  const Graph& graph = *at.builds[0];
  const Node& made = graph.node(at.node().inputs[input].node);
  if (is_zero(at.inputs[input])) return "";
  if (made.op == Op::broadcast) {
    const Node& from = graph.node(made.inputs[0].node);
    if (from.op == Op::constant && is_zero({.tensor = from.attributes.get<std::shared_ptr<const Tensor>>("value")}))
      return "";
  }
  return at.in(input);
}

AttributeList attributes_of(const RecurrentLayer& l) {
  const Attributes& a = l.at.node().attributes;
  AttributeList list{{"hidden_size", l.hidden}};
  if (l.directions == 2) list.emplace_back("direction", std::string("bidirectional"));
  if (l.kind.op == Op::gru)
    list.emplace_back("linear_before_reset", static_cast<std::int64_t>(a.get_or<bool>("reset_after", false)));
  if (l.kind.op == Op::rnn && a.get_or<bool>("relu", false))
    list.emplace_back("activations", std::vector<std::string>(l.directions, "Relu"));
  return list;
}

std::vector<std::string> one_layer(const RecurrentLayer& l, const std::string& x, std::int64_t input,
                                   std::int64_t layer) {
  const std::int64_t rows = static_cast<std::int64_t>(l.order.size()) * l.hidden;
  std::vector<std::string> in{x, stacked(l, layer, {0}, l.order, {rows, input}, "W"),
                              stacked(l, layer, {1}, l.order, {rows, l.hidden}, "R")};
  in.push_back(l.bias ? stacked(l, layer, {2, 3}, l.order, {2 * rows}, "B") : "");
  in.push_back(l.lengths);
  in.push_back(layer_state(l, l.h0, layer));
  if (l.has_cell) in.push_back(layer_state(l, l.c0, layer));
  const std::size_t p = l.bias ? 4 : 2;  // peepholes i f o -> i o f
  if (l.peephole) in.push_back(stacked(l, layer, {p, p + 2, p + 1}, {0}, {3 * l.hidden}, "P"));
  while (in.back().empty()) in.pop_back();
  return l.at.emit.node(l.kind.name, in, l.has_cell ? 3 : 2, attributes_of(l));
}

// Returns none if ONNX cannot express the layer or a weight is computed: then a Scan is written.
std::optional<RecurrentLayer> layer_at(const Site& at) {
  const Attributes& a = at.node().attributes;
  const RecurrentKind& kind = recurrent_kind(&RecurrentKind::op, at.node().op);
  const bool has_cell = kind.states > 1;
  if (a.get<double>("dropout") > 0) at.refuse("dropout is active");
  if (has_cell && a.get_or<std::int64_t>("projection", 0) > 0) return {};
  RecurrentLayer l{.at = at,
                   .kind = kind,
                   .has_cell = has_cell,
                   .hidden = a.get<std::int64_t>("hidden"),
                   .layers = a.get<std::int64_t>("layers"),
                   .directions = a.get_or<bool>("bidirectional", false) ? 2u : 1u,
                   .per_direction = 2,
                   .bias = a.get_or<bool>("bias", false),
                   .peephole = a.get_or<bool>("peephole", false),
                   .lengths = {},
                   .h0 = {},
                   .c0 = {}};
  l.order.resize(kind.order.size());
  for (std::size_t gate = 0; gate < l.order.size(); ++gate) l.order[kind.order[gate]] = gate;
  l.per_direction += (l.bias ? 2 : 0) + (l.peephole ? 3 : 0);
  const bool has_lengths = a.get_or<bool>("lengths", false);
  l.first_parameter = (has_cell ? 3 : 2) + has_lengths;
  for (std::size_t k = l.first_parameter; k < at.n_inputs(); ++k)
    if (!at.inputs[k].tensor) return {};
  l.h0 = initial_state_name(at, 1);
  if (has_cell) l.c0 = initial_state_name(at, 2);
  if (has_lengths) l.lengths = at.in(has_cell ? 3 : 2);
  return l;
}

}  // namespace

std::vector<Operand> emit_recurrent(const Site& at) {
  const std::optional<RecurrentLayer> found = layer_at(at);
  if (!found) return {};
  const RecurrentLayer& l = *found;
  Emitter& e = at.emit;
  std::string x = at.in(0);
  const std::vector<Extent> x_shape = at.in_shape(0);
  if (!x_shape[2].is_constant()) at.refuse("the width of the input is a free size");
  std::int64_t input = x_shape[2].constant();
  std::vector<std::string> hn, cn;
  for (std::int64_t layer = 0; layer < l.layers; ++layer) {
    const std::vector<std::string> out = one_layer(l, x, input, layer);  // Y [T,D,B,H], Y_h, [Y_c]
    input = static_cast<std::int64_t>(l.directions) * l.hidden;
    if (l.directions == 1) {
      x = e.node("Squeeze", {out[0], e.integers({1})});
    } else {  // keeps T and B for zeros
      const std::string by_row = e.node("Transpose", {out[0]}, {{"perm", Integers{0, 2, 1, 3}}});
      x = e.node("Reshape", {by_row, e.integers({0, 0, input})});
    }
    hn.push_back(out[1]);
    if (l.has_cell) cn.push_back(out[2]);
  }
  const auto all_layers = [&](const std::vector<std::string>& states) {
    return states.size() == 1 ? states[0] : e.node("Concat", states, {{"axis", std::int64_t{0}}});
  };
  std::vector<Operand> outputs{{x}, {all_layers(hn)}};
  if (l.has_cell) outputs.push_back({all_layers(cn)});
  return outputs;
}

}  // namespace unroll::onnx
