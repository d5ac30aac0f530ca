// SPDX-License-Identifier: Apache-2.0
// The recurrent layers, with PyTorch's parameters and gate orders. The input's product is computed for all
// steps at once before the scan; the scan does one product with the old state and the pointwise part, biases included
// (an extra pass over [T, B, G*H] would cost more than adding them again in each step).
// T time, B batch, I input, H hidden, P output (projection, or H), G gates, L layers, D directions.
#include <cstdint>

#include "core/ir/input_range.h"
#include "core/ir/ops/composite.h"
#include "unroll/ir/cell_equations.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

using Values = std::vector<Value>;
using Inputs = std::span<const Value>;

// rnn, gru, lstm: inputs x, h0, [c0], [lengths], [key], parameters.
void require_recurrent(const ShapeQuery& q) {
  const bool lstm = q.op == Op::lstm;
  const std::int64_t gates = lstm ? 4 : q.op == Op::gru ? 3 : 1;
  q.require_float(0);
  const DType dtype = q.in(0).dtype;
  q.require(q.shape(0).rank() == 3, "x must be [T,B,I]; got " + q.shape(0).text());
  const std::int64_t hidden = q.integer("hidden"), layers = q.integer("layers");
  const std::int64_t projection = lstm ? q.integer("projection") : 0;
  q.require(hidden > 0 && hidden <= Shape::k_max_dimension, "hidden must be positive and at most 2^40");
  q.require(layers > 0 && layers <= Shape::k_max_dimension, "layers must be positive and at most 2^40");
  q.require(projection >= 0 && projection < hidden,
            "projection must be below hidden; got " + std::to_string(projection));
  const std::int64_t directions = q.flag("bidirectional") ? 2 : 1;
  const std::int64_t batch = q.shape(0)[1], width = projection > 0 ? projection : hidden;
  std::size_t at = 1;
  const auto next = [&](std::string_view name, const Shape& shape, DType wanted) {
    if (at >= q.inputs.size()) q.fail("input '" + std::string(name) + "' is missing");
    q.require_dtype(at, wanted, name);
    q.require_shape(at, shape, name);
    ++at;
  };
  const Shape h_shape{layers * directions, batch, width}, c_shape{layers * directions, batch, hidden};
  next("h0", h_shape, dtype);
  if (lstm) next("c0", c_shape, dtype);
  if (q.flag("lengths")) next("lengths", Shape{batch}, DType::i32);
  const double rate = q.attributes.get<double>("dropout");
  q.require(rate >= 0 && rate < 1, "dropout must be in [0,1)");
  if (rate > 0) next("key", Shape{3}, DType::i32);
  for (std::int64_t l = 0; l < layers; ++l)
    for (std::int64_t d = 0; d < directions; ++d) {
      next("weight_ih", Shape{gates * hidden, l == 0 ? q.shape(0)[2] : directions * width}, dtype);
      next("weight_hh", Shape{gates * hidden, width}, dtype);
      if (q.flag("bias")) {
        next("bias_ih", Shape{gates * hidden}, dtype);
        next("bias_hh", Shape{gates * hidden}, dtype);
      }
      if (projection > 0) next("weight_hr", Shape{projection, hidden}, dtype);
      if (lstm && q.flag("peephole"))
        for (const char* name : {"weight_ci", "weight_cf", "weight_co"}) next(name, Shape{hidden}, dtype);
    }
  q.require(at == q.inputs.size(), "got " + std::to_string(q.inputs.size()) + " inputs, takes " + std::to_string(at));
}

// The parameters of one layer in one direction; absent ones are empty.
struct Weights {
  Value ih, hh;        // [G*H, I], [G*H, P]
  Value b_ih, b_hh;    // [G*H]
  Value hr;            // lstm: [P, H]
  Value ci, cf, co;    // lstm with peepholes: [H]
};

