// SPDX-License-Identifier: Apache-2.0
// Earlier inputs of a layer, kept between calls. Shapes: T time, B batch, I width of x.
#pragma once

#include <cstdint>
#include <vector>

#include "unroll/ir/graph.h"

namespace unroll {

struct Delayed {
  std::vector<Value> taps;  // taps[j] [T,B,I]: x of j steps before, for j = 0 .. steps
  Value padded;             // [steps+T,B,I]: the state, then x; in reverse x, then zeros. Without regard to resets
  Value state;              // [steps,B,I]: the last inputs, oldest first; none in reverse
};
// `state` is that of the call before, or empty for zeros. lengths i32 [B]; reset b8 [T,B]: steps that see no earlier
// input. In reverse, "before" is after in time; there is no state and no reset.
Delayed delayed(Value x, Value state, std::int64_t steps, Value lengths, Value reset, bool reverse = false);

}  // namespace unroll
