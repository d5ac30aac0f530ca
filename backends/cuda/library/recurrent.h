// SPDX-License-Identifier: Apache-2.0
// Recurrent layers that cuDNN runs whole: what is claimed, and where the memory of a claim lies.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/library/rnn.h"
#include "backends/cuda/library/rnn_choice.h"
#include "unroll/passes/backend.h"

namespace unroll::cuda {

// rnn, gru (reset after the product) and lstm, with any number of layers and directions, with a projection, in f32,
// f64, tf32, bf16 and f16. Not with lengths, which cuDNN reads on the host, nor with dropout, whose masks are not ours.
Claim claim_recurrent(const RnnLibrary& library, const Graph& graph, const Node& node, Precision precision);

// The node as cuDNN runs it. Null: it is refused, and `why` says it.
std::shared_ptr<const Rnn> make_rnn(const RnnLibrary& library, const Graph& graph, const Node& node,
                                    Precision precision, bool training, std::string& why);

Precision claimed_precision(const Node& node);

// The operands of a gradient node: those of the forward node, then its cotangents, outputs and what was saved.
struct GradientInputs {
  std::array<int, 3> cotangents{-1, -1, -1};  // [output] operand of the node, or -1
  std::array<int, 3> outputs{};               // likewise
  int saved = -1;
  std::vector<int> wanted;  // [input of the forward node] result of the node, or -1

  GradientInputs(const Node& node, const common::Recurrent& r);
  bool has_d_y() const { return cotangents[0] >= 0; }
  bool wants_d_x() const { return wanted[0] >= 0; }
};

// Bytes [at, at + bytes) of a block of memory.
struct RnnSpace {
  std::size_t at = 0, bytes = 0;
};
// The memory of a node besides its operands, by slot; a slot is in `saved` or in `scratch`, or the value of the plan.
// The gradient finds what the forward node saved: the reserve, and its operands in the 16-bit format.
struct RnnMemory {
  std::array<RnnSpace, 16> saved = {}, scratch = {};
  std::size_t saved_bytes = 0, scratch_bytes = 0;
  const RnnSpace& in_saved(RnnSlot slot) const { return saved[static_cast<std::size_t>(slot)]; }
  const RnnSpace& in_scratch(RnnSlot slot) const { return scratch[static_cast<std::size_t>(slot)]; }
};
RnnMemory forward_memory(const Rnn& rnn);  // of inference, or of training
// `has_d_y`: y has a cotangent. `wants_d_x`: somebody reads the gradient of x.
RnnMemory gradient_memory(const Rnn& rnn, bool has_d_y, bool wants_d_x);

}  // namespace unroll::cuda
