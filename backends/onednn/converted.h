// SPDX-License-Identifier: Apache-2.0
// A tensor that is f32 in the plan and has another format inside a primitive: converted on the way in and out. With
// format f32 it is the tensor itself.
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
  // Returns the inside tensor, converted from `outside`.
  const std::byte* in(const float* outside, std::byte* scratch);
  // Returns the inside tensor for writing; `out` converts it to `outside` afterwards.
  std::byte* inside(float* outside, std::byte* scratch) const;
  void out(float* outside, std::byte* scratch);

 private:
  std::unique_ptr<Reorder> reorder_;  // null: f32
  std::size_t at_ = 0, reorder_scratch_ = 0;
};

}  // namespace unroll::onednn