// One layer in one direction: what goes in and what comes out.
struct Sweep {
  Value x;       // [T, B, I]
  Value h0, c0;  // [B, P], [B, H]
  Weights w;
  ScanOptions options;
};
struct Swept {
  Value y;     // [T, B, P]
  Value h, c;  // final states
};

// Values of the step's graph appear in the order in which they were listed for the scan.
Values present(std::initializer_list<Value> values) {
  Values list;
  for (const Value& value : values)
    if (value) list.push_back(value);
  return list;
}

Swept swept(const ScanResult& r) { return {r.outputs[0], r.states[0], r.states.size() > 1 ? r.states[1] : Value()}; }

Value both_biases(const Weights& w) { return w.b_ih ? w.b_ih + w.b_hh : Value(); }  // [G*H]

// sum = W_ih x + b_ih + W_hh h + b_hh
Swept rnn_sweep(const Sweep& s, const Attributes& attributes) {
  const bool use_relu = attributes.get_or<bool>("relu", false);
  const Value x = linear(s.x, s.w.ih);  // [T, B, H]
  const auto step = [&](const StepValues& v) -> StepResult {
    Value sum = v.sequences[0] + matmul(v.states[0], v.constants[0], {.a = false, .b = true});
    if (v.constants.size() > 1) sum = sum + v.constants[1];
    const Value h = rnn_state(sum, use_relu);
    return {{h}, {h}};
  };
  return swept(scan(present({s.h0}), present({x}), present({s.w.hh, both_biases(s.w)}), step, s.options));
}

// The form of cuDNN and PyTorch: b_hn stays inside r * (W_hn h + b_hn), the other biases join the input part.
Swept gru_reset_after_sweep(const Sweep& s) {
  const std::int64_t H = s.w.hh.shape()[1];
  Value bias, b_hn;
  if (s.w.b_ih) {
    bias = s.w.b_ih + pad(slice(s.w.b_hh, 0, 0, 2 * H), 0, 0, H);
    b_hn = slice(s.w.b_hh, 0, 2 * H, H);
  }
  const Value x = linear(s.x, s.w.ih);  // [T, B, 3H]
  const auto step = [&](const StepValues& v) -> StepResult {
    const Value h_old = v.states[0];
    const bool biased = v.constants.size() > 1;
    const Values x_gates = split(biased ? v.sequences[0] + v.constants[1] : v.sequences[0], -1, 3);
    const Values h_gates = split(matmul(h_old, v.constants[0], {.a = false, .b = true}), -1, 3);
    const auto recurrent = [&](Value r) { return r * (biased ? h_gates[2] + v.constants[2] : h_gates[2]); };
    const Value h = gru_state(x_gates, h_gates, h_old, recurrent);
    return {{h}, {h}};
  };
  return swept(scan(present({s.h0}), present({x}), present({s.w.hh, bias, b_hn}), step, s.options));
}

// The original form: W_hn (r * h) + b_hn; all biases join the input part.
Swept gru_reset_before_sweep(const Sweep& s) {
  const std::int64_t H = s.w.hh.shape()[1];
  const Value x = linear(s.x, s.w.ih);  // [T, B, 3H]
  const Value w_rz = slice(s.w.hh, 0, 0, 2 * H), w_n = slice(s.w.hh, 0, 2 * H, H);
  const auto step = [&](const StepValues& v) -> StepResult {
    const Value h_old = v.states[0];
    const Values x_gates = split(v.constants.size() > 2 ? v.sequences[0] + v.constants[2] : v.sequences[0], -1, 3);
    const Values h_gates = split(matmul(h_old, v.constants[0], {.a = false, .b = true}), -1, 2);
    const auto recurrent = [&](Value r) { return matmul(r * h_old, v.constants[1], {.a = false, .b = true}); };
    const Value h = gru_state(x_gates, h_gates, h_old, recurrent);
    return {{h}, {h}};
  };
  return swept(scan(present({s.h0}), present({x}), present({w_rz, w_n, both_biases(s.w)}), step, s.options));
}

