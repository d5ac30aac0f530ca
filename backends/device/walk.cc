// SPDX-License-Identifier: Apache-2.0
#include "backends/device/walk.h"

#include <algorithm>

namespace unroll::device {

namespace {

// `bytes` further, within the same bound memory.
Place moved(Place place, std::size_t bytes) {
  place.at += bytes;
  return place;
}
// The place as all that is bound.
Place only(const void* memory, std::size_t at, std::size_t bytes) { return {memory, at, bytes, at}; }
Place around(const void* memory, std::size_t at, const Operand& operand) {
  return {memory, at - operand.before, operand.before + operand.bytes, at};
}

std::size_t slice_bytes(const Type& stacked) {
  return stacked.shape[0] == 0 ? 0 : stacked.bytes() / stacked.shape[0];
}

}  // namespace

// Behind the arena of the body.
StateCopies state_copies(const Plan& plan, std::int32_t scan, std::size_t state) {
  const auto size = [&](std::size_t i) {
    return (plan.graph->node(scan).outputs[i].bytes() + plan.alignment - 1) / plan.alignment * plan.alignment;
  };
  std::size_t at = plan.scratch_offset[scan] + plan.bodies[scan]->arena_bytes;
  for (std::size_t i = 0; i < state; ++i) at += 2 * size(i);
  return {at, size(state)};
}

bool is_packed_sequence(const Plan& plan, std::int32_t scan, std::size_t input) {
  const Node& node = plan.graph->node(scan);
  const ScanLayout layout = scan_layout(node);
  const std::size_t first = layout.n_states;
  if (!layout.packed || input < first || input >= first + layout.n_sequences) return false;
  const Graph& body = *plan.bodies[scan]->graph;
  return plan.graph->type(node.inputs[input]).shape.rank() == body.type(body.inputs()[input].value).shape.rank();
}

bool PlanPlaces::copies_output(std::size_t k) const {
  const Storage& s = plan->outputs[k];
  const bool is_there = s.place == Storage::Place::output && s.index == static_cast<std::int32_t>(k);
  const bool is_settled = k < states.settled.size() && states.settled[k];
  return !is_there && !is_settled && plan->graph->type(plan->graph->outputs()[k].value).bytes() > 0;
}

void place_constants(PlanPlaces& places, std::vector<std::byte>& constants) {
  const auto nodes = places.plan->graph->nodes();
  places.constants.resize(nodes.size());
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (nodes[n].op != Op::constant) continue;
    const auto bytes = nodes[n].attributes.get<std::shared_ptr<const Tensor>>("value")->bytes();
    places.constants[n] = constants.size();
    constants.insert(constants.end(), bytes.begin(), bytes.end());
    constants.resize(aligned(std::max(constants.size(), places.constants[n] + 1)));
  }
}

std::size_t copied_bytes(const Plan& plan) {
  std::size_t bytes = 0;
  for (const NamedValue& output : plan.graph->outputs()) bytes += (plan.graph->type(output.value).bytes() + 3) / 4 * 4;
  const auto is_donor = [](int donor) { return donor >= 0; };
  return std::any_of(plan.donors.begin(), plan.donors.end(), is_donor) ? bytes : 0;
}

ReportLine report_line(const Plan& plan, std::int32_t id, int depth) {
  const Node& node = plan.graph->node(id);
  ReportLine line{"%" + std::to_string(id) + " " + std::string(op_info(node.op).name), {}};
  for (const Type& type : node.outputs) line.bytes += type.bytes();
  line.depth = depth;
  line.node = id;
  return line;
}

LoopPlaces loop_places(const Plan& plan, std::int32_t scan, std::shared_ptr<const PlanPlaces> body,
                       Lowering& compiler) {
  LoopPlaces places{scan, std::move(body)};
  const LoopOutputs outputs = loop_outputs(plan, scan);
  const auto& types = plan.graph->node(scan).outputs;
  for (int k = 0; k < std::ssize(types); ++k) {
    const bool is_lost = !outputs.stored[k] && k >= outputs.n_states;
    places.unread.push_back(is_lost ? compiler.workspace(types[k].bytes()) : Operand{});
  }
  return places;
}

Place PlanWalk::place(const PlanPlaces& program, const Operand& operand, const Frame& frame) const {
  const Storage& s = operand.storage;
  if (operand.bytes == 0) return held_.nothing;  // never read; a binding must not be empty
  if (operand.workspace) return around(held_.workspace.memory, held_.workspace.at + s.offset, operand);
  switch (s.place) {
    case Storage::Place::input:
      return moved(frame.inputs[s.index], s.offset);
    case Storage::Place::output:
      return moved(frame.outputs[s.index], s.offset);
    case Storage::Place::constant:
      return around(held_.constants.memory, held_.constants.at + program.constants[s.index] + s.offset, operand);
    default:
      return around(frame.arena.memory, frame.arena.at + s.offset, operand);
  }
}

Place PlanWalk::place(const PlanPlaces& program, ValueId id, const Frame& frame) const {
  const Storage& storage = program.plan->storage[id.node][id.output];
  return place(program, Operand{storage, program.plan->graph->type(id).bytes(), false}, frame);
}

