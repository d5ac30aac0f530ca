// SPDX-License-Identifier: Apache-2.0
// Copies outputs of a plan or a step that were not computed in their bound buffers.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/program/program.h"
#include "backends/cpu/program/simple_call.h"

namespace unroll::cpu {

namespace {

// The scan lets a next state share the memory of the first per-step output with the same value (scan.cc).
bool shares_state(std::span<const NamedValue> outputs, std::size_t n_states, std::size_t k) {
  if (k < n_states) return false;
  const auto same = [&](const NamedValue& other) { return other.value == outputs[k].value; };
  const auto states = outputs.first(n_states), earlier = outputs.subspan(n_states, k - n_states);
  return std::any_of(states.begin(), states.end(), same) && std::none_of(earlier.begin(), earlier.end(), same);
}

}  // namespace

std::vector<OutputPiece> output_pieces(const PlanView& view, int n_states) {
  std::vector<OutputPiece> pieces;
  const auto outputs = view.graph().outputs();
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const Storage& from = view.plan.outputs[k];
    const Ref to = view.ref(Storage{Storage::Place::output, static_cast<std::int32_t>(k), 0, {}});
    const Type& type = view.graph().type(outputs[k].value);
    if (view.ref(from) == to || type.bytes() == 0 || shares_state(outputs, n_states, k)) continue;
    bool staged = false;
    for (std::size_t other = 0; other < outputs.size(); ++other)
      staged |= other != k && from.place == Storage::Place::input && view.plan.donors[other] == from.index;
    pieces.push_back({type, view.ref(from), to, staged});
  }
  return pieces;
}

std::unique_ptr<Call> make_output_copies(const PlanView& view, int n_states) {
  const std::vector<OutputPiece> pieces = output_pieces(view, n_states);
  std::size_t staged_bytes = 0;
  for (const OutputPiece& piece : pieces)
    if (piece.staged) staged_bytes += piece.type.bytes();
  if (pieces.empty()) return nullptr;
  const auto copy_bytes = [](std::size_t bytes, const std::byte* from, std::byte* to, const Worker& worker) {
    const Range r = worker.share(static_cast<std::int64_t>(bytes), 64);
    if (from != to && !r.empty()) std::copy(from + r.begin, from + r.end, to + r.begin);
  };
  const auto bytes_of = [](const OutputPiece& p, const Frame& f) {
    return f.rows.of(static_cast<std::int64_t>(p.type.bytes()));
  };
  auto stage = std::make_shared<Bytes>(staged_bytes);
  const std::string name = "copy of " + std::to_string(pieces.size());
  return simple(name, [pieces, stage, copy_bytes, bytes_of](const Frame& f, const Worker& worker) {
    std::byte* at = stage->data();
    for (const OutputPiece& p : pieces)
      if (p.staged) {
        copy_bytes(bytes_of(p, f), p.from.in(f), at, worker);
        at += p.type.bytes();
      }
    if (stage->size() > 0) worker.sync();
    at = stage->data();
    for (const OutputPiece& p : pieces) {
      copy_bytes(bytes_of(p, f), p.staged ? at : p.from.in(f), p.to.in(f), worker);
      if (p.staged) at += p.type.bytes();
    }
  });
}

}  // namespace unroll::cpu