Swept gru_sweep(const Sweep& s, const Attributes& attributes) {
  return attributes.get_or<bool>("reset_after", true) ? gru_reset_after_sweep(s) : gru_reset_before_sweep(s);
}

// i, f, g, o = W_ih x + b_ih + W_hh h + b_hh; the projection is W_hr (s(o) tanh(c')).
Swept lstm_sweep(const Sweep& s, const Attributes&) {
  const Value x = linear(s.x, s.w.ih);  // [T, B, 4H]
  const bool biased = static_cast<bool>(s.w.b_ih);
  const bool projects = static_cast<bool>(s.w.hr), peephole = static_cast<bool>(s.w.ci);
  const auto step = [&](const StepValues& v) -> StepResult {
    const Value h_old = v.states[0], c_old = v.states[1];
    const Value* constant = v.constants.data();
    const Value w_hh = *constant++;
    const Value x_biased = biased ? v.sequences[0] + *constant++ : v.sequences[0];
    const Value w_hr = projects ? *constant++ : Value();
    const Values gates = split(x_biased + matmul(h_old, w_hh, {.a = false, .b = true}), -1, 4);
    LstmVariant variant;
    if (peephole) variant = {.w_ci = constant[0], .w_cf = constant[1], .w_co = constant[2]};
    if (projects) variant.p = [&](Value out) { return matmul(out, w_hr, {.a = false, .b = true}); };
    const LstmState next = lstm_state(gates, c_old, variant);
    return {{next.h, next.c}, {next.h}};
  };
  const Values constants = present({s.w.hh, both_biases(s.w), s.w.hr, s.w.ci, s.w.cf, s.w.co});
  return swept(scan(present({s.h0, s.c0}), present({x}), constants, step, s.options));
}

// Takes the node's inputs one after the other.
class InputReader {
 public:
  explicit InputReader(Inputs in) : in_(in) {}
  Value next() { return in_[at_++]; }
  Value next_if(bool is_there) { return is_there ? next() : Value(); }

 private:
  Inputs in_;
  std::size_t at_ = 0;
};

using SweepFunction = Swept (*)(const Sweep&, const Attributes&);

// Layers above each other, directions side by side: in x, h0, [c0], [lengths], [key], then the parameters of each layer
// and direction; out y, hn, [cn].
Values stack_layers(Inputs in, const Attributes& attributes, SweepFunction sweep, bool has_cell_state) {
  const bool bias = attributes.get_or<bool>("bias", false);
  const bool projects = has_cell_state && attributes.get<std::int64_t>("projection") > 0;
  const bool peephole = has_cell_state && attributes.get_or<bool>("peephole", false);
  const double rate = attributes.get<double>("dropout");
  const std::int64_t n_layers = attributes.get<std::int64_t>("layers");
  const int n_directions = attributes.get_or<bool>("bidirectional", false) ? 2 : 1;

  InputReader reader(in);
  Value x = reader.next();
  const Value h0 = reader.next(), c0 = reader.next_if(has_cell_state);
  const Value lengths = reader.next_if(attributes.get_or<bool>("lengths", false));
  const Value key = reader.next_if(rate > 0);
  x = without_padding(x, lengths);

  Values hn, cn;
  for (std::int64_t layer = 0; layer < n_layers; ++layer) {
    const OriginScope of_layer(x.graph(), {n_layers == 1 ? "" : ".l" + std::to_string(layer)});
    Values y;
    for (int direction = 0; direction < n_directions; ++direction) {
      const std::int64_t slot = layer * n_directions + direction;
      Sweep s{.x = x, .h0 = row(h0, slot), .c0 = c0 ? row(c0, slot) : Value(), .w = {}, .options = {}};
      s.w = {.ih = reader.next(), .hh = reader.next(), .b_ih = reader.next_if(bias), .b_hh = reader.next_if(bias),
             .hr = reader.next_if(projects), .ci = reader.next_if(peephole), .cf = reader.next_if(peephole),
             .co = reader.next_if(peephole)};
      s.options.reverse = direction == 1;
      s.options.lengths = lengths;
      s.options.finite_padding = true;
      const Swept r = sweep(s, attributes);
      y.push_back(r.y);
      hn.push_back(r.h);
      if (r.c) cn.push_back(r.c);
    }
    x = y.size() > 1 ? concat(y, -1) : y[0];
    const bool is_last = layer + 1 == n_layers;
    if (rate > 0 && !is_last) x = dropout(x, key, rate, attributes.get<std::int64_t>("rng_stream") + layer);
  }
  Values out{x, stack(hn)};
  if (has_cell_state) out.push_back(stack(cn));
  return out;
}

