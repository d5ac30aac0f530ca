// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "backends/cpu/scan/scan.h"

namespace unroll::cpu {

void ScanCall::run_packed_steps(const Frame& frame, Frame& inner, Lane& lane, const Worker& worker) {
  if (batch_ == 0) return;
  const auto* sizes = reinterpret_cast<const std::int32_t*>(batch_sizes_.in(frame));
  const auto size_at = [&](std::int64_t t) { return std::clamp<std::int64_t>(sizes[t], 0, batch_); };
  std::byte** states = inner.bases + k_first_input;
  for (std::size_t i = 0; i < states_.size(); ++i) states[i] = states_[i].first.in(frame);
  for (std::size_t i = 0; i < constants_.size(); ++i)
    states[states_.size() + sequences_.size() + i] = constants_[i].ref.in(frame);
  for (PackedMatmul* product : *lane.packed) product->pack(inner, worker);
  if (!lane.packed->empty()) worker.sync();

  std::int64_t n_steps = 0, rows = 0;  // steps with rows come first
  for (; n_steps < layout_.steps && size_at(n_steps) > 0; ++n_steps) rows += size_at(n_steps);
  const auto time_at = [&](std::int64_t step) { return layout_.reverse ? n_steps - 1 - step : step; };
  Packed at;
  at.next = n_steps > 0 ? size_at(time_at(0)) : 0;
  at.next_row = layout_.reverse ? rows - at.next : 0;
  std::int64_t known = layout_.reverse ? 0 : batch_;  // rows of the states at `states`
  for (std::int64_t step = 0; step < n_steps; ++step) {
    at.time = time_at(step);
    at.live = at.next;
    at.row = at.next_row;
    at.next = step + 1 < n_steps ? size_at(time_at(step + 1)) : 0;
    at.next_row = layout_.reverse ? at.row - at.next : at.row + at.live;
    if (known != at.live && !lane.body->steps().ends_together()) worker.sync();
    const bool moved = layout_.reverse ? known < at.live && join_rows(frame, known, at.live, states, worker)
                                       : known > at.live && end_rows(frame, at.live, known, states, worker);
    if (moved) worker.sync();
    known = at.live;
    bind_packed(frame, at, inner.bases);
    inner.rows = {at.live, batch_};
    lane.body->run(inner, worker);
    std::byte** next = states + states_.size() + sequences_.size() + constants_.size();
    std::copy(next, next + states_.size(), states);
  }
  if (!lane.body->steps().ends_together()) worker.sync();
  end_rows(frame, 0, known, states, worker);
  if (!layout_.reverse) return;  // rows without any step
  for (std::size_t i = 0; i < states_.size(); ++i) states[i] = states_[i].first.in(frame);
  end_rows(frame, known, batch_, states, worker);
}

void ScanCall::bind_packed(const Frame& frame, const Packed& p, std::byte** bases) const {
  std::byte** at = bases + k_first_input;
  const std::byte* const* now = at;
  at += states_.size();
  for (const Operand& sequence : sequences_)
    *at++ = sequence.ref.in(frame) + (sequence.packed
                                          ? static_cast<std::size_t>(p.row) * packed_row_bytes(sequence.step_bytes)
                                          : static_cast<std::size_t>(p.time) * sequence.step_bytes);
  at += constants_.size();
  for (std::size_t i = 0; i < states_.size(); ++i) *at++ = place_after(frame, states_[i], p, now[i]);
  for (std::size_t k = 0; k < outputs_.size(); ++k) *at++ = packed_rows(frame, k, p.row);
}

// Returns the memory for the next value of a state. After the rows of the next step there is room for those of this
// one: they end there and are copied before they are overwritten.
std::byte* ScanCall::place_after(const Frame& frame, const State& state, const Packed& at, const std::byte* now) const {
  if (state.after >= 0) return packed_rows(frame, static_cast<std::size_t>(state.after), at.row);
  if (state.before >= 0 && at.next > 0) return packed_rows(frame, static_cast<std::size_t>(state.before), at.next_row);
  std::byte* buffer = frame.bases[k_arena] + state.buffer;
  return buffer == now ? buffer + aligned(state.bytes) : buffer;
}

// Copies initial values to rows [from, to) of the states. Returns false if they are already there.
bool ScanCall::join_rows(const Frame& frame, std::int64_t from, std::int64_t to, std::byte** states,
                         const Worker& worker) const {
  if (from == 0) return false;  // states are still the initial ones
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const State& state = states_[i];
    const std::size_t size = packed_row_bytes(state.bytes);
    std::byte* buffer = frame.bases[k_arena] + state.buffer;
    const bool has_room = state.after < 0;  // in a buffer, or in the stack before the rows of the previous step
    std::byte* to_state = has_room ? states[i] : buffer;
    const auto copy = [&](std::byte* target, const std::byte* source, std::int64_t begin, std::int64_t end) {
      const Range r = worker.share(end - begin);
      const auto offset = static_cast<std::size_t>(begin + r.begin) * size;
      if (!r.empty()) std::memcpy(target + offset, source + offset, static_cast<std::size_t>(r.end - r.begin) * size);
    };
    if (!has_room) copy(to_state, states[i], 0, from);
    copy(to_state, state.first.in(frame), from, to);
    states[i] = to_state;
  }
  return true;
}

// Stores the final states of rows [from, to). Returns false if no output needs them.
bool ScanCall::end_rows(const Frame& frame, std::int64_t from, std::int64_t to, std::byte* const* states,
                        const Worker& worker) const {
  bool any = false;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (!states_[i].last.present || from >= to) continue;
    any = true;
    const std::size_t size = packed_row_bytes(states_[i].bytes);
    const Range r = worker.share(to - from);
    const auto offset = static_cast<std::size_t>(from + r.begin) * size;
    if (!r.empty())
      std::memmove(states_[i].last.ref.in(frame) + offset, states[i] + offset,
                   static_cast<std::size_t>(r.end - r.begin) * size);
  }
  return any;
}

}  // namespace unroll::cpu
