// SPDX-License-Identifier: Apache-2.0
// Many beam searches in lock step: a model runs once per token for all of them, with a lane for each hypothesis.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "frontends/tasks/decode/beam_search.h"
#include "unroll/graph.h"
#include "unroll/tensor.h"

namespace unroll {

// Each entry of axis 0 `times` times in a row: [B,...] -> [B*times,...]
Value repeated(Value x, std::int64_t times);
// Coverage penalty sum_s log min(c_s, 1) of a hypothesis whose attention to source step s adds up to c_s (Wu et al.
// 2016, eq. 14, without its factor beta).
double coverage_penalty(std::span<const float> coverage);

struct Lanes {
  std::int64_t rows = 1, per_row = 1;  // lane row * per_row + i
  std::int64_t count() const { return rows * per_row; }
};
// Runs the model one step: the last token of each lane (its `end` where a lane is unused) and the states [L,lanes,size]
// by name -> the next states.
using RunLanes = std::function<TensorMap(const std::vector<std::int32_t>& tokens, TensorMap states)>;
// Lets search `row`, which is not done, read what that run gave for its lanes, from `first_lane` on.
using AdvanceRow = std::function<void(std::size_t row, std::size_t first_lane, BeamSearch& search)>;
// `states` [L,rows,size]: at first there is one lane per row.
void search_lanes(std::vector<BeamSearch>& searches, const Lanes& lanes, std::int32_t end, TensorMap states,
                  const RunLanes& run, const AdvanceRow& advance);

}  // namespace unroll