void PlanWalk::touches(const PlanPlaces& program, const std::vector<common::Region>& regions, bool writes,
                       const Frame& frame, std::vector<Touch>& out) const {
  for (const common::Region& region : regions) {
    const Operand first{.storage = {region.space.place, region.space.index, 0, {}}, .bytes = 1};
    const Place at = place(program, first, frame);
    const std::size_t begin = at.at + at.apart;
    for (const auto& range : region.ranges) out.push_back({at.memory, begin + range.begin, begin + range.end, writes});
  }
}

bool PlanWalk::copies_outputs(const PlanPlaces& program) const {
  for (std::size_t k = 0; k < program.plan->outputs.size(); ++k)
    if (program.copies_output(k)) return true;
  return false;
}

// Reads all before it writes any: where an output has its donor's buffer, another output may still be read there.
void PlanWalk::output_copies(const PlanPlaces& program, const Frame& frame) {
  const Plan& plan = *program.plan;
  std::vector<std::pair<Place, std::size_t>> from;
  std::vector<Place> to;
  for (std::size_t k = 0; k < plan.outputs.size(); ++k) {
    const Storage& s = plan.outputs[k];
    if (!program.copies_output(k)) continue;
    const std::size_t bytes = plan.graph->type(plan.graph->outputs()[k].value).bytes();
    from.emplace_back(place(program, Operand{s, bytes, false}, frame), bytes);
    to.push_back(frame.outputs[k]);
  }
  const auto touches = [](const Place& a, const Place& b, std::size_t a_bytes, std::size_t b_bytes) {
    return a.memory == b.memory && a.at < b.at + b_bytes && b.at < a.at + a_bytes;
  };
  bool clash = false;
  for (std::size_t i = 0; i < from.size(); ++i)
    for (std::size_t j = 0; j < to.size(); ++j)
      clash = clash || touches(from[i].first, to[j], from[i].second, from[j].second);
  if (clash) {
    std::size_t at = held_.copies.at;
    for (auto& [place, bytes] : from) {
      const Place aside = only(held_.copies.memory, at, bytes);
      copy(place, aside, bytes);
      place = aside;
      at += (bytes + 3) / 4 * 4;
    }
    order();
  }
  for (std::size_t i = 0; i < from.size(); ++i) copy(from[i].first, to[i], from[i].second);
}

bool PlanWalk::Loop::is_kept(std::size_t output) const {
  const auto& storage = program.plan->storage[places.node];
  return storage[output].place != Storage::Place::none;
}

// The slice of a stacked output for a step.
Place PlanWalk::slice(const Loop& loop, int output, std::int64_t step) const {
  const ScanLayout& l = loop.layout;
  const Type& stacked = loop.program.plan->graph->type({loop.places.node, output});
  const std::size_t t = l.reverse ? l.steps - 1 - step : step;
  if (l.packed) {
    Place all = place(loop.program, ValueId{loop.places.node, output}, loop.frame);
    all.apart = t * (stacked.bytes() / l.steps);
    return all;
  }
  return moved(place(loop.program, ValueId{loop.places.node, output}, loop.frame), t * slice_bytes(stacked));
}

// Inputs and outputs of the body in one step.
Frame PlanWalk::step_frame(const Loop& loop, std::int64_t step, const Frame* previous) const {
  const ScanLayout& l = loop.layout;
  const Node& node = loop.program.plan->graph->node(loop.places.node);
  const Graph& body = *loop.places.body->plan->graph;
  const std::int64_t t = l.reverse ? l.steps - 1 - step : step;
  Frame inner;
  inner.arena = loop.arenas[step % std::ssize(loop.arenas)];
  inner.previous = previous;
  inner.is_last = step == l.steps - 1;
  for (int i = 0; i < l.n_states; ++i) inner.kept_states.push_back(loop.is_kept(i));
  for (int i = 0; i < std::ssize(body.inputs()); ++i) {
    if (i < l.n_states && previous) {
      inner.inputs.push_back(state_after(loop, i, *previous));
      inner.packed_inputs.push_back(false);
      continue;
    }
    Place at = place(loop.program, node.inputs[i], loop.frame);
    const Type& type = loop.program.plan->graph->type(node.inputs[i]);
    const bool is_packed = is_packed_sequence(*loop.program.plan, loop.places.node, i);
    inner.packed_inputs.push_back(is_packed);
    if (is_packed) at.apart = t * (type.bytes() / l.steps);
    else if (i >= l.n_states && i < l.n_states + l.n_sequences) at = moved(at, t * slice_bytes(type));
    inner.inputs.push_back(at);
  }
  if (const auto& live = loop.places.live_rows)
    inner.inputs.push_back(moved(place(loop.program, *live, loop.frame), t * live->bytes / l.steps));
  for (int k = 0; k < std::ssize(body.outputs()); ++k) {
    inner.packed_outputs.push_back(l.packed && k >= l.n_states && loop.is_kept(k));
    inner.outputs.push_back(output_place(loop, k, step));
  }
  return inner;
}

