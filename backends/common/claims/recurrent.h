// SPDX-License-Identifier: Apache-2.0
// Sizes of a recurrent composite (rnn, gru, lstm) or of its gradient, for backends that claim the whole node. T time, B
// batch, I input of the layer, H hidden, P output (projection, or H), G gates, L layers, D directions.
#pragma once

#include <cstdint>

#include "unroll/ir/graph.h"

namespace unroll::common {

// Sizes of a node, or of the forward node of a gradient node.
struct Recurrent {
  Op cell;  // rnn, gru, lstm
  DType dtype;
  DType format;  // of matmul operands in a kernel: f32, or a 16-bit format
  std::int64_t T, B, I, H, P, L, D;
  bool bias, relu, reset_after, projects, peephole, lengths;
  double dropout;
  std::size_t n_inputs;         // of the forward node
  std::size_t first_parameter;  // index of the first one among them
  std::size_t n_parameters;     // of one layer and direction

  std::int64_t gates() const { return cell == Op::lstm ? 4 : cell == Op::gru ? 3 : 1; }
  bool has_c() const { return cell == Op::lstm; }
  std::size_t n_outputs() const { return has_c() ? 3 : 2; }
  std::int64_t width_in(std::int64_t layer) const { return layer == 0 ? I : D * P; }
  std::size_t x_elements() const { return T * B * I; }
  std::size_t y_elements() const { return T * B * D * P; }
  std::size_t h_elements() const { return L * D * B * P; }  // all layers
  std::size_t c_elements() const { return L * D * B * H; }  // likewise
  std::size_t y_bytes() const { return y_elements() * dtype_bytes(format); }
  friend bool operator==(const Recurrent&, const Recurrent&) = default;
};
Recurrent recurrent_of(const Graph& graph, const Node& node, DType format);

// The parameters of a layer, in the order in which a node lists them.
enum class Parameter : std::uint8_t {
  weight_ih,
  weight_hh,
  bias_ih,
  bias_hh,
  weight_hr,
  weight_ci,
  weight_cf,
  weight_co
};
// Returns the position among the parameters of one layer and direction, or -1 if the parameter is absent.
int position_of(const Recurrent& r, Parameter parameter);

}  // namespace unroll::common
