// SPDX-License-Identifier: Apache-2.0
#include "core/autodiff/accumulate.h"

#include <map>
#include <vector>

#include "unroll/ir/ops.h"

namespace unroll {

namespace {

// The value of a pad node: `inner` at [low, low + size) of an axis, zeros elsewhere.
struct Piece {
  int axis;
  std::int64_t low;
  Value inner;
  std::int64_t size() const { return inner.shape()[axis]; }
};

Piece piece_of(Value padded) {
  const Node& node = padded.node();
  return {static_cast<int>(node.attributes.get<std::int64_t>("axis")), node.attributes.get<std::int64_t>("low"),
          padded.graph().value(node.inputs[0])};
}

// The pieces side by side, equal ranges added; empty when they do not cover [0, length) exactly.
Value tile(const std::vector<Piece>& pieces, int axis, std::int64_t length) {
  std::map<std::int64_t, std::vector<Value>> by_low;
  for (const Piece& piece : pieces) {
    if (piece.size() == 0) continue;
    auto& same = by_low[piece.low];
    if (!same.empty() && same[0].shape() != piece.inner.shape()) return {};
    same.push_back(piece.inner);
  }
  std::int64_t end = 0;
  for (const auto& [low, same] : by_low) {
    if (low != end) return {};
    end += same[0].shape()[axis];
  }
  if (end != length || by_low.empty()) return {};
  std::vector<Value> parts;
  for (const auto& [low, same] : by_low) parts.push_back(sum_contributions(same));
  return concat(parts, axis);
}

}  // namespace

Value unbroadcast(Value d, const Shape& shape) {
  if (d.shape() == shape) return d;
  const int extra = d.rank() - shape.rank();
  Ints axes;
  for (int axis = 0; axis < d.rank(); ++axis)
    if (axis < extra || (shape[axis - extra] == 1 && d.shape()[axis] != 1)) axes.push_back(axis);
  return reshape(axes.empty() ? d : reduce_sum(d, axes), shape);
}

Value sum_contributions(std::span<const Value> contributions) {
  if (contributions.size() == 1) return contributions[0];
  std::vector<Value> terms;
  std::vector<Value> pads;
  std::vector<Piece> pieces;
  for (const Value& value : contributions) {
    const bool pad = value.node().op == Op::pad;
    const Piece piece = pad ? piece_of(value) : Piece{};
    if (pad && (pieces.empty() || piece.axis == pieces[0].axis)) {
      pieces.push_back(piece);
      pads.push_back(value);
    } else {
      terms.push_back(value);
    }
  }
  Value whole;
  if (pieces.size() > 1) whole = tile(pieces, pieces[0].axis, contributions[0].shape()[pieces[0].axis]);
  if (whole) {
    terms.push_back(whole);
  } else {
    terms.insert(terms.end(), pads.begin(), pads.end());
  }
  Value total = terms[0];
  for (std::size_t i = 1; i < terms.size(); ++i) total = total + terms[i];
  return total;
}

}  // namespace unroll
