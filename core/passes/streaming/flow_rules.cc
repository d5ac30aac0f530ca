// SPDX-License-Identifier: Apache-2.0
// The rule of each kind of op for operands that are sequences.
#include <algorithm>
#include <numeric>

#include "core/ir/ops/scan_parts.h"
#include "core/passes/streaming/flow.h"

namespace unroll::streaming {

namespace {

constexpr const char* k_shared = " moves along an axis that the time shares with other axes, such as the batch";

std::int64_t integer(const FlowAt& at, std::string_view name) { return at.node.attributes.get<std::int64_t>(name); }

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }

Length then(const Length& f, const std::function<std::int64_t(std::int64_t)>& g) {
  return [f, g](std::int64_t T) { return g(f(T)); };
}

// The axis of time of the results where each operand that is a sequence has it at place_of(operand, its axis), -1 where
// it has none there.
template <class PlaceOf>
NodeFlow at_one_place(const FlowAt& at, const std::string& why, PlaceOf place_of) {
  int place = -1;
  for (std::size_t k = 0; k < at.operands.size(); ++k) {
    if (!at.operands[k].is_sequence()) continue;
    const int here = place_of(k, at.operands[k].axis);
    if (here < 0 || (place >= 0 && here != place)) return at.refused(at.text() + " " + why);
    place = here;
  }
  return at.aligned(place);
}

NodeFlow elementwise(const FlowAt& at) {
  const int rank = at.node.outputs[0].shape.rank();
  return at_one_place(at, "combines steps with each other",
                      [&](std::size_t k, int axis) { return axis + rank - at.shape(k).rank(); });
}

NodeFlow matmul(const FlowAt& at) {
  const int rank = at.node.outputs[0].shape.rank();
  const bool a = at.node.attributes.get<bool>("transpose_a"), b = at.node.attributes.get<bool>("transpose_b");
  return at_one_place(at, "combines steps with each other", [&](std::size_t k, int axis) {
    if (axis < rank - 2) return axis;
    const bool is_rows = (axis == rank - 2) != (k == 0 ? a : b);  // of the operand as it is multiplied
    if (k == 0) return is_rows ? rank - 2 : -1;
    return k == 1 && !is_rows ? rank - 1 : -1;
  });
}

NodeFlow reduce(const FlowAt& at) {
  const bool one = at.node.op == Op::argmax;
  const Ints axes = one ? Ints{integer(at, "axis")} : at.node.attributes.get<Ints>("axes");
  const bool keep = !one && at.node.attributes.get<bool>("keep");
  return at_one_place(at, "reduces over time, so it needs the whole sequence", [&](std::size_t, int axis) {
    if (std::ranges::count(axes, axis) > 0) return -1;
    const auto before = std::ranges::count_if(axes, [&](std::int64_t other) { return other < axis; });
    return keep ? axis : axis - static_cast<int>(before);
  });
}

NodeFlow transpose(const FlowAt& at) {
  const auto& permutation = at.node.attributes.get<Ints>("permutation");
  return at_one_place(at, "", [&](std::size_t, int axis) {
    return static_cast<int>(std::ranges::find(permutation, axis) - permutation.begin());
  });
}

// Time may take up inner axes ([T,F] to [T*F]) or give them up, and rows of other axes may share its axis.
NodeFlow reshape(const FlowAt& at) {
  const Flow& x = at.first_sequence();
  const Shape &from = at.shape(0), &to = at.node.outputs[0].shape;
  const int axis = time_axis(to, at.other.outputs[0].shape);
  if (axis < 0) return at.refused(at.text() + " combines steps with each other");
  const auto product = [](const Shape& shape, int begin, int end) {
    return std::accumulate(shape.begin() + begin, shape.begin() + end, std::int64_t{1}, std::multiplies<>());
  };
  if (from.elements() == 0) return at.refused(at.text() + " has no elements");
  const std::int64_t rows = x.outer * product(from, 0, x.axis), outer_rows = product(to, 0, axis);
  if (rows % outer_rows != 0)
    return at.refused(at.text() + " mixes the time axis with axes outside of it, such as the batch");
  const std::int64_t inner = product(from, x.axis + 1, from.rank()), outer = product(to, axis + 1, to.rank());
  const std::int64_t common = std::gcd(inner, outer), times = inner / common, parts = outer / common;
  NodeFlow flow = at.aligned(axis);
  flow.align = ceil_div(x.delay, parts) * parts;
  Flow& y = flow.outputs[0];
  y.outer = rows / outer_rows;
  y.delay = flow.align / parts * times;
  y.up *= times, y.down *= parts;
  const std::int64_t shared = std::gcd(y.up, y.down);
  y.up /= shared, y.down /= shared;
  y.length = then(x.length, [=](std::int64_t n) { return n / parts * times; });
  return flow;
}

// The start and the distance from the end may not depend on T.
NodeFlow slice(const FlowAt& at) {
  const Flow& x = at.first_sequence();
  const std::int64_t axis = integer(at, "axis"), start = integer(at, "start"), size = integer(at, "size");
  const std::int64_t start_of_two = at.other.attributes.get<std::int64_t>("start");
  const std::int64_t size_of_two = at.other.attributes.get<std::int64_t>("size");
  if (axis != x.axis)
    return start == start_of_two && size == size_of_two ? at.aligned(x.axis)
                                                        : at.refused(at.text() + " depends on the number of steps");
  const std::int64_t n = at.shape(0)[x.axis], n_of_two = at.two.type(at.other.inputs[0]).shape[x.axis];
  const std::int64_t cut = n - start - size;
  if (x.outer > 1) return at.refused(at.text() + k_shared);
  if (start != start_of_two || cut != n_of_two - start_of_two - size_of_two)
    return at.refused(at.text() + (size == size_of_two ? " reads single steps" : " depends on the number of steps"));
  NodeFlow flow = at.aligned(x.axis);
  flow.outputs[0].delay += start;
  flow.outputs[0].length =
      then(x.length, [=](std::int64_t all) { return std::max<std::int64_t>(all - start - cut, 0); });
  return flow;
}

NodeFlow extended(const FlowAt& at, std::int64_t low, std::int64_t high) {
  const Flow& x = at.first_sequence();
  if (x.outer > 1) return at.refused(at.text() + k_shared);
  NodeFlow flow = at.aligned(x.axis);
  flow.outputs[0].delay -= low;
  flow.outputs[0].length = then(x.length, [=](std::int64_t n) { return low + n + high; });
  return flow;
}

NodeFlow pad(const FlowAt& at) {
  const Flow& x = at.first_sequence();
  if (integer(at, "axis") != x.axis) return at.aligned(x.axis);
  return extended(at, integer(at, "low"), integer(at, "high"));
}

// Along time: one sequence, with values before it that do not change, and after it.
NodeFlow concat(const FlowAt& at) {
  const auto axis = static_cast<int>(integer(at, "axis"));
  if (axis != at.first_sequence().axis)
    return at_one_place(at, "combines steps with each other", [](std::size_t, int place) { return place; });
  if (std::ranges::count_if(at.operands, &Flow::is_sequence) > 1)
    return at.refused(at.text() + " joins parts of the sequence in another order");
  std::int64_t sizes[] = {0, 0};
  bool is_after = false;
  for (std::size_t k = 0; k < at.operands.size(); ++k) {
    if (at.operands[k].kind == Flow::Kind::repeated) return at.refused(at.text() + " joins two sequences in time");
    if (at.operands[k].is_sequence()) is_after = true;
    else sizes[is_after] += at.shape(k)[axis];
  }
  return extended(at, sizes[0], sizes[1]);
}

// Window n is complete with position n * stride + (size - 1) * dilation.
NodeFlow windows(const FlowAt& at) {
  const Flow& x = at.first_sequence();
  const std::int64_t axis = integer(at, "axis"), stride = integer(at, "stride");
  const std::int64_t reach = (integer(at, "size") - 1) * integer(at, "dilation");
  if (axis != x.axis) return at.aligned(x.axis < at.shape(0).rank() - 1 ? x.axis : x.axis + 1);
  if (x.outer > 1) return at.refused(at.text() + k_shared);
  NodeFlow flow = at.aligned(x.axis);
  Flow& y = flow.outputs[0];
  y.delay = ceil_div(x.delay + reach + 1 - stride, stride);
  y.down *= stride;
  const std::int64_t shared = std::gcd(y.up, y.down);
  y.up /= shared, y.down /= shared;
  y.length = then(x.length, [=](std::int64_t n) { return n > reach ? (n - reach - 1) / stride + 1 : 0; });
  return flow;
}

NodeFlow broadcast(const FlowAt& at) {
  return at.aligned(at.first_sequence().axis + at.node.outputs[0].shape.rank() - at.shape(0).rank());
}

// A table of positions is read as a whole; its other axes, and those of the indices, may be time.
NodeFlow gather(const FlowAt& at) {
  return at_one_place(at, "reads steps by their number", [&](std::size_t k, int axis) {
    if (k == 1) return axis;
    return axis == 0 ? -1 : axis - 1 + at.shape(1).rank();
  });
}

NodeFlow scatter_add(const FlowAt& at) {
  return at_one_place(at, "sums over time", [&](std::size_t k, int axis) {
    return k == 1 && axis >= at.shape(0).rank() ? axis - at.shape(0).rank() + 1 : -1;
  });
}

// States start from fixed values and become states of the stream.
NodeFlow scan(const FlowAt& at) {
  const ScanLayout layout = scan_layout(at.node);
  if (layout.steps == scan_layout(at.other).steps)
    return at.refused(at.text() + " is a loop over another axis than time");
  if (layout.reverse) return at.refused(at.text() + " is a loop from the end to the start of the sequence");
  if (layout.has_lengths || layout.has_reset || layout.packed)
    return at.refused(at.text() + " is a loop with lengths or resets");
  for (std::size_t k = 0; k < at.operands.size(); ++k) {
    const Flow& x = at.operands[k];
    const bool is_sequence = scan_role(layout, k) == ScanRole::sequence;
    if (x.kind != Flow::Kind::fixed && !(is_sequence && x.axis == 0 && x.outer == 1))
      return at.refused(at.text() + " is a loop whose initial states or constants depend on the sequence");
  }
  NodeFlow flow = at.aligned(0);
  for (std::size_t k = 0; k < flow.outputs.size(); ++k)
    if (is_state(layout, k)) flow.outputs[k] = whole("the final state of " + at.text() + " needs the whole sequence");
  return flow;
}

}  // namespace

NodeFlow flow_of_sequences(const FlowAt& at) {
  using Rule = NodeFlow (*)(const FlowAt&);
  static constexpr std::pair<Op, Rule> k_rules[] = {
      {Op::reshape, reshape},       {Op::transpose, transpose}, {Op::slice, slice},
      {Op::pad, pad},               {Op::concat, concat},       {Op::broadcast, broadcast},
      {Op::windows, windows},       {Op::matmul, matmul},       {Op::reduce_sum, reduce},
      {Op::reduce_max, reduce},     {Op::argmax, reduce},       {Op::gather, gather},
      {Op::scatter_add, scatter_add}, {Op::scan, scan}};
  if (is_elementwise(at.node.op)) return elementwise(at);
  for (const auto& [op, rule] : k_rules)
    if (op == at.node.op) return rule(at);
  return at.refused(at.text() + " has no form for streams");
}

}  // namespace unroll::streaming
