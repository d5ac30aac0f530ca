// SPDX-License-Identifier: Apache-2.0
// Gradient clipping as nodes of the update graph.
#pragma once

#include <span>
#include <vector>

#include "unroll/ir/ops.h"
#include "unroll/train/trainer.h"

namespace unroll {

// A norm of numbers whose squares may exceed f32: scaled = scale * norm. The scale is 1 where the squares are finite.
struct ScaledNorm {
  Value scaled, scale;
  Value value() const { return scaled / scale; }  // infinite where the norm itself exceeds the dtype
};

// sqrt(sum of squares of all gradients), a scalar. It is finite where the gradients are.
ScaledNorm global_norm(std::span<const Value> gradients);

// True if the limits keep all elements at 1e9 at most, so that optimizers can square them.
inline bool bounds_elements(const ClipOptions& options) { return options.norm > 0 || options.value > 0; }

// The gradients after all limits; `norm` is their global_norm before any. Gradient i is of parameter i and has its
// type.
std::vector<Value> clipped(std::vector<Value> gradients, std::span<const Value> parameters, ScaledNorm norm,
                           const ClipOptions& options);

}  // namespace unroll