Place PlanWalk::output_place(const Loop& loop, int k, std::int64_t step) const {
  const ScanLayout& l = loop.layout;
  const StatePlaces& states = loop.places.body->states;
  const auto& copies = loop.copies[step % 2];
  const bool is_last = step == l.steps - 1;
  if (k < l.n_states) {
    if (states.after[k] >= 0) return slice(loop, states.after[k], step);
    if (states.before[k] >= 0 && !is_last) return slice(loop, states.before[k], step + 1);
    const bool is_final = is_last && loop.is_kept(k) && !l.packed;
    return is_final ? place(loop.program, ValueId{loop.places.node, k}, loop.frame) : copies[k];
  }
  if (!loop.is_kept(k)) return place(loop.program, loop.places.unread[k], loop.frame);
  const int state = states.stored_ahead(k);
  if (state < 0) return slice(loop, k, step);
  return is_last ? copies[state] : slice(loop, k, step + 1);  // nobody reads a state stored in the last step
}

int StatePlaces::stored_ahead(std::size_t output) const {
  for (const Shifted& each : shifted)
    if (each.in_step && each.output == static_cast<int>(output)) return each.state;
  return -1;
}

Place PlanWalk::state_after(const Loop& loop, std::size_t state, const Frame& step) const {
  const PlanPlaces& body = *loop.places.body;
  if (!body.states.in_arena[state]) return step.outputs[state];
  const std::size_t bytes = body.plan->graph->type(body.plan->graph->outputs()[state].value).bytes();
  return place(body, Operand{body.plan->outputs[state], bytes, false}, step);
}

// Copies what no step wrote: final states that lie elsewhere, and stacks of states before each step.
void PlanWalk::after_steps(const Loop& loop, const Frame& last) {
  const Node& node = loop.program.plan->graph->node(loop.places.node);
  const StatePlaces& states = loop.places.body->states;
  bool ordered = false;
  const auto copy_after = [&](const Place& from, const Place& to, std::size_t bytes) {
    if (!ordered) order();
    ordered = true;
    copy(from, to, bytes);
  };
  for (std::size_t i = 0; i < loop.n_states(); ++i) {
    if (!loop.is_kept(i) || (states.after[i] < 0 && !states.in_arena[i])) continue;
    const ValueId id{loop.places.node, static_cast<std::int32_t>(i)};
    copy_after(state_after(loop, i, last), place(loop.program, id, loop.frame), node.outputs[i].bytes());
  }
  const std::size_t n = loop.layout.steps - 1;
  const std::int64_t lower = loop.layout.reverse ? loop.layout.steps - 1 : 0;  // the step of slice 0
  for (const auto& [output, state, in_step] : states.shifted) {
    const std::size_t bytes = node.outputs[state].bytes();
    copy_after(place(loop.program, node.inputs[state], loop.frame), slice(loop, output, 0), bytes);
    if (in_step || states.before[state] == output) continue;
    // Steps 1, 2, .. of this stack are steps 0, 1, .. of the one after each step, or those of the other one.
    const bool is_after = states.after[state] >= 0;
    const std::int64_t first = loop.layout.reverse ? lower : 1;
    const std::int64_t from = loop.layout.reverse ? lower - is_after : 1 - is_after;
    copy_after(slice(loop, is_after ? states.after[state] : states.before[state], from), slice(loop, output, first),
               n * bytes);
  }
}

void PlanWalk::loop(const PlanPlaces& program, const LoopPlaces& places, const Frame& frame) {
  const Node& node = program.plan->graph->node(places.node);
  const Plan& body = *places.body->plan;
  Loop loop{program, places, frame, scan_layout(node), {}, {}};
  const ScanLayout& l = loop.layout;
  const std::size_t scratch = frame.arena.at + program.plan->scratch_offset[places.node];
  for (std::size_t i = 0; i < loop.n_states(); ++i) {
    const StateCopies at = state_copies(*program.plan, places.node, i);
    for (std::size_t parity = 0; parity < 2; ++parity)
      loop.copies[parity].push_back(only(frame.arena.memory, frame.arena.at + at.first + parity * at.apart,
                                         std::max<std::size_t>(node.outputs[i].bytes(), 1)));
  }
  loop.arenas.push_back(only(frame.arena.memory, scratch, body.arena_bytes));
  if (places.body->states.two_arenas) loop.arenas.push_back(place(*places.body, places.body->second_arena, frame));
  Frame steps[2];
  for (std::int64_t number = 0; number < l.steps; ++number) {
    Frame& now = steps[number % 2];
    now = step_frame(loop, number, number > 0 ? &steps[(number - 1) % 2] : nullptr);
    if (number > 0) order();
    step(*places.body, now, number, l.steps);
  }
  if (l.steps > 0) return after_steps(loop, steps[(l.steps - 1) % 2]);
  for (std::size_t i = 0; i < loop.n_states(); ++i)
    if (loop.is_kept(i)) {
      const ValueId id{places.node, static_cast<std::int32_t>(i)};
      copy(place(program, node.inputs[i], frame), place(program, id, frame), node.outputs[i].bytes());
    }
}

}  // namespace unroll::device
