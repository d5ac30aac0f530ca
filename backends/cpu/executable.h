// SPDX-License-Identifier: Apache-2.0
// A plan made ready for the threads of a team: its program, its memory. A team has size() and run(f), which calls
// f(const Part&) once in each of its threads (team.h).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backends/common/host_buffer.h"
#include "backends/cpu/program.h"
#include "backends/cpu/rates.h"
#include "backends/cpu/state.h"
#include "core/support/settling.h"

namespace unroll::cpu {

// Does what the options ask of a backend with these threads.
template <class Team>
void prepare(BackendState& state, Team& team, const BackendOptions& options) {
  if (options.trace) options.trace->open_lanes(team.size());
  state.trace = options.trace;
  state.predicts = options.predict;
  if (options.predict) state.rates = measure_rates({team.size(), [&](const Work& work) { team.run(work); }});
}

template <class Team>
class ProgramExecutable final : public Executable, public Settling {
 public:
  ProgramExecutable(std::shared_ptr<const Plan> plan, Team& team, BackendState& state,
                    MakeClaimed make_claimed = nullptr, bool alone = false)
      : plan_(std::move(plan)),
        team_(team),
        alone_(alone || plan_->one_thread),
        predicts_(state.predicts),
        program_({*plan_, alone_ ? 1 : team.size(), state, make_claimed}),
        scratch_(at_least_one(program_.scratch_bytes())) {
    bases_.resize(program_.n_bases());
    const std::size_t arena = at_least_one(plan_->arena_bytes);
    if (plan_->one_thread) own_arena_ = Bytes(arena);
    else share_.emplace(state.arena, arena);
  }

  void run(const Bindings& bindings) override {
    std::optional<SharedArena::Turn> turn;
    if (share_) turn.emplace(share_->arena());
    std::byte** at = bases_.data();
    *at++ = turn ? turn->data() : own_arena_.data();
    *at++ = program_.constants();
    for (Buffer* buffer : bindings.inputs) *at++ = as_host(*buffer).data();
    for (Buffer* buffer : bindings.outputs) *at++ = as_host(*buffer).data();
    const Frame frame{bases_.data(), scratch_.data()};
    if (alone_) program_.run(frame, Part{});
    else program_.run_on(team_, frame);
  }

  std::vector<ReportLine> report() const override {
    std::vector<ReportLine> lines;
    program_.steps().report(lines);
    if (!predicts_)
      for (ReportLine& line : lines) line.predicted_ms = 0;
    return lines;
  }

  bool settled() const override { return program_.steps().settled(); }
  std::size_t workspace_bytes() const override { return scratch_.size() + program_.held_bytes(); }

 private:
  std::shared_ptr<const Plan> plan_;
  Team& team_;
  bool alone_;  // in the caller's thread
  bool predicts_;
  Program program_;
  std::optional<SharedArena::Share> share_;  // of one that takes turns; streams run side by side
  Bytes own_arena_, scratch_;
  std::vector<std::byte*> bases_;
};

}  // namespace unroll::cpu
