// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/decode/lanes.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace unroll {

double coverage_penalty(std::span<const float> coverage) {
  constexpr float k_least = 1e-10F;  // for source steps without attention
  double total = 0;
  for (const float c : coverage) total += std::log(static_cast<double>(std::clamp(c, k_least, 1.0F)));
  return total;
}

std::vector<std::vector<Hypothesis>> search_lanes(LaneModel& model, std::size_t sources, const Lanes& lanes,
                                                  std::int32_t end) {
  struct Row {
    std::size_t source;
    BeamSearch search;
  };
  std::vector<std::optional<Row>> rows(lanes.rows);
  std::vector<std::vector<Hypothesis>> found(sources);
  const std::size_t per_row = lanes.per_row;
  std::vector<std::int32_t> tokens(lanes.count());
  std::vector<std::size_t> parents(tokens.size());
  for (std::size_t next = 0;;) {
    bool any = false;
    std::fill(tokens.begin(), tokens.end(), end);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      std::optional<Row>& row = rows[r];
      if (!row && next < sources) {
        row = Row{next, model.start(next, r)};
        ++next;
      }
      any = any || row;
      for (std::size_t i = 0; i < per_row; ++i) {
        const std::size_t lane = r * per_row + i;
        const bool used = row && i < row->search.tokens().size();
        // Lanes without a hypothesis follow the first lane of their row.
        parents[lane] = r * per_row + (used ? row->search.parents()[i] : 0);
        if (used) tokens[lane] = row->search.tokens()[i];
      }
    }
    if (!any) return found;
    model.run(tokens, parents);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      if (!rows[r]) continue;
      model.advance(rows[r]->source, r, rows[r]->search);
      if (!rows[r]->search.done()) continue;
      found[rows[r]->source] = rows[r]->search.ranked();
      rows[r].reset();
    }
  }
}

}  // namespace unroll
