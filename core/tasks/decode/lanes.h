// SPDX-License-Identifier: Apache-2.0
// Many beam searches in lock step: a model runs once per token for all rows, with a lane for each hypothesis. A row
// takes the next source as soon as its search is done, so that no lane waits for longer texts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/tasks/decode/beam_search.h"

namespace unroll {

// Coverage penalty sum_s log min(c_s, 1) of a hypothesis whose attention to source step s adds up to c_s (Wu et al.
// 2016, eq. 14, without its factor beta).
double coverage_penalty(std::span<const float> coverage);

struct Lanes {
  std::int64_t rows = 1, per_row = 1;  // lane row * per_row + i
  std::int64_t count() const { return rows * per_row; }
};

class LaneModel {
 public:
  virtual ~LaneModel() = default;
  // Puts a source into a row: the row's first lane has the state before its first token. Sources come in order.
  virtual BeamSearch start(std::size_t source, std::size_t row) = 0;
  // The last token of each lane (the end where a lane is unused), which continues lane parents[lane] of the run before.
  virtual void run(std::span<const std::int32_t> tokens, std::span<const std::size_t> parents) = 0;
  // Lets the search of a row read what that run gave for its lanes.
  virtual void advance(std::size_t source, std::size_t row, BeamSearch& search) = 0;
};

// What the search of each source found, the best first.
std::vector<std::vector<Hypothesis>> search_lanes(LaneModel& model, std::size_t sources, const Lanes& lanes,
                                                  std::int32_t end);

}  // namespace unroll
