// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/library/rnn_choice.h"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "backends/device/lowering.h"
#include "unroll/support/error.h"

namespace unroll::cuda {

namespace {

using common::Recurrent;
using dnn::Algorithm;

constexpr Algorithm k_algorithms[] = {Algorithm::standard, Algorithm::persist_static, Algorithm::persist_dynamic,
                                      Algorithm::small_h};

std::size_t bytes_of(const Rnn& rnn, RnnSlot slot) {
  switch (slot) {
    case RnnSlot::weights:
    case RnnSlot::d_weights: return rnn.weight_bytes();
    case RnnSlot::workspace: return rnn.workspace_bytes();
    case RnnSlot::reserve: return rnn.reserve_bytes();
    default: {
      const Recurrent& r = rnn.form().layers;
      return elements_of(r, slot) * dtype_bytes(inside_dtype(r));
    }
  }
}

// Zeros for all calls of some layers that differ in their algorithm only.
class RnnScratch {
 public:
  RnnScratch(const Device& device, std::span<const std::shared_ptr<const Rnn>> all)
      : device_(device), places_(placed(all)), memory_(device, bytes_) {
    device_.check(device_.f().MemsetD8Async(memory_.at(), 0, bytes_, device_.stream()), "cuMemsetD8Async");
  }
  // The forward pass, and its gradient where one follows.
  void enqueue(const std::shared_ptr<const Rnn>& rnn) const {
    std::vector<CUdeviceptr> operands;
    for (const std::size_t place : places_) operands.push_back(memory_.at() + place);
    using Kind = RnnCall::Kind;
    for (const Kind kind : {Kind::forward, Kind::gradient_of_data, Kind::gradient_of_weights})
      if (kind == Kind::forward || rnn->form().training) RnnCall(rnn, kind, slots_).run(operands, device_.stream());
  }

 private:
  std::vector<std::size_t> placed(std::span<const std::shared_ptr<const Rnn>> all) {
    const auto last = all.front()->form().training ? RnnSlot::d_weights : RnnSlot::workspace;
    std::vector<std::size_t> places;
    for (int k = 0; k <= static_cast<int>(last); ++k) {
      const auto slot = static_cast<RnnSlot>(k);
      std::size_t most = 0;
      for (const auto& rnn : all) most = std::max(most, bytes_of(*rnn, slot));
      if (most == 0) continue;
      slots_.push_back(slot), places.push_back(bytes_);
      bytes_ += device::aligned(most);
    }
    return places;
  }

  const Device& device_;
  std::vector<RnnSlot> slots_;
  std::size_t bytes_ = 0;
  std::vector<std::size_t> places_;  // [slot of slots_]
  TrialMemory memory_;
};

// Null where the library refuses it, in whatever way: it need not be chosen.
std::shared_ptr<const Rnn> made_for_trial(const RnnLibrary& library, RnnForm form, Algorithm algorithm) {
  form.algorithm = algorithm;
  std::string why;
  try {
    return Rnn::make(library.dnn, form, why);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::device || algorithm == Algorithm::standard) throw;
    return nullptr;
  }
}

// Passes by all algorithms, in their order; none: STANDARD does not run, or there is no memory for them.
std::vector<common::Candidate> timed_layers(const RnnLibrary& library, const RnnForm& form) try {
  std::vector<std::shared_ptr<const Rnn>> all;
  for (const Algorithm each : k_algorithms)
    if (auto rnn = made_for_trial(library, form, each)) all.push_back(std::move(rnn));
  const RnnScratch scratch(*library.device, all);
  std::vector<Trial> trials;
  for (const auto& rnn : all)
    trials.push_back({std::string(algorithm_name(rnn->form().algorithm)), [&] { scratch.enqueue(rnn); }});
  const std::vector<common::Candidate> ran = library.autotuner->time(trials);
  if (ran.empty() || !ran[0].runs()) return {};
  std::vector<common::Candidate> candidates;
  for (const Algorithm each : k_algorithms) {
    const std::string name(algorithm_name(each));
    const auto at = std::find_if(ran.begin(), ran.end(), [&](const auto& candidate) { return candidate.name == name; });
    candidates.push_back(at == ran.end() ? common::Candidate{name} : *at);
  }
  return candidates;
} catch (const Error& error) {
  if (error.kind() != ErrorKind::memory) throw;
  return {};  // a run needs as much, and says what holds it
}

std::optional<Algorithm> rnn_algorithm_named(std::string_view name) {
  for (const Algorithm each : k_algorithms)
    if (algorithm_name(each) == name) return each;
  return std::nullopt;
}

// Steps in powers of two: sequences of nearly the same length have the same algorithm.
std::string rnn_key(const RnnLibrary& library, const RnnForm& form) {
  const Recurrent& r = form.layers;
  std::string key = "cuDNN " + std::to_string(library.dnn->f().GetVersion()) + ' ' + std::string(op_info(r.cell).name) +
                    (r.relu ? " relu" : "") + (form.training ? " training" : " inference") + ' ' +
                    std::string(dtype_name(r.dtype)) + " in " + std::string(dtype_name(r.format)) +
                    (form.tf32 ? " tf32" : "");
  const std::pair<const char*, std::int64_t> sizes[] = {
      {"B", r.B}, {"I", r.I}, {"H", r.H}, {"P", r.P}, {"layers", r.L}, {"directions", r.D},
      {"T at most", static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(r.T)))}};
  for (const auto& [name, size] : sizes) key += std::string(", ") + name + ' ' + std::to_string(size);
  return key;
}

