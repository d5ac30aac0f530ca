// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/device/joined.h"
#include "unroll/ir/ops.h"

namespace unroll::device {

LoopOutputs loop_outputs(const Plan& plan, std::int32_t scan) {
  LoopOutputs outputs{scan_layout(plan.graph->node(scan)).n_states};
  for (const Storage& each : plan.storage[scan]) outputs.stored.push_back(each.place != Storage::Place::none);
  return outputs;
}

void set_state_places(StatePlaces& places, const Plan& body, const LoopOutputs& loop) {
  const std::size_t n_states = loop.n_states, n_outputs = body.outputs.size();
  places.after.assign(n_states, -1);
  places.before.assign(n_states, -1);
  places.in_arena.assign(n_states, false);
  places.settled.assign(n_outputs, false);
  const auto is_at = [&](std::size_t output, Storage::Place place, std::size_t index) {
    const Storage& s = body.outputs[output];
    return s.place == place && s.index == static_cast<std::int32_t>(index) && s.offset == 0 && s.strides.empty();
  };
  for (std::size_t i = 0; i < n_states; ++i) {
    std::vector<std::size_t> before;
    for (std::size_t k = n_states; k < n_outputs; ++k) {
      if (!loop.stored[k]) continue;
      const bool same = is_at(i, Storage::Place::output, i) ? is_at(k, Storage::Place::output, i)
                                                            : is_at(i, Storage::Place::output, k);
      if (same && places.after[i] < 0) places.after[i] = static_cast<int>(k);
      if (is_at(k, Storage::Place::input, i)) before.push_back(k);
    }
    places.in_arena[i] = places.after[i] < 0 && body.outputs[i].place == Storage::Place::arena;
    places.two_arenas = places.two_arenas || places.in_arena[i];
    if (places.after[i] >= 0) places.settled[places.after[i]] = places.settled[i] = true;
    if (places.in_arena[i]) places.settled[i] = true;
    const bool is_own = is_at(i, Storage::Place::output, i);
    if (places.after[i] < 0 && is_own && !before.empty()) places.before[i] = static_cast<int>(before[0]);
    if (places.after[i] < 0 && places.before[i] < 0) continue;
    for (const std::size_t k : before) {
      places.settled[k] = true;
      places.shifted.push_back({static_cast<int>(k), static_cast<int>(i)});
    }
  }
}

}  // namespace unroll::device
