// SPDX-License-Identifier: Apache-2.0
// Choice among cuBLASLt's proposals for a product. Its documentation allows to keep the bytes of an algorithm for the
// same version of the library; MatmulAlgoCheck says whether they are one of this product.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/library/blas.h"
#include "backends/device/lowering.h"
#include "unroll/support/error.h"

namespace unroll::cuda {

namespace {

constexpr std::size_t k_word_digits = 16;  // of a word of an algorithm

std::string name_of(const blas::Algorithm& algorithm) {
  std::string name;
  for (const std::uint64_t word : algorithm.data) {
    char digits[k_word_digits + 1];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(word));
    name += digits;
  }
  return name;
}

std::optional<blas::Algorithm> product_algorithm_named(const std::string& name) {
  blas::Algorithm algorithm;
  if (name.size() != std::size(algorithm.data) * k_word_digits) return std::nullopt;
  const char* at = name.data();
  for (std::uint64_t& word : algorithm.data) {
    const auto [end, error] = std::from_chars(at, at + k_word_digits, word, 16);
    if (error != std::errc() || end != at + k_word_digits) return std::nullopt;
    at = end;
  }
  return algorithm;
}

// "; proposal 2 of 3, measured now: 0.030 ms, 0.020 ms, refused"
std::string how_text(const Decision& decision) {
  const common::Choice& choice = decision.choice;
  std::string times;
  for (const common::Candidate& candidate : choice.candidates)
    times += (times.empty() ? "" : ", ") + common::time_text(candidate);
  return "; proposal " + std::to_string(choice.chosen + 1) + " of " + std::to_string(choice.candidates.size()) + ", " +
         source_text(decision) + ": " + times;
}

}  // namespace

std::vector<common::Candidate> BlasProduct::timed(const Timing& timing, const std::vector<blas::Heuristic>& proposals,
                                                  std::size_t alignment) const try {
  const Device& device = *timing.device;
  // Zeros for a, b, c, the workspace and the bias, at addresses that are multiples of `alignment` only.
  std::size_t bytes = 0, workspace = 0;
  std::vector<CUdeviceptr> operands;
  const auto take = [&](std::size_t size, std::size_t offset) {
    operands.push_back(bytes + offset);
    bytes += device::aligned(size + offset);
  };
  for (const Extent& extent : extents_)
    take(extent.bytes, alignment < extent.element ? 0 : alignment % k_bias_alignment);
  for (const blas::Heuristic& each : proposals) workspace = std::max(workspace, each.workspace_bytes);
  take(workspace, 0);
  take(bias_bytes_, 0);
  const TrialMemory memory(device, bytes);
  for (CUdeviceptr& operand : operands) operand += memory.at();
  device.check(device.f().MemsetD8Async(memory.at(), 0, bytes, device.stream()), "cuMemsetD8Async");
  std::vector<Trial> trials;
  for (const blas::Heuristic& each : proposals)
    trials.push_back({name_of(each.algorithm), [&] { multiply(operands, each, device.stream()); }});
  return timing.autotuner->time(trials);
} catch (const Error& error) {
  if (error.kind() != ErrorKind::memory) throw;
  return {};
}

std::optional<blas::Heuristic> BlasProduct::algorithm(std::size_t alignment, const Timing& timing,
                                                      std::string& how) const {
  std::vector<blas::Heuristic> list = proposals(alignment);
  if (list.empty()) return std::nullopt;
  list.resize(std::min(list.size(), k_timed_proposals));
  if (!timing.autotuner || !timing.autotuner->measures() || list.size() == 1) return list.front();
  const auto usable = [&](const common::Choice& choice) {
    const auto algorithm = product_algorithm_named(choice.best().name);
    return algorithm ? checked(*algorithm) : std::nullopt;
  };
  const Autotuner::Outcome& outcome = timing.autotuner->decide(
      key_ + ", multiples of " + std::to_string(alignment),
      [&](const common::Choice& choice) { return usable(choice).has_value(); },
      [&] { return timed(timing, list, alignment); });
  const auto chosen = outcome.decision ? usable(outcome.decision->choice) : std::nullopt;
  if (chosen) how = how_text(*outcome.decision);
  return chosen ? chosen : list.front();
}

}  // namespace unroll::cuda
