// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/program/plan_view.h"

#include <algorithm>

#include "unroll/support/error.h"

namespace unroll::cpu {

Ref PlanView::ref(const Storage& s) const {
  const auto index = static_cast<std::uint32_t>(s.index);
  const auto n_inputs = static_cast<std::uint32_t>(graph().inputs().size());
  switch (s.place) {
    case Storage::Place::arena: return {k_arena, s.offset};
    case Storage::Place::constant: return {k_constants, constant_offsets[s.index] + s.offset};
    case Storage::Place::input: return {k_first_input + index, s.offset};
    case Storage::Place::output: return {k_first_input + n_inputs + index, s.offset};
    case Storage::Place::none: break;
  }
  throw Error(ErrorKind::internal, "cpu", "a value that is used has no place");
}

bool PlanView::is_apart(const Ref& result, std::span<const Ref> operands) const {
  const std::size_t first_output = k_first_input + graph().inputs().size();
  if (result.base < first_output || plan.donors[result.base - first_output] >= 0) return false;
  return std::none_of(operands.begin(), operands.end(), [&](const Ref& ref) { return ref.base == result.base; });
}

const Shape& PlanView::viewed(const ValueId& id) const {
  const Shape& shape = storage(id).viewed;
  return shape.rank() > 0 ? shape : graph().type(id).shape;
}

Strides PlanView::strides(const ValueId& id) const {
  const Ints& given = storage(id).strides;
  const Shape& shape = viewed(id);
  if (given.empty()) return dense_strides(shape);
  Strides strides{};
  std::copy(given.begin(), given.end(), strides.begin());
  return strides;
}

Strides PlanView::strides(const ValueId& id, const Shape& to) const {
  const Shape& from = graph().type(id).shape;
  const Strides own = strides(id);
  Strides result{};
  const int missing = to.rank() - from.rank();
  for (int d = 0; d < from.rank(); ++d)
    if (from[d] != 1) result[d + missing] = own[d];
  return result;
}

std::vector<Access> accesses_of_node(const PlanView& view, std::int32_t id) {
  const Node& node = view.graph().node(id);
  std::vector<Access> accesses{{{k_scratch, 0}, 1, {}, true}};
  const auto add = [&](const ValueId& value, bool writes) {
    if (view.storage(value).place == Storage::Place::none) return;
    const Shape& shape = view.viewed(value);
    const Strides strides = view.strides(value);
    std::int64_t reach = shape.elements() > 0 ? 1 : 0;
    for (int axis = 0; axis < shape.rank() && reach > 0; ++axis)
      reach += (shape[axis] - 1) * strides[axis];
    accesses.push_back({view.ref(value), reach * dtype_bytes(view.graph().type(value).dtype), {}, writes});
  };
  for (const ValueId& input : node.inputs)
    if (view.graph().node(input.node).op != Op::constant) add(input, false);
  for (std::size_t k = 0; k < node.outputs.size(); ++k) add({id, static_cast<std::int32_t>(k)}, true);
  if (view.plan.scratch_bytes[id] > 0)
    accesses.push_back({{k_arena, view.plan.scratch_offset[id]}, view.plan.scratch_bytes[id], {}, true});
  return accesses;
}

}  // namespace unroll::cpu
