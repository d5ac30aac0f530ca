// SPDX-License-Identifier: Apache-2.0
// RNN, GRU and LSTM. The usual forms become the composites of the same name; the others become one scan per direction,
// with explicit cell equations. T time, B batch, I input, H hidden, D directions, G gates.
#include <algorithm>

#include "frontends/onnx/activations.h"
#include "frontends/onnx/importer.h"

namespace unroll::onnx {
namespace {

struct Chosen {
  const Activation* row;
  double alpha, beta;
  Value operator()(Value x) const { return row->apply(x, alpha, beta); }
};

struct Layer {
  const RecurrentKind& kind;
  std::int64_t steps, batch, input, hidden;
  int directions;
  bool is_reverse = false, batch_first = false;
  double clip = 0;  // 0: none
  bool input_forget = false, reset_after = false;
  std::vector<Chosen> activations;  // of direction 0, then of direction 1
  bool usual_activations = true;
  Value x;                    // [T,B,I]
  Value w, r;                 // [D,GH,I], [D,GH,H]
  Value b, p, lengths;        // optional: [D,2GH], [D,3H], i32 [B]
  Value w_scale, r_scale;     // [D,GH] each, if w and r are integers and their operands are quantized dynamically
  std::vector<Value> states;  // [D,B,H] each
};

// Activations with alpha and beta consume them in order.
void read_activations(Call& call, Layer& layer) {
  const auto per_direction = layer.kind.activations.size();
  const std::size_t n = per_direction * layer.directions;
  std::vector<std::string> names;
  if (const AttributeDef* a = call.attribute("activations")) names = a->strings;
  if (names.empty())
    for (int d = 0; d < layer.directions; ++d)
      names.insert(names.end(), layer.kind.activations.begin(), layer.kind.activations.end());
  if (names.size() != n)
    call.refuse("has " + std::to_string(names.size()) + " activations, it needs " + std::to_string(n));
  const AttributeDef* alphas = call.attribute("activation_alpha");
  const AttributeDef* betas = call.attribute("activation_beta");
  std::size_t next_alpha = 0, next_beta = 0;
  const auto take = [&](const AttributeDef* list, std::size_t& next, double fallback, const std::string& name) {
    if (list && next < list->floats.size()) return static_cast<double>(list->floats[next++]);
    if (name == "Affine" || name == "ScaledTanh" || name == "ThresholdedRelu")
      call.unsupported("activation " + name + " needs activation_alpha and activation_beta",
                       "ONNX has no default for them");
    return fallback;
  };
  for (std::size_t i = 0; i < n; ++i) {
    const Activation* row = find_activation(names[i]);
    if (!row) call.unsupported("activation '" + names[i] + "' is not supported");
    const double alpha = row->parameters > 0 ? take(alphas, next_alpha, row->alpha, names[i]) : 0;
    const double beta = row->parameters > 1 ? take(betas, next_beta, row->beta, names[i]) : 0;
    layer.activations.push_back({row, alpha, beta});
    const std::string& usual = layer.kind.activations[i % per_direction];
    layer.usual_activations = layer.usual_activations && row->name == usual;
  }
}

void require_shape(const Call& call, Value value, const Shape& shape, const char* name) {
  if (value && value.shape() != shape)
    call.refuse(std::string(name) + " is " + value.shape().text() + ", it must be " + shape.text());
}

// Weights of DynamicQuantizeLSTM [D,I,4H], with one scale and zero point per direction, or per direction and column.
struct QuantizedWeights {
  Value w, scale;  // [D,4H,I] without zero point, in a float type; [D,4H]
};
QuantizedWeights read_quantized(Call& call, std::size_t weights, std::size_t scales) {
  const Value w = call.in(weights);
  if (w.rank() != 3 || w.dtype() != DType::i32) call.refuse("W and R must be integers of rank 3");
  const std::int64_t d = w.shape()[0], n = w.shape()[2];
  const auto per_column = [&](std::size_t input) {
    const Value v = call.in(input);
    if (v.shape() != Shape{d} && v.shape() != Shape{d, n})
      call.refuse("input " + std::to_string(input) + " is " + v.shape().text() + ", not one value per direction or "
                  "column of " + w.shape().text());
    return v.rank() == 1 ? broadcast(reshape(v, {d, 1}), {d, n}) : v;
  };
  const Value centered_w = call.has(scales + 1) ? sub(w, reshape(per_column(scales + 1), {d, 1, n})) : w;
  return {transpose(cast(centered_w, exact_type(w.shape()[1])), {0, 2, 1}), per_column(scales)};
}

Layer read_layer(Call& call, const RecurrentKind& kind) {
  const bool is_quantized = !call.node.domain.empty();
  const Value x = call.in(0);
  QuantizedWeights input{}, recurrent{};
  if (is_quantized) {
    input = read_quantized(call, 1, 8);
    recurrent = read_quantized(call, 2, 10);
  }
  const Value w = is_quantized ? input.w : call.in(1), r = is_quantized ? recurrent.w : call.in(2);
  if (x.rank() != 3 || w.rank() != 3 || r.rank() != 3) call.refuse("X, W and R must have rank 3");
  const bool batch_first = !is_quantized && call.opset() >= 14 && call.integer("layout", 0) != 0;
  const std::string direction = call.text("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    call.refuse("direction '" + direction + "' is unknown");
  Layer layer{.kind = kind, .steps = x.shape()[batch_first ? 1 : 0], .batch = x.shape()[batch_first ? 0 : 1],
              .input = x.shape()[2], .hidden = call.integer("hidden_size", r.shape()[2]),
              .directions = direction == "bidirectional" ? 2 : 1, .is_reverse = direction == "reverse",
              .batch_first = batch_first, .clip = call.number("clip", 0), .activations = {},
              .x = batch_first ? transpose(x, {1, 0, 2}) : x, .w = w, .r = r, .b = call.in_or_none(3), .p = {},
              .lengths = call.in_or_none(4), .w_scale = input.scale, .r_scale = recurrent.scale, .states = {}};
  const std::int64_t d = layer.directions, h = layer.hidden, g = kind.gates();
  require_shape(call, w, {d, g * h, layer.input}, "W");
  require_shape(call, r, {d, g * h, h}, "R");
  require_shape(call, layer.b, {d, 2 * g * h}, "B");
  require_shape(call, layer.lengths, {layer.batch}, "sequence_lens");
  for (int s = 0; s < kind.states; ++s) {
    Value initial = call.in_or_none(5 + s);
    if (initial && batch_first) initial = transpose(initial, {1, 0, 2});
    require_shape(call, initial, {d, layer.batch, h}, s == 0 ? "initial_h" : "initial_c");
    layer.states.push_back(initial ? initial : filled(call.graph(), {x.dtype(), {d, layer.batch, h}}, 0));
  }
  if (kind.op == Op::lstm) {
    layer.p = call.in_or_none(7);
    require_shape(call, layer.p, {d, 3 * h}, "P");
    layer.input_forget = call.integer("input_forget", 0) != 0;
  }
  if (kind.op == Op::gru) layer.reset_after = call.integer("linear_before_reset", 0) != 0;
  const bool has_backward = layer.is_reverse || layer.directions == 2;
  if (is_quantized && layer.lengths && layer.batch > 1 && has_backward)
    call.unsupported("sequence_lens with several rows in a backward direction is not supported",
                     "The rows are quantized together, and ONNX Runtime aligns their ends");
  read_activations(call, layer);
  return layer;
}

// Reorders blocks of H rows of the first axis to the composite's order.
Value reordered(Value x, const std::vector<int>& order, std::int64_t hidden) {
  std::vector<Value> blocks;
  for (const int gate : order) blocks.push_back(slice(x, 0, gate * hidden, hidden));
  return blocks.size() == 1 ? blocks[0] : concat(blocks, 0);
}

struct LayerOutputs {
  Value y;                    // [T,D,B,H]
  std::vector<Value> states;  // [D,B,H]
};

bool has_composite(const Layer& layer) {
  const bool is_relu = layer.kind.op == Op::rnn && std::all_of(layer.activations.begin(), layer.activations.end(),
                                                               [](const Chosen& a) { return a.row->name == "Relu"; });
  return !layer.is_reverse && !layer.w_scale && (layer.usual_activations || is_relu) && layer.clip == 0 &&
         !layer.input_forget && layer.steps > 0;
}

LayerOutputs by_composite(const Layer& layer) {
  const RecurrentKind& kind = layer.kind;
  const std::int64_t h = layer.hidden, gh = kind.gates() * h;
  RecurrentInputs in{.x = layer.x, .h0 = layer.states[0], .c0 = {}, .lengths = layer.lengths, .key = {},
                     .parameters = {}};
  if (kind.states > 1) in.c0 = layer.states[1];
  for (int d = 0; d < layer.directions; ++d) {
    in.parameters.push_back(reordered(row(layer.w, d), kind.order, h));
    in.parameters.push_back(reordered(row(layer.r, d), kind.order, h));
    for (int half = 0; layer.b && half < 2; ++half)
      in.parameters.push_back(reordered(slice(row(layer.b, d), 0, half * gh, gh), kind.order, h));
    for (const int gate : {0, 2, 1})  // P is i o f, the composite's is i f o
      if (layer.p) in.parameters.push_back(slice(row(layer.p, d), 0, gate * h, h));
  }
  const bool is_relu = layer.activations[0].row->name == "Relu";
  const RecurrentResult result =
      recurrent(kind.op, in, {.hidden = h, .bidirectional = layer.directions == 2, .bias = bool(layer.b),
                              .relu = is_relu, .reset_after = layer.reset_after, .peephole = bool(layer.p)});
  const Value y = reshape(result.y, {layer.steps, layer.batch, layer.directions, h});
  LayerOutputs outputs{transpose(y, {0, 2, 1, 3}), {result.hn}};
  if (kind.states > 1) outputs.states.push_back(result.cn);
  return outputs;
}

Value product(Value x, Value w, Value bias, Value w_scale) {
  if (!w_scale) return linear(x, w, bias);
  const Value y = dynamic_product(x, w, w_scale);
  return bias ? add(y, bias) : y;
}

// ONNX Runtime quantizes the steps up to the longest length together. The range includes zero, which changes nothing.
Value without_unused_steps(const Layer& layer) {
  if (!layer.lengths || !layer.w_scale || layer.batch == 0) return without_padding(layer.x, layer.lengths);
  const Value step = iota(layer.x.graph(), {layer.steps, 1, 1}, 0);
  return select(less(step, max(layer.lengths)), layer.x, scalar_like(layer.x, 0));
}

// The cell of one direction, with gates in ONNX's order. xw is W x_t + Wb [B,GH].
struct Cell {
  const Layer& layer;
  std::span<const Chosen> f;  // activations of the direction
  Value r, rb, p, r_scale;    // [GH,H], [GH], [3H], [GH]; all but r may be empty

  Value clipped(Value x) const {
    if (layer.clip == 0) return x;
    return minimum(maximum(x, scalar_like(x, -layer.clip)), scalar_like(x, layer.clip));
  }
  Value gate(Value x, int index) const { return slice(x, x.rank() - 1, index * layer.hidden, layer.hidden); }
  Value block(Value x, int index, int n = 1) const { return slice(x, 0, index * layer.hidden, n * layer.hidden); }

  std::vector<Value> rnn(Value xw, std::span<const Value> state) const {
    return {f[0](clipped(add(xw, linear(state[0], r, rb))))};
  }
  std::vector<Value> gru(Value xw, std::span<const Value> state) const {
    const Value h = state[0];
    const Value zr = add(slice(xw, 1, 0, 2 * layer.hidden), linear(h, block(r, 0, 2), rb ? block(rb, 0, 2) : rb));
    const Value z = f[0](clipped(gate(zr, 0))), reset = f[0](clipped(gate(zr, 1)));
    const Value r_h = block(r, 2), rb_h = rb ? block(rb, 2) : rb;
    const Value recurrent_part =
        layer.reset_after ? mul(reset, linear(h, r_h, rb_h)) : linear(mul(reset, h), r_h, rb_h);
    const Value n = f[1](clipped(add(gate(xw, 2), recurrent_part)));
    return {add(mul(1.0 - z, n), mul(z, h))};
  }
  // ONNX Runtime does not clip the input of h(C), contrary to the specification, and models were trained with it.
  std::vector<Value> lstm(Value xw, std::span<const Value> state) const {
    const Value all = add(xw, product(state[0], r, rb, r_scale)), c = state[1];
    const auto with_peephole = [&](int index, int peephole, Value cell) {
      return p ? add(gate(all, index), mul(block(p, peephole), cell)) : gate(all, index);
    };
    const Value i = f[0](clipped(with_peephole(0, 0, c)));
    const Value forget = layer.input_forget ? 1.0 - i : f[0](clipped(with_peephole(2, 2, c)));
    const Value next = add(mul(forget, c), mul(i, f[1](clipped(gate(all, 3)))));
    const Value o = f[0](clipped(with_peephole(1, 1, next)));
    return {mul(o, f[2](next)), next};
  }
  std::vector<Value> step(Value xw, std::span<const Value> state) const {
    if (layer.kind.op == Op::rnn) return rnn(xw, state);
    return layer.kind.op == Op::gru ? gru(xw, state) : lstm(xw, state);
  }
};

ScanResult direction_scan(const Layer& layer, int d) {
  const std::int64_t gh = layer.kind.gates() * layer.hidden;
  const Value bias = layer.b ? row(layer.b, d) : Value();
  const Value x = without_unused_steps(layer);
  const Value w_scale = layer.w_scale ? row(layer.w_scale, d) : Value();
  const Value xw = product(x, row(layer.w, d), bias ? slice(bias, 0, 0, gh) : bias, w_scale);
  std::vector<Value> states, constants{row(layer.r, d)};
  for (const Value& state : layer.states) states.push_back(row(state, d));
  if (bias) constants.push_back(slice(bias, 0, gh, gh));
  if (layer.p) constants.push_back(row(layer.p, d));
  if (layer.r_scale) constants.push_back(row(layer.r_scale, d));
  std::vector<Value> sequences{xw};
  const bool is_masked = layer.r_scale && layer.lengths;
  if (is_masked) {
    sequences.push_back(iota(layer.x.graph(), {layer.steps}, 0));
    constants.push_back(reshape(layer.lengths, {layer.batch, 1}));
  }
  const std::size_t n = layer.kind.activations.size();
  const auto activations = std::span(layer.activations).subspan(n * d, n);
  const auto step = [&](const StepValues& at) -> StepResult {
    std::size_t next = 1;
    Cell cell{layer, activations, at.constants[0], {}, {}, {}};
    if (bias) cell.rb = at.constants[next++];
    if (layer.p) cell.p = at.constants[next++];
    if (layer.r_scale) cell.r_scale = at.constants[next];
    std::vector<Value> before = at.states;
    // A row that has ended still belongs to the range of the next step in ONNX Runtime, and then no more.
    if (is_masked)
      before[0] = select(less(at.constants.back(), at.sequences[1]), scalar_like(before[0], 0), before[0]);
    const std::vector<Value> after = cell.step(at.sequences[0], before);
    return {after, {after[0]}};
  };
  return scan(states, sequences, constants, step,
              {.reverse = layer.is_reverse || d == 1, .lengths = layer.lengths, .reset = {}, .finite_padding = true});
}

LayerOutputs by_scan(const Layer& layer) {
  std::vector<ScanResult> parts;
  for (int d = 0; d < layer.directions; ++d) parts.push_back(direction_scan(layer, d));
  const auto joined = [&](auto&& of, int axis) {
    std::vector<Value> values;
    for (const ScanResult& part : parts) values.push_back(reshape(of(part), of(part).shape().inserted(axis, 1)));
    return values.size() == 1 ? values[0] : concat(values, axis);
  };
  LayerOutputs outputs{joined([](const ScanResult& part) { return part.outputs[0]; }, 1), {}};
  for (std::size_t s = 0; s < layer.states.size(); ++s)
    outputs.states.push_back(joined([s](const ScanResult& part) { return part.states[s]; }, 0));
  return outputs;
}

std::vector<Value> recurrent_node(Call& call) {
  const std::string name = call.node.domain.empty() ? call.node.op : "LSTM";  // of DynamicQuantizeLSTM
  const Layer layer = read_layer(call, recurrent_kind(&RecurrentKind::name, name));
  const LayerOutputs outputs = has_composite(layer) ? by_composite(layer) : by_scan(layer);
  std::vector<Value> values{layer.batch_first ? transpose(outputs.y, {2, 0, 1, 3}) : outputs.y};
  for (const Value& state : outputs.states)
    values.push_back(layer.batch_first ? transpose(state, {1, 0, 2}) : state);
  return values;
}

constexpr OperatorRow k_recurrent_rows[] = {
    {"GRU", 7, recurrent_node},
    {"LSTM", 7, recurrent_node},
    {"RNN", 7, recurrent_node},
    {"DynamicQuantizeLSTM", 1, recurrent_node, k_microsoft},
};

}  // namespace

std::span<const OperatorRow> recurrent_rows() { return k_recurrent_rows; }

}  // namespace unroll::onnx
