// SPDX-License-Identifier: Apache-2.0
// Proves that the body of a scan works row by row, and finds what it computes for rows that have ended.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "unroll/ir/graph.h"
#include "unroll/ir/ops.h"

namespace unroll {

// The value in rows whose sequence has ended, as far as it is known.
struct EndedRow {
  enum class Is : std::uint8_t { anything, zero, off, state };  // off: false
  Is is = Is::anything;
  int state = 0;  // which one
  friend bool operator==(const EndedRow&, const EndedRow&) = default;
};
// From what is known of the operands; `state` and `off` survive only what copies whole rows.
EndedRow ended_row(const Graph& graph, const Node& node, const std::vector<EndedRow>& operands);

// The order of rows of a loop without its mask: as given, or by length. Sorted loops compute the first rows only.
enum class RowOrder : std::uint8_t { given, by_length };

struct RowBody {
  std::shared_ptr<const Graph> body;  // for live rows only: without the mask, the mask inputs unread; takes `order`
                                      // i32[B] as one more constant at the end when reads_order
  bool reads_order = false;           // never for rows in the given order
  std::vector<bool> zero;             // [per-step output] whether ended rows give zeros
  std::string reason;                 // without a body: why

  static RowBody no(std::string reason) { return {.body = nullptr, .zero = {}, .reason = std::move(reason)}; }
  explicit operator bool() const { return body != nullptr; }
};
// No body when rows are not independent of each other, when an ended row does anything but keep its states, or when the
// step holds an op that does not go row by row. `masks` says for each input whether it is live[t,b] = t < lengths[b].
RowBody row_body(const Node& scan, const std::vector<bool>& masks, std::int64_t batch, RowOrder order);

}  // namespace unroll