Values rnn_body(Inputs in, const Attributes& attributes) { return stack_layers(in, attributes, rnn_sweep, false); }
Values gru_body(Inputs in, const Attributes& attributes) { return stack_layers(in, attributes, gru_sweep, false); }
Values lstm_body(Inputs in, const Attributes& attributes) { return stack_layers(in, attributes, lstm_sweep, true); }

// The attributes that rnn, gru and lstm share, and further ones.
std::vector<AttributeSpec> attributes_with(std::initializer_list<AttributeSpec> more) {
  using K = AttributeKind;
  std::vector<AttributeSpec> list{{"hidden", K::integer}, {"layers", K::integer}, {"bidirectional", K::flag},
                                  {"bias", K::flag},      {"dropout", K::number}, {"rng_stream", K::integer},
                                  {"lengths", K::flag}};
  list.insert(list.end(), more);
  return list;
}

}  // namespace

std::span<const Composite> recurrent_composites() {
  using K = AttributeKind;
  static const Composite rows[] = {
      {Op::rnn, attributes_with({{"relu", K::flag}}), require_recurrent, rnn_body},
      {Op::gru, attributes_with({{"reset_after", K::flag}}), require_recurrent, gru_body},
      {Op::lstm, attributes_with({{"projection", K::integer}, {"peephole", K::flag}}), require_recurrent, lstm_body},
  };
  return rows;
}

RecurrentResult recurrent(Op cell, const RecurrentInputs& in, const RecurrentOptions& o) {
  if (cell != Op::rnn && cell != Op::gru && cell != Op::lstm)
    throw Error(ErrorKind::usage, "recurrent", "the cell must be rnn, gru or lstm");
  Attributes attributes{{"hidden", o.hidden},
                        {"layers", static_cast<std::int64_t>(o.layers)},
                        {"bidirectional", o.bidirectional},
                        {"bias", o.bias},
                        {"dropout", o.dropout},
                        {"rng_stream", o.rng_stream},
                        {"lengths", static_cast<bool>(in.lengths)}};
  if (cell == Op::rnn) attributes.set("relu", o.relu);
  if (cell == Op::gru) attributes.set("reset_after", o.reset_after);
  if (cell == Op::lstm) {
    attributes.set("projection", o.projection);
    attributes.set("peephole", o.peephole);
  }
  std::vector<Value> inputs{in.x, in.h0};
  if (cell == Op::lstm) inputs.push_back(in.c0);
  if (in.lengths) inputs.push_back(in.lengths);
  if (o.dropout > 0) inputs.push_back(in.key);
  inputs.insert(inputs.end(), in.parameters.begin(), in.parameters.end());
  if (!in.x) throw Error(ErrorKind::usage, "recurrent", "x is empty");
  const auto outputs = in.x.graph().append(cell, inputs, std::move(attributes));
  require_lengths(in.lengths, in.x.shape()[0]);
  return {outputs[0], outputs[1], cell == Op::lstm ? outputs[2] : Value()};
}

}  // namespace unroll
