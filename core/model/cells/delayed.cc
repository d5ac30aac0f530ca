// SPDX-License-Identifier: Apache-2.0
#include "core/model/cells/delayed.h"

#include "unroll/ir/ops.h"

namespace unroll {

namespace {

Value zeros_before(Value x, std::int64_t steps) {
  return filled(x.graph(), {x.dtype(), x.shape().with(0, steps)}, 0);
}

// Element t is that of step t - steps, or zero.
Value shifted(Value x, std::int64_t steps) {
  const std::int64_t T = x.shape()[0];
  if (steps >= T) return zeros_before(x, T);
  return concat({zeros_before(x, steps), slice(x, 0, 0, T - steps)}, 0);
}

// blocked[j] b8 [T,B]: whether a reset lies between a step and the j-th one before it.
std::vector<Value> blocked_taps(Value reset, std::int64_t steps) {
  std::vector<Value> blocked(1);
  for (std::int64_t j = 1; j <= steps; ++j)
    blocked.push_back(j == 1 ? reset : logical_or(blocked.back(), shifted(reset, j - 1)));
  return blocked;
}

Value cleared(Value x, Value blocked) {  // x [T,B,I], blocked [T,B]
  return select(reshape(blocked, {blocked.shape()[0], blocked.shape()[1], 1}), scalar_like(x, 0), x);
}

// Rows lengths[b] .. lengths[b] + steps of each sequence b.
Value rows_at(Value padded, Value lengths, std::int64_t steps) {
  const std::int64_t n = padded.shape()[0], B = padded.shape()[1], I = padded.shape()[2];
  Graph& graph = padded.graph();
  const Value time = reshape(lengths, {1, B}) + iota(graph, {steps, B}, 0);
  const Value row = time * scalar_like(time, static_cast<double>(B)) + iota(graph, {steps, B}, 1);
  return gather(reshape(padded, {n * B, I}), row);
}

}  // namespace

Delayed delayed(Value x, Value state, std::int64_t steps, Value lengths, Value reset, bool reverse) {
  const std::int64_t T = x.shape()[0];
  Delayed result;
  const Value past = state ? state : zeros_before(x, steps);
  result.padded = reverse ? concat({x, past}, 0) : concat({past, x}, 0);
  const std::vector<Value> blocked = reset ? blocked_taps(reset, steps) : std::vector<Value>();
  for (std::int64_t j = 0; j <= steps; ++j) {
    const Value tap = j == 0 ? x : slice(result.padded, 0, reverse ? j : steps - j, T);
    result.taps.push_back(j > 0 && reset ? cleared(tap, blocked[j]) : tap);
  }
  if (reverse) return result;
  if (lengths) {
    result.state = rows_at(result.padded, lengths, steps);
  } else if (!reset) {
    result.state = slice(result.padded, 0, T, steps);
  } else {  // the j-th last row must lie after the last reset
    std::vector<Value> rows;
    for (std::int64_t j = steps; j >= 1; --j) {
      const Value row = slice(result.padded, 0, steps + T - j, 1);
      rows.push_back(j == 1 ? row : cleared(row, slice(blocked[j - 1], 0, T - 1, 1)));
    }
    result.state = concat(rows, 0);
  }
  return result;
}

}  // namespace unroll
