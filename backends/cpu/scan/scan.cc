// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/scan/scan.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "backends/cpu/kernels/flush.h"
#include "backends/cpu/program/state.h"
#include "core/support/text/counted.h"
#include "core/support/text/exact_text.h"
#include "unroll/passes/scan_form.h"
#include "unroll/support/error.h"

namespace unroll::cpu {

namespace {

using Clock = std::chrono::steady_clock;

// Workers may run separate rows through all steps if no row reads another one and all matmuls are packed.
bool has_separate_rows(const ScanForm& form, const PlanView& body) {
  const auto packed = [&](const ScanForm::Product& product) { return is_packed_matmul(body, product.node, form); };
  return form.rows > 0 && std::all_of(form.products.begin(), form.products.end(), packed);
}

}  // namespace

ScanCall::ScanCall(const PlanView& view, std::int32_t id, std::size_t& scratch_bytes)
    : form_(scan_form(view.plan, id)),
      layout_(form_.layout),
      scratch_base_(view.plan.scratch_offset[static_cast<std::size_t>(id)]),
      body_(view.plan.bodies[static_cast<std::size_t>(id)]),
      parts_(view.parts),
      make_claimed_(view.make_claimed),
      place_(view.costs->place_of_loop(id)),
      state_(view.state) {
  const Node& node = view.graph().node(id);
  const Plan& body = *body_;
  const auto n_states = static_cast<std::size_t>(layout_.n_states);
  const auto n_sequences = static_cast<std::size_t>(layout_.n_sequences);
  if (view.parts > 1 && has_separate_rows(form_, {body, 1, view.state})) rows_ = form_.rows;
  const auto rows_bytes = [&](const Type& type) {
    return rows_ > 0 && type.shape.rank() > 0 && type.shape[0] == rows_ ? type.bytes() : 0;
  };
  const auto operand = [&](std::int32_t k, const Type& step) {
    const ValueId out{id, k};
    const bool present = view.storage(out).place != Storage::Place::none;
    const std::size_t bytes = step.bytes();
    return Operand{present ? view.ref(out) : Ref{}, bytes, rows_ > 0 ? bytes : 0, present};
  };
  std::size_t buffer = scratch_base_ + body.arena_bytes;
  for (std::size_t i = 0; i < n_states; ++i) {
    const Type& type = view.graph().type(node.inputs[i]);
    const Operand last = operand(static_cast<std::int32_t>(i), type);
    const ScanForm::State& stacks = form_.states[i];
    states_.push_back({view.ref(node.inputs[i]), last, type.bytes(), rows_bytes(type), buffer,
                       std::max(-1, stacks.after - layout_.n_states), std::max(-1, stacks.before - layout_.n_states)});
    buffer += 2 * aligned(type.bytes());
  }
  for (std::size_t i = 0; i < n_sequences; ++i) {
    const ValueId in = node.inputs[n_states + i];
    const Type& seen = body.graph->type(body.graph->inputs()[n_states + i].value);
    const bool packed = layout_.packed && view.graph().type(in).shape.rank() == seen.shape.rank();
    sequences_.push_back({view.ref(in), seen.bytes(), rows_bytes(seen), true, packed});
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(layout_.n_constants); ++i)
    constants_.push_back({view.ref(node.inputs[n_states + n_sequences + i]), 0, 0});
  if (layout_.packed) {
    batch_sizes_ = view.ref(node.inputs.back());
    for (const NamedValue& value : body.graph->outputs()) batch_ = body.graph->type(value.value).shape[0];
  }
  std::size_t spilled = 0;
  for (std::size_t k = n_states; k < node.outputs.size(); ++k) {
    const Type step = body.graph->type(body.graph->outputs()[k].value);
    outputs_.push_back(operand(static_cast<std::int32_t>(k), step));
    spill_offset_.push_back(spilled);
    if (!outputs_.back().present) spilled += aligned(step.bytes());
  }
  spill_ = Bytes(at_least_one(spilled));
  key_ = std::to_string(view.parts) + " parts, " + std::to_string(layout_.steps) + " steps" +
         (layout_.packed ? ", packed " : " ") + print_graph(*body.graph);
  const auto known = state_.schedule ? state_.schedule : state_.choices.find(key_);
  for (const Schedule schedule : possible_schedules(view, id)) {
    Way way{schedule, {}, {}, {}};
    way.guess_ms = loop_ns(view.state.machine, *view.predicted, view.plan, id, schedule, view.parts) * 1e-6;
    // A previous choice comes first, and is the only one that is tried now.
    ways_.insert(known && schedule == *known ? ways_.begin() : ways_.end(), std::move(way));
  }
  const bool is_chosen = known && ways_[0].schedule == *known;
  choice_ = RepeatedChoice(is_chosen ? 1 : ways_.size());
  for (std::size_t i = 0; i < choice_.n_ways(); ++i) {
    compile(ways_[i]);
    if (ways_[i].together()) scratch_bytes = std::max(scratch_bytes, ways_[i].programs[0]->scratch_bytes());
  }
  scratch_room_ = scratch_bytes;
}

std::vector<Schedule> ScanCall::possible_schedules(const PlanView& view, std::int32_t id) const {
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

void ScanCall::compile(Way& way) const {
  const Schedule schedule = way.schedule;
  const auto parts = static_cast<std::size_t>(parts_);
  const int sharers = schedule == Schedule::one ? 1 : parts_;
  std::vector<bool> kept;
  for (std::size_t k = 0; k < body_->graph->outputs().size(); ++k)
    kept.push_back(k >= states_.size() && outputs_[k - states_.size()].present);
  const auto add_program = [&](int n) {
    way.packed.push_back(std::make_unique<std::vector<PackedMatmul*>>());
    const ScanBody scan{form_, place_, *way.packed.back(), schedule, sharers, kept};
    way.programs.push_back(std::make_unique<Program>(PlanView{*body_, n, state_, make_claimed_}, &scan));
  };
  const std::size_t lanes = schedule == Schedule::one ? 1 : parts;
  if (way.together()) add_program(parts_);
  for (std::size_t i = 0; i < lanes; ++i) {
    if (!way.together()) add_program(1);
    Lane lane;
    lane.body = way.programs.back().get();
    lane.packed = way.packed.back().get();
    lane.bases.resize(lane.body->n_bases());
    if (schedule == Schedule::rows) lane.rows = rows_of(Worker{static_cast<int>(i), parts_});
    if (!way.together()) {
      lane.arena = Bytes(at_least_one(body_->arena_bytes));
      lane.scratch = Bytes(at_least_one(lane.body->scratch_bytes()));
    }
    way.lanes.push_back(std::move(lane));
  }
}

void ScanCall::clear(Way& way) const {
  way.lanes.clear();
  way.packed.clear();
  way.programs.clear();
}

std::string ScanCall::implementation() const {
  const Way& way = ways_[choice_.active()];
  std::string text = "loop of " + std::to_string(layout_.steps);
  if (way.lanes.size() > 1 || ways_.size() > 1 || way.schedule != Schedule::calls)
    text += ", by " + std::string(schedule_name(way.schedule));
  if (way.together() && way.lanes.size() > 1) {
    const int barriers = way.programs[0]->steps().n_barriers();
    text += ", " + counted(barriers, "barrier") + " a step";
  }
  if (!way.packed[0]->empty()) text += ", " + std::to_string(way.packed[0]->size()) + " packed";
  const auto digits = [](double ms) { return fixed_text(ms, 4); };
  if (choice_.n_ways() == 1) return text + "; " + digits(way.guess_ms) + " ms guessed";
  for (std::size_t i = 0; i < ways_.size(); ++i)
    if (const double ms = choice_.ms(i); ms > 0)
      text += "; " + std::string(schedule_name(ways_[i].schedule)) + " " + digits(ms) + " ms (" +
              digits(ways_[i].guess_ms) + " guessed)";
  return text;
}

void ScanCall::note_run(double milliseconds) {
  const bool counts = !choice_.open() || warm_up_-- <= 0;
  switch (choice_.add_run(milliseconds, counts, state_.retry)) {
    case RepeatedChoice::Next::go_on: break;
    case RepeatedChoice::Next::drop_others: choose(); break;
    case RepeatedChoice::Next::make_others: try_again(); break;
  }
}

void ScanCall::choose() {
  for (std::size_t i = 0; i < ways_.size(); ++i)
    if (i != choice_.active()) clear(ways_[i]);
  state_.choices.keep(key_, ways_[choice_.active()].schedule);
}

// Retunes, because other programs may have started or ended. Omits ways that need too much scratch.
void ScanCall::try_again() {
  const auto start = std::chrono::steady_clock::now();
  std::swap(ways_[0], ways_[choice_.active()]);
  std::size_t n = 1;
  try {
    for (; n < ways_.size(); ++n) {
      compile(ways_[n]);
      if (!ways_[n].together() || ways_[n].programs[0]->scratch_bytes() <= scratch_room_) continue;
      ways_.erase(ways_.begin() + static_cast<std::ptrdiff_t>(n--));
    }
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::memory) throw;  // without memory for a second way, keep the current one
    clear(ways_[n]);
  }
  choice_.begin_again(n, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
}

// Returns the memory of a state's value after `step` steps.
std::byte* ScanCall::state_after(const Frame& frame, const State& state, std::int64_t step) const {
  if (step == 0) return state.first.in(frame);
  if (state.after >= 0) return stack_at(frame, static_cast<std::size_t>(state.after), time_of(step - 1));
  if (state.before >= 0 && step < layout_.steps)
    return stack_at(frame, static_cast<std::size_t>(state.before), time_of(step));
  if (step == layout_.steps && state.last.present) return state.last.ref.in(frame);
  return frame.bases[k_arena] + state.buffer + static_cast<std::size_t>(step % 2) * aligned(state.bytes);
}

void ScanCall::bind_step(const Frame& frame, std::int64_t step, Lane& lane) {
  const std::int64_t t = time_of(step);
  const auto own = static_cast<std::size_t>(lane.rows.begin), all = static_cast<std::size_t>(rows_);
  const auto row = [&](std::size_t rows_bytes) { return own == 0 ? 0 : rows_bytes * own / all; };
  std::byte** at = lane.bases.data() + k_first_input;
  for (const State& state : states_) *at++ = state_after(frame, state, step) + row(state.rows_bytes);
  for (const Operand& sequence : sequences_)
    *at++ = sequence.ref.in(frame) + static_cast<std::size_t>(t) * sequence.step_bytes + row(sequence.rows_bytes);
  for (const Operand& constant : constants_) *at++ = constant.ref.in(frame);
  for (const State& state : states_) *at++ = state_after(frame, state, step + 1) + row(state.rows_bytes);
  for (std::size_t k = 0; k < outputs_.size(); ++k) *at++ = stack_at(frame, k, t) + row(outputs_[k].rows_bytes);
}

void ScanCall::run(const Frame& frame, const Worker& worker) {
  Way& way = ways_[choice_.active()];
  const bool choosing = choice_.open(), together = way.together(), notes = ways_.size() > 1 && worker.index == 0;
  const auto start = notes ? Clock::now() : Clock::time_point();
  bool ended = false;  // ended with a barrier
  if (static_cast<std::size_t>(worker.index) < way.lanes.size()) {
    Lane& lane = way.lanes[static_cast<std::size_t>(worker.index)];
    if (way.schedule != Schedule::rows || !lane.rows.empty()) run_lane(frame, lane, together ? worker : Worker{});
    ended = together && lane.body->steps().ends_together() && !choosing;
  }
  if (!ended) worker.sync();
  if (!layout_.packed) finish(frame, worker);
  if (notes) note_run(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
}

void ScanCall::run_lane(const Frame& frame, Lane& lane, const Worker& worker) {
  const FlushDenormals flush;  // values that decay over the steps would become slow denormals
  lane.bases[k_arena] = lane.arena.size() > 0 ? lane.arena.data() : frame.bases[k_arena] + scratch_base_;
  lane.bases[k_constants] = lane.body->constants();
  Frame inner{lane.bases.data(), lane.scratch.size() > 0 ? lane.scratch.data() : frame.scratch, {}, frame.lane};
  if (layout_.packed) return run_packed_steps(frame, inner, lane, worker);
  if (!lane.rows.empty()) inner.rows = {lane.rows.end - lane.rows.begin, rows_};
  for (std::int64_t step = 0; step < layout_.steps; ++step) {
    bind_step(frame, step, lane);
    if (step == 0 && !lane.packed->empty()) {
      for (PackedMatmul* product : *lane.packed) product->pack(inner, worker);
      worker.sync();
    }
    lane.body->run(inner, worker);
  }
}

// Copies final states that are not in their bound buffers.
void ScanCall::finish(const Frame& frame, const Worker& worker) const {
  for (const State& state : states_) {
    if (!state.last.present || state.bytes == 0) continue;
    const std::byte* from = state_after(frame, state, layout_.steps);
    std::byte* to = state.last.ref.in(frame);
    const Range r = worker.share(static_cast<std::int64_t>(state.bytes), 64);
    if (from != to && !r.empty()) std::memmove(to + r.begin, from + r.begin, static_cast<std::size_t>(r.end - r.begin));
  }
}

std::unique_ptr<Call> make_scan(const PlanView& view, std::int32_t node, std::size_t& scratch_bytes) {
  if (const ScanLayout l = scan_layout(view.graph().node(node)); l.n_states == 0 && !l.packed)
    return make_map(view, node, scratch_bytes);
  return std::make_unique<ScanCall>(view, node, scratch_bytes);
}

}  // namespace unroll::cpu