struct Preferred {
  Algorithm algorithm;
  std::string how;
};
Preferred preferred(const RnnLibrary& library, const RnnForm& form) {
  if (library.forced) return {*library.forced, "forced by rnn_algorithm"};
  const auto by_rule = [&](const std::string& why) {
    const Limits& limits = library.device->limits();
    return Preferred{algorithm_for(form.layers, form.training, limits.arch, limits.multiprocessors),
                     "chosen by rule: " + why};
  };
  if (!library.autotuner->measures()) return by_rule(library.autotuner->why_not());
  const auto is_known = [](const common::Choice& c) { return rnn_algorithm_named(c.best().name).has_value(); };
  const Autotuner::Outcome& outcome =
      library.autotuner->decide(rnn_key(library, form), is_known, [&] { return timed_layers(library, form); });
  if (!outcome.decision) return by_rule(outcome.why_not);
  const common::Choice& choice = outcome.decision->choice;
  const auto runs = [](const common::Candidate& candidate) { return candidate.runs(); };
  const bool is_only = std::count_if(choice.candidates.begin(), choice.candidates.end(), runs) == 1;
  return {*rnn_algorithm_named(choice.best().name), (is_only ? "the only algorithm that runs, " : "") +
                                                        source_text(*outcome.decision) + ": " + times_text(choice)};
}

}  // namespace

std::shared_ptr<const Rnn> RnnTrials::runs(const Device& device, const std::shared_ptr<const Dnn>& dnn,
                                           const RnnForm& form, std::string& why) {
  auto at = std::find_if(tried_.begin(), tried_.end(), [&](const Tried& tried) { return tried.form == form; });
  if (at != tried_.end() && !at->failure.empty()) {
    why = at->failure;
    return nullptr;
  }
  if (at != tried_.end())
    if (auto rnn = at->rnn.lock()) return rnn;
  auto rnn = Rnn::make(dnn, form, why);
  if (!rnn || at != tried_.end()) {
    if (rnn) at->rnn = rnn;
    return rnn;
  }
  std::string failure;
  try {
    const RnnScratch scratch(device, std::span(&rnn, 1));
    failure = failure_of(device, [&] { scratch.enqueue(rnn); });
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::memory) throw;
    // A run needs as much, and says what holds it. The answer stays: plans have room for this algorithm.
  }
  tried_.push_back({form, failure, rnn});
  why = failure;
  return failure.empty() ? rnn : nullptr;
}

std::shared_ptr<const Rnn> chosen_rnn(const RnnLibrary& library, RnnForm form, std::string& why) {
  form.algorithm = Algorithm::standard;
  if (!Rnn::make(library.dnn, form, why)) return nullptr;
  const Preferred wanted = preferred(library, form);
  form.chosen = wanted.how;
  if (wanted.algorithm != Algorithm::standard) {
    form.algorithm = wanted.algorithm;
    if (auto rnn = library.trials->runs(*library.device, library.dnn, form, why)) return rnn;
    form.chosen =
        "because " + std::string(algorithm_name(wanted.algorithm)) + " (" + wanted.how + ") does not run: " + why;
  }
  form.algorithm = Algorithm::standard;
  return Rnn::make(library.dnn, form, why);
}

Algorithm algorithm_for(const Recurrent& r, bool training, int arch, int multiprocessors) {
  const bool has_persistent = r.dtype == DType::f32 && r.format != DType::bf16 && !r.projects;
  if (!has_persistent) return Algorithm::standard;
  const std::int64_t small = r.cell == Op::rnn ? (training ? 256 : 384) : (training ? 128 : 192);
  if (r.H <= small) return Algorithm::small_h;
  const bool is_fast_batch = r.B % 8 == 0 && r.B <= 128 && (r.cell == Op::lstm || r.B < 96 || r.H < 896);
  const bool is_static = r.format == DType::f16 && r.L == 1 && r.D == 1 && r.H <= 1024 && r.H % 128 == 0 &&
                         r.I % 128 == 0 && is_fast_batch && r.cell != Op::gru && arch >= 80 && arch != 86 &&
                         multiprocessors >= 98;
  return is_static ? Algorithm::persist_static : Algorithm::standard;
}

std::optional<Algorithm> algorithm_of_option(std::string_view option) {
  const auto at = std::find(std::begin(k_algorithm_options), std::end(k_algorithm_options), option);
  if (at == std::end(k_algorithm_options)) return std::nullopt;
  return k_algorithms[at - std::begin(k_algorithm_options)];
}

}  // namespace unroll::cuda
