// SPDX-License-Identifier: Apache-2.0
#include "frontends/tasks/decode/lanes.h"

#include <algorithm>
#include <cmath>

#include "unroll/ops.h"

namespace unroll {

namespace {

// Lane i of the result is lane parents[i] of `state` [L,lanes,size].
Tensor reordered(const Tensor& state, std::span<const std::size_t> parents) {
  const std::int64_t L = state.shape()[0], size = state.shape()[2];
  const auto lanes = static_cast<std::int64_t>(parents.size()), before = state.shape()[1];
  Tensor result(state.dtype(), {L, lanes, size});
  const auto from = state.values<float>();
  const auto to = result.values<float>();
  for (std::int64_t l = 0; l < L; ++l)
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      const auto parent = static_cast<std::int64_t>(parents[static_cast<std::size_t>(lane)]);
      std::copy_n(from.begin() + (l * before + parent) * size, size, to.begin() + (l * lanes + lane) * size);
    }
  return result;
}

}  // namespace

Value repeated(Value x, std::int64_t times) {
  const Shape& s = x.shape();
  Shape one = s.inserted(1, 1), many = s.inserted(1, times);
  std::vector<std::int64_t> joined{s[0] * times};
  for (int axis = 1; axis < s.rank(); ++axis) joined.push_back(s[axis]);
  return reshape(broadcast(reshape(x, one), many), Shape(joined));
}

double coverage_penalty(std::span<const float> coverage) {
  constexpr float k_least = 1e-10F;  // a source step that was never attended to
  double total = 0;
  for (const float c : coverage) total += std::log(static_cast<double>(std::clamp(c, k_least, 1.0F)));
  return total;
}

void search_lanes(std::vector<BeamSearch>& searches, const Lanes& lanes, std::int32_t end, TensorMap states,
                  const RunLanes& run, const AdvanceRow& advance) {
  const auto n = static_cast<std::size_t>(lanes.count()), per_row = static_cast<std::size_t>(lanes.per_row);
  const auto is_live = [](const BeamSearch& s) { return !s.done(); };
  for (bool first = true; std::any_of(searches.begin(), searches.end(), is_live); first = false) {
    std::vector<std::int32_t> tokens(n, end);
    std::vector<std::size_t> parents(n);  // lanes without a hypothesis follow the first of their row
    for (std::size_t lane = 0; lane < n; ++lane) {
      const std::size_t b = lane / per_row, i = lane % per_row;
      const bool used = b < searches.size() && !searches[b].done() && i < searches[b].tokens().size();
      parents[lane] = first ? b : b * per_row + (used ? searches[b].parents()[i] : 0);
      if (used) tokens[lane] = searches[b].tokens()[i];
    }
    TensorMap next;
    for (const auto& [name, tensor] : states) next.emplace(name, reordered(tensor, parents));
    states = run(tokens, std::move(next));
    for (std::size_t b = 0; b < searches.size(); ++b)
      if (!searches[b].done()) advance(b, b * per_row, searches[b]);
  }
}

}  // namespace unroll
