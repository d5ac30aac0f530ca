// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "backends/cpu/scan/scan.h"

namespace unroll::cpu {

void ScanCall::run_packed_steps(const Frame& frame, Frame& inner, ScanLane& lane, const Worker& worker) {
  const ScanBuffers& b = buffers_;
  if (b.batch == 0) return;
  const bool reverse = form_.layout.reverse;
  const auto* sizes = reinterpret_cast<const std::int32_t*>(b.batch_sizes.in(frame));
  const auto size_at = [&](std::int64_t t) { return std::clamp<std::int64_t>(sizes[t], 0, b.batch); };
  std::byte** now = inner.bases + k_first_input;  // the states
  std::byte** const constants = now + b.states.size() + b.sequences.size();
  std::byte** const next = constants + b.constants.size();
  const auto begin_states = [&] {
    for (std::size_t i = 0; i < b.states.size(); ++i) now[i] = b.states[i].first.in(frame);
  };
  begin_states();
  for (std::size_t i = 0; i < b.constants.size(); ++i) constants[i] = b.constants[i].ref.in(frame);
  for (PackedMatmul* product : *lane.packed) product->pack(inner, worker);
  if (!lane.packed->empty()) worker.sync();

  std::int64_t n_steps = 0, rows = 0;  // steps with rows come first
  for (; n_steps < form_.layout.steps && size_at(n_steps) > 0; ++n_steps) rows += size_at(n_steps);
  const auto time_at = [&](std::int64_t step) { return reverse ? n_steps - 1 - step : step; };
  ScanBuffers::Packed at;
  at.next = n_steps > 0 ? size_at(time_at(0)) : 0;
  at.next_row = reverse ? rows - at.next : 0;
  std::int64_t known = reverse ? 0 : b.batch;  // rows of the states at `now`
  for (std::int64_t step = 0; step < n_steps; ++step) {
    at.time = time_at(step);
    at.live = at.next;
    at.row = at.next_row;
    at.next = step + 1 < n_steps ? size_at(time_at(step + 1)) : 0;
    at.next_row = reverse ? at.row - at.next : at.row + at.live;
    if (known != at.live && !lane.body->steps().ends_together()) worker.sync();
    const bool moved = reverse ? known < at.live && b.join_rows(frame, known, at.live, now, worker)
                               : known > at.live && b.end_rows(frame, at.live, known, now, worker);
    if (moved) worker.sync();
    known = at.live;
    b.bind_packed(frame, at, inner.bases);
    inner.rows = {at.live, b.batch};
    lane.body->run(inner, worker);
    std::copy(next, next + b.states.size(), now);
  }
  if (!lane.body->steps().ends_together()) worker.sync();
  b.end_rows(frame, 0, known, now, worker);
  if (!reverse) return;  // rows without any step
  begin_states();
  b.end_rows(frame, known, b.batch, now, worker);
}

void ScanBuffers::bind_packed(const Frame& frame, const Packed& p, std::byte** bases) const {
  std::byte** at = bases + k_first_input;
  const std::byte* const* now = at;
  at += states.size();
  for (const Operand& sequence : sequences)
    *at++ = sequence.ref.in(frame) + (sequence.packed ? p.row * packed_row_bytes(sequence.step_bytes)
                                                      : p.time * sequence.step_bytes);
  at += constants.size();
  for (std::size_t i = 0; i < states.size(); ++i) *at++ = place_after(frame, states[i], p, now[i]);
  for (std::size_t k = 0; k < outputs.size(); ++k) *at++ = packed_rows(frame, k, p.row);
}

// Returns the memory for the next value of a state. After the rows of the next step there is room for those of this
// one: they end there and are copied before they are overwritten.
std::byte* ScanBuffers::place_after(const Frame& frame, const State& state, const Packed& at,
                                    const std::byte* now) const {
  if (state.after >= 0) return packed_rows(frame, state.after, at.row);
  if (state.before >= 0 && at.next > 0) return packed_rows(frame, state.before, at.next_row);
  std::byte* buffer = frame.bases[k_arena] + state.buffer;
  return buffer == now ? buffer + aligned(state.bytes) : buffer;
}

bool ScanBuffers::join_rows(const Frame& frame, std::int64_t from, std::int64_t to, std::byte** now,
                            const Worker& worker) const {
  if (from == 0) return false;  // states are still the initial ones
  for (std::size_t i = 0; i < states.size(); ++i) {
    const State& state = states[i];
    const std::size_t size = packed_row_bytes(state.bytes);
    std::byte* buffer = frame.bases[k_arena] + state.buffer;
    const bool has_room = state.after < 0;  // in a buffer, or in the stack before the rows of the previous step
    std::byte* to_state = has_room ? now[i] : buffer;
    const auto copy = [&](std::byte* target, const std::byte* source, std::int64_t begin, std::int64_t end) {
      const Range r = worker.share(end - begin);
      const std::size_t offset = (begin + r.begin) * size;
      if (!r.empty()) std::memcpy(target + offset, source + offset, (r.end - r.begin) * size);
    };
    if (!has_room) copy(to_state, now[i], 0, from);
    copy(to_state, state.first.in(frame), from, to);
    now[i] = to_state;
  }
  return true;
}

bool ScanBuffers::end_rows(const Frame& frame, std::int64_t from, std::int64_t to, std::byte* const* now,
                        const Worker& worker) const {
  bool any = false;
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (!states[i].last.present || from >= to) continue;
    any = true;
    const std::size_t size = packed_row_bytes(states[i].bytes);
    const Range r = worker.share(to - from);
    const std::size_t offset = (from + r.begin) * size;
    if (!r.empty())
      std::memmove(states[i].last.ref.in(frame) + offset, now[i] + offset, (r.end - r.begin) * size);
  }
  return any;
}

}  // namespace unroll::cpu
