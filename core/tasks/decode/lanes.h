// SPDX-License-Identifier: Apache-2.0
// Beam searches in lockstep: the model runs once per token for all rows, with a lane per hypothesis. A row takes the
// next source as soon as its search is done, so no lane waits for longer texts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/tasks/decode/beam_search.h"

namespace unroll {

// Returns the coverage penalty sum_s log min(c_s, 1) of a hypothesis; c_s is its total attention to source step s (Wu
// et al. 2016, eq. 14, without its factor beta).
double coverage_penalty(std::span<const float> coverage);

struct Lanes {
  std::int64_t rows = 1, per_row = 1;  // lane row * per_row + i
  std::int64_t count() const { return rows * per_row; }
};

class LaneModel {
 public:
  virtual ~LaneModel() = default;
  // Assigns a source to a row: the row's first lane gets the initial state of the source. Sources come in order.
  virtual BeamSearch start(std::size_t source, std::size_t row) = 0;
  // Runs the model on each lane's last token (the end token if unused). Lane i continues lane parents[i] of the last
  // run.
  virtual void run(std::span<const std::int32_t> tokens, std::span<const std::size_t> parents) = 0;
  // Advances the search of a row with the results of that run.
  virtual void advance(std::size_t source, std::size_t row, BeamSearch& search) = 0;
};

// Returns the hypotheses of each source, best first.
std::vector<std::vector<Hypothesis>> search_lanes(LaneModel& model, std::size_t sources, const Lanes& lanes,
                                                  std::int32_t end);

}  // namespace unroll
