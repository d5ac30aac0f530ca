// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/explain/plan_places.h"

#include <algorithm>
#include <utility>

namespace unroll::cli {

std::string_view phase_name(Origin::Phase phase) {
  constexpr std::string_view k_names[] = {"forward", "backward", "update", "communication"};
  return k_names[static_cast<int>(phase)];
}

std::vector<Origin> plan_places(const Plan& plan) {
  std::vector<Origin> places;
  for (const Node& node : plan.graph->nodes()) {
    places.push_back(node.origin);
    if (node.origin.layer.empty()) places.back().layer = k_shared;
  }
  return places;
}

std::vector<Origin> line_places(const std::vector<ReportLine>& lines, const std::vector<Origin>& nodes) {
  std::vector<Origin> places;
  // The places of the enclosing lines: the lines in a loop inherit its place.
  struct Around {
    Origin place;
    bool is_loop;
  };
  std::vector<Around> around;
  for (const ReportLine& line : lines) {
    around.resize(std::min<std::size_t>(around.size(), line.depth));
    const auto loop = std::find_if(around.begin(), around.end(), [](const Around& a) { return a.is_loop; });
    const bool known = line.node >= 0 && std::cmp_less(line.node, nodes.size());
    Origin place{k_shared};
    if (loop != around.end()) place = loop->place;
    else if (known) place = nodes[line.node];
    places.push_back(place);
    around.push_back({place, loop == around.end() && known});
  }
  return places;
}

}  // namespace unroll::cli
