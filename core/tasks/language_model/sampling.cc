// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/language_model/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "unroll/support/error.h"

namespace unroll {

std::int32_t choose(std::span<const float> logits, const Sampling& sampling, double uniform, std::int32_t never) {
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::erase(ids, never);
  const auto logit = [&](std::int32_t id) { return logits[id]; };
  const std::int32_t best =
      *std::max_element(ids.begin(), ids.end(), [&](std::int32_t a, std::int32_t b) { return logit(a) < logit(b); });
  if (!std::isfinite(logit(best))) throw Error(ErrorKind::numeric, "generate", "the model's output is not finite");
  if (sampling.temperature == 0) return best;
  const bool by_rank = sampling.top_k > 0 || sampling.top_p < 1;
  if (by_rank)
    std::stable_sort(ids.begin(), ids.end(), [&](std::int32_t a, std::int32_t b) { return logit(a) > logit(b); });
  if (sampling.top_k > 0) ids.resize(std::min<std::size_t>(ids.size(), sampling.top_k));
  std::vector<double> sums;
  double total = 0;
  for (const std::int32_t id : ids)
    sums.push_back(total += std::exp(static_cast<double>(logit(id) - logit(best)) / sampling.temperature));
  if (sampling.top_p < 1) {
    const auto last = std::lower_bound(sums.begin(), sums.end(), sampling.top_p * total);
    sums.resize(std::min(last - sums.begin() + 1, std::ssize(sums)));
    total = sums.back();
  }
  const auto at = std::upper_bound(sums.begin(), sums.end(), uniform * total);
  return ids[std::min(at - sums.begin(), std::ssize(sums) - 1)];
}

}  // namespace unroll
