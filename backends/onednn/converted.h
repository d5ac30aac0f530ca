// SPDX-License-Identifier: Apache-2.0
// A tensor that is f32 in the plan and in another format inside a primitive: copied on the way in and out. Where the
// format is f32 it is the tensor itself.
#pragma once

#include <cstddef>
#include <memory>

#include "backends/onednn/weights.h"

namespace unroll::onednn {

enum class Way : std::uint8_t { in, out };

class Converted {
 public:
  Converted() = default;
  Converted(Way way, std::size_t elements, DType format, Space& scratch);
  void prepare();  // once, before the first run
  // The tensor inside, filled from outside.
  const std::byte* in(const float* outside, std::byte* scratch);
  // The tensor inside, to be written; `out` copies it outside afterwards.
  std::byte* inside(float* outside, std::byte* scratch) const;
  void out(float* outside, std::byte* scratch);

 private:
  std::unique_ptr<Reorder> reorder_;  // null: f32
  std::size_t at_ = 0, reorder_scratch_ = 0;
};

}  // namespace unroll::onednn
