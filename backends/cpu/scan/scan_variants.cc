// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/scan/scan_variants.h"

#include <algorithm>
#include <chrono>

#include "backends/cpu/cost/work.h"
#include "backends/cpu/program/state.h"
#include "core/support/text/exact_text.h"
#include "unroll/support/error.h"

namespace unroll::cpu {

ScanVariants::ScanVariants(const PlanView& view, std::int32_t id, const ScanForm& form, const ScanBuffers& buffers,
                           std::size_t& scratch_bytes)
    : form_(form),
      rows_(buffers.rows),
      body_(view.plan.bodies[id]),
      parts_(view.parts),
      make_claimed_(view.make_claimed),
      place_(view.costs->place_of_loop(id)),
      kept_(buffers.states.size(), false),
      state_(view.state) {
  for (const ScanBuffers::Operand& output : buffers.outputs) kept_.push_back(output.present);
  key_ = std::to_string(parts_) + " parts, " + std::to_string(form.layout.steps) + " steps" +
         (form.layout.packed ? ", packed " : " ") + print_graph(*body_->graph);
  const auto known = state_.schedule ? state_.schedule : state_.choices.find(key_);
  for (const Schedule schedule : possible_schedules(view, id)) {
    ScanVariant variant{schedule, {}, {}, {}};
    variant.guess_ms = loop_ns(state_.machine, *view.predicted, view.plan, id, schedule, parts_) * 1e-6;
    // A previous choice comes first, and is the only one that is tried now.
    variants_.insert(known && schedule == *known ? variants_.begin() : variants_.end(), std::move(variant));
  }
  const bool is_chosen = known && variants_[0].schedule == *known;
  choice_ = RepeatedChoice(is_chosen ? 1 : variants_.size());
  for (std::size_t i = 0; i < choice_.n_ways(); ++i) {
    compile(variants_[i]);
    if (variants_[i].together()) scratch_bytes = std::max(scratch_bytes, variants_[i].programs[0]->scratch_bytes());
  }
  scratch_room_ = scratch_bytes;
}

std::vector<Schedule> ScanVariants::possible_schedules(const PlanView& view, std::int32_t id) const {
  const auto ranked = [&](const std::vector<Schedule>& possible) {
    return rank_schedules(usual_machine(), *view.costs, view.plan, id, view.parts, possible);
  };
  if (view.parts == 1) return ranked({Schedule::calls});
  std::vector<Schedule> possible{Schedule::columns, Schedule::calls, Schedule::one};
  if (rows_ > 0) possible.push_back(Schedule::rows);
  if (!state_.schedule) return ranked(possible);
  const bool can = std::find(possible.begin(), possible.end(), *state_.schedule) != possible.end();
  return ranked({can ? *state_.schedule : Schedule::calls});
}

void ScanVariants::compile(ScanVariant& variant) const {
  const Schedule schedule = variant.schedule;
  const int sharers = schedule == Schedule::one ? 1 : parts_;
  const auto add_program = [&](int n) {
    variant.packed.push_back(std::make_unique<std::vector<PackedMatmul*>>());
    const ScanBody scan{form_, place_, *variant.packed.back(), schedule, sharers, kept_};
    variant.programs.push_back(std::make_unique<Program>(PlanView{*body_, n, state_, make_claimed_}, &scan));
  };
  if (variant.together()) add_program(parts_);
  for (int i = 0; i < sharers; ++i) {
    if (!variant.together()) add_program(1);
    ScanLane lane;
    lane.body = variant.programs.back().get();
    lane.packed = variant.packed.back().get();
    lane.bases.resize(lane.body->n_bases());
    if (schedule == Schedule::rows) lane.rows = rows_of(Worker{i, parts_});
    if (!variant.together()) {
      lane.arena = Bytes(at_least_one(body_->arena_bytes));
      lane.scratch = Bytes(at_least_one(lane.body->scratch_bytes()));
    }
    variant.lanes.push_back(std::move(lane));
  }
}

void ScanVariants::clear(ScanVariant& variant) const {
  variant.lanes.clear();
  variant.packed.clear();
  variant.programs.clear();
}

std::size_t ScanVariants::held_bytes() const {
  std::size_t bytes = 0;
  for (const ScanVariant& variant : variants_) {
    for (const auto& program : variant.programs) bytes += program->held_bytes();
    for (const ScanLane& lane : variant.lanes) bytes += lane.arena.size() + lane.scratch.size();
  }
  return bytes;
}

std::string ScanVariants::times() const {
  const auto digits = [](double ms) { return fixed_text(ms, 4); };
  if (choice_.n_ways() == 1) return "; " + digits(active().guess_ms) + " ms guessed";
  std::string text;
  for (std::size_t i = 0; i < variants_.size(); ++i)
    if (const double ms = choice_.ms(i); ms > 0)
      text += "; " + std::string(schedule_name(variants_[i].schedule)) + " " + digits(ms) + " ms (" +
              digits(variants_[i].guess_ms) + " guessed)";
  return text;
}

void ScanVariants::note_run(double milliseconds) {
  const bool counts = !choice_.open() || warm_up_-- <= 0;
  switch (choice_.add_run(milliseconds, counts, state_.retry)) {
    case RepeatedChoice::Next::go_on: break;
    case RepeatedChoice::Next::drop_others: choose(); break;
    case RepeatedChoice::Next::make_others: try_again(); break;
  }
}

void ScanVariants::choose() {
  for (ScanVariant& variant : variants_)
    if (&variant != &active()) clear(variant);
  state_.choices.keep(key_, active().schedule);
}

// Retunes, because other programs may have started or ended. Omits variants that need too much scratch.
void ScanVariants::try_again() {
  const auto start = std::chrono::steady_clock::now();
  std::swap(variants_[0], active());
  auto at = variants_.begin() + 1;
  try {
    while (at != variants_.end()) {
      compile(*at);
      const bool fits = !at->together() || at->programs[0]->scratch_bytes() <= scratch_room_;
      at = fits ? at + 1 : variants_.erase(at);
    }
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::memory) throw;  // without memory for a second variant, keep the current one
    clear(*at);
  }
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  choice_.begin_again(at - variants_.begin(), spent.count());
}

}  // namespace unroll::cpu
