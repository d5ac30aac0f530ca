// SPDX-License-Identifier: Apache-2.0
// From the plan of a step to what a kernel of the whole loop computes (loops.h).
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "backends/common/walk.h"
#include "backends/device/walk.h"
#include "backends/vulkan/scan/loops.h"
#include "unroll/ir/ops.h"

namespace unroll::vulkan {

namespace {

using common::Expression;
using common::Strides;
using device::Operand;
using device::Operands;
using Index = std::int64_t;
using Where = LoopPlace::Where;

bool is_reading(Op op) {
  return op == Op::slice || op == Op::reshape || op == Op::broadcast || op == Op::transpose ||
         op == Op::windows;
}

class StepBuilder final : device::Lowering {
 public:
  StepBuilder(const Plan& outer, std::int32_t scan, const common::Hazards& hazards, std::size_t& unused)
      : Lowering(*outer.bodies[scan], unused), outer_(outer), scan_(scan), hazards_(hazards),
        form_(scan_form(outer, scan)) {}

  std::optional<LoopStep> run();

 private:
  const Node& node(ValueId id) const { return graph().node(id.node); }
  std::size_t n_states() const { return form_.layout.n_states; }
  bool is_view(std::int32_t id) const {
    return is_reading(graph().node(id).op) && hazards_.tasks[id].writes.empty();
  }
  ValueId root(ValueId id) const {
    while (is_view(id.node)) id = node(id).inputs[0];
    return id;
  }
  bool is_computed(ValueId id) const { return node(id).op != Op::input && node(id).op != Op::constant; }
  const Storage& storage(ValueId id) const {
    return plan_.storage[id.node][id.output];
  }
  bool is_dense(ValueId id) const {
    return common::walk_of(type(id).shape, strides(id, type(id).shape)) == common::Walk::dense;
  }
  Index elements_between(const Storage& from, const Storage& to, ValueId id) const {
    return (static_cast<Index>(to.offset) - static_cast<Index>(from.offset)) /
           static_cast<Index>(dtype_bytes(type(id).dtype));
  }

  void find_needed();
  void find_read();
  int local(ValueId id);  // of a computed value that is read; number of its array
  LoopStep::Array array(ValueId id, const Strides& strides) const;

  // A value where its results go: strides over its shape.
  struct Target {
    LoopPlace place;
    Strides strides;
  };
  LoopPlace stack(int output, const Shape& shape) const;
  const std::vector<Target>& targets(ValueId id);
  LoopPlace read(const Operand& operand, const Strides& strides);
  void add_step(std::int32_t id);
  void add_product(std::int32_t id);
  void add_concat(std::int32_t id);
  void add_expression(LoopItem::Kind kind, std::int32_t id);
  void add_outputs();
  void expression(Expression e, Operands operands) override { add(LoopItem::Kind::pointwise, std::move(e), operands); }
  void add(LoopItem::Kind kind, Expression e, const Operands& operands);
  bool goes_by_rows(const Shape& shape) const { return out_.rows == 0 || (shape.rank() > 0 && shape[0] == out_.rows); }
  void fail() { fits_ = false; }
  Index first_stride(const Strides& strides) const { return out_.rows == 0 ? 0 : strides[0]; }

  const Plan& outer_;
  const std::int32_t scan_;
  const common::Hazards& hazards_;
  const ScanForm form_;
  LoopStep out_;
  bool fits_ = true;
  std::vector<bool> needed_;                  // [node]
  std::set<ValueId> read_;                    // computed values that an item of the step reads
  std::map<ValueId, int> locals_;
  std::map<ValueId, std::vector<Target>> targets_;
  std::vector<std::vector<ValueId>> concats_;  // [node] concatenations of its results
};

// Results that nothing reads, and what only they need, are not computed.
void StepBuilder::find_needed() {
  needed_.assign(graph().nodes().size(), false);
  for (std::size_t k = 0; k < graph().outputs().size(); ++k)
    if (k < n_states() || out_.kept[k])
      needed_[graph().outputs()[k].value.node] = true;
  for (std::size_t n = needed_.size(); n-- > 0;)
    if (needed_[n])
      for (const ValueId in : graph().node(static_cast<std::int32_t>(n)).inputs)
        needed_[in.node] = true;
}

void StepBuilder::find_read() {
  for (std::int32_t n = 0; n < static_cast<std::int32_t>(needed_.size()); ++n) {
    const Node& reader = graph().node(n);
    if (!needed_[n] || is_view(n)) continue;
    for (const ValueId in : reader.inputs) {
      const bool is_part = reader.op == Op::concat && is_computed(in) && !is_view(in.node);
      if (!is_part && is_computed(root(in))) read_.insert(root(in));
    }
  }
  for (std::size_t k = 0; k < graph().outputs().size(); ++k) {
    const ValueId value = graph().outputs()[k].value;
    if ((k < n_states() || out_.kept[k]) && is_view(value.node) && is_computed(root(value))) read_.insert(root(value));
  }
}

// Rows of an array lie as those of the value, whose strides say how far apart they are.
LoopStep::Array StepBuilder::array(ValueId id, const Strides& strides) const {
  const Shape& shape = type(id).shape;
  LoopStep::Array made{.dtype = type(id).dtype};
  Index last = 0;
  for (int axis = 0; axis < shape.rank(); ++axis)
    last += (shape[axis] - 1) * strides[axis];
  made.words = last + 1;
  if (out_.rows > 0) made.row_words = strides[0];
  return made;
}

int StepBuilder::local(ValueId id) {
  const auto [at, added] = locals_.try_emplace(id, static_cast<int>(out_.locals.size()));
  if (!added) return at->second;
  const Strides own = strides(id, type(id).shape);
  out_.locals.push_back(array(id, own));
  if (!goes_by_rows(type(id).shape)) fail();
  if (out_.rows > 0 && out_.locals.back().words > own[0] * out_.rows) fail();  // a row runs into the next one
  return at->second;
}

LoopPlace StepBuilder::stack(int output, const Shape& shape) const {
  const Index rows = form_.layout.packed ? out_.rows : 1;
  return {.where = Where::output, .index = output, .step = shape.elements() / rows, .is_packed = form_.layout.packed};
}

const std::vector<StepBuilder::Target>& StepBuilder::targets(ValueId id) {
  const auto [at, added] = targets_.try_emplace(id);
  std::vector<Target>& all = at->second;
  if (!added) return all;
  const Shape& shape = type(id).shape;
  const Strides dense = common::dense_strides(shape);
  if (read_.count(id)) all.push_back({{.where = Where::local, .index = local(id)}, strides(id, shape)});
  for (std::size_t k = 0; k < graph().outputs().size(); ++k) {
    if (graph().outputs()[k].value != id) continue;
    const int index = static_cast<int>(k);
    if (k < n_states()) all.push_back({{.where = Where::after, .index = index}, dense});
    else if (out_.kept[k]) all.push_back({stack(index, shape), dense});
  }
  for (const ValueId whole : concats_[id.node]) {
    const Node& concat = node(whole);
    const int axis = device::axis_of(concat);
    Index first = 0;
    for (const ValueId part : concat.inputs) {
      if (part == id)
        for (Target target : targets(whole)) {
          target.place.offset += first * target.strides[axis];
          all.push_back(target);
        }
      first += type(part).shape[axis];
    }
  }
  return all;
}

LoopPlace StepBuilder::read(const Operand& operand, const Strides& over) {
  const ValueId from = root(operand.value);
  const Node& made = node(from);
  LoopPlace place{.offset = elements_between(storage(from), operand.storage, from), .row = first_stride(over)};
  if (made.op == Op::constant) {
    if (type(from).shape.elements() != 1) fail();
    else place.number = made.attributes.get<std::shared_ptr<const Tensor>>("value")->at(0);
    place.where = Where::constant;
  } else if (made.op == Op::input) {
    place.index = storage(from).index;
    const bool is_state = place.index < form_.layout.n_states;
    place.where = is_state ? Where::before : Where::input;
    if (place.index >= form_.layout.n_states && place.index < form_.layout.n_states + form_.layout.n_sequences)
      place.step = type(from).shape.elements();
    place.is_packed = device::is_packed_sequence(outer_, scan_, place.index);
    if (place.is_packed) place.step /= out_.rows;
  } else {
    place.index = local(from);
    // A view that leaves its row would read rows of other workgroups.
    if (out_.rows > 0 && over[0] != out_.locals[place.index].row_words) fail();
  }
  return place;
}

// A result goes to all its targets; moves may write a part of it, which must lie alike in each.
void StepBuilder::add(LoopItem::Kind kind, Expression e, const Operands& operands) {
  LoopItem item{.kind = kind};
  if (e.shape.elements() == 0) return;
  if (!goes_by_rows(e.shape)) return fail();
  for (const common::Instruction& i : e.instructions)
    if (i.op == Op::iota || i.op == Op::random_uniform) return fail();
  for (std::size_t k = 0; k < e.inputs.size(); ++k) {
    if (e.inputs[k].is_key) return fail();
    item.inputs.push_back(read(operands[k], e.inputs[k].strides));
  }
  std::vector<Expression::Result> results;
  for (std::size_t k = 0; k < e.results.size(); ++k) {
    const Operand& to = operands[e.inputs.size() + k];
    const Shape& shape = type(to.value).shape;
    const Index offset = elements_between(storage(to.value), to.storage, to.value);
    const bool is_whole = offset == 0 && (e.shape == shape || e.results[k].sums);
    for (const Target& target : targets(to.value)) {
      Expression::Result result = e.results[k];
      if (target.strides == strides(to.value, shape)) {
        result.strides = e.results[k].strides;
      } else if (is_whole && !result.sums) {
        result.strides = target.strides;
      } else {
        return fail();
      }
      LoopPlace place = target.place;
      place.offset += offset;
      place.sums = result.sums ? e.sum_rows : 0;
      const int axis = result.sums ? e.shape.rank() - 2 : 0;
      if (out_.rows > 0) place.row = result.strides[axis];
      if (result.sums && place.where != Where::output) return fail();
      results.push_back(result);
      item.targets.push_back(place);
    }
  }
  if (results.empty()) return;
  if (out_.rows > 0 && e.sum_rows > 0) out_.row_unit = std::lcm(out_.row_unit, e.sum_rows);
  e.results = std::move(results);
  item.expression = std::move(e);
  out_.items.push_back(std::move(item));
}

void StepBuilder::add_expression(LoopItem::Kind kind, std::int32_t id) {
  Operands operands;
  Expression e = node_expression(id, operands);
  add(kind, std::move(e), operands);
}

void StepBuilder::add_product(std::int32_t id) {
  const Node& product = graph().node(id);
  const ValueId c{id, 0};
  const Shape& shape = type(c).shape;
  const ScanForm::Product* form = form_.product(id);
  const device::ProductShape s = product_shape(product, c);
  if (shape.elements() == 0) return;
  if (!form || s.has_rows || !s.matrices.sizes.empty() || s.k == 0) return fail();
  if (out_.rows > 0 && (s.m != out_.rows || !goes_by_rows(shape))) return fail();
  LoopItem item{.kind = LoopItem::Kind::product};
  item.product = {s.m, s.n, s.k, s.k, s.a_row, s.a_column, s.b_row, s.b_column, type(product.inputs[0]).dtype,
                  type(c).dtype, {}};
  Strides by_row{};
  by_row[0] = s.a_row;
  item.inputs = {read(operand(product.inputs[0]), by_row), read(operand(product.inputs[1]), Strides{})};
  for (const Target& target : targets(c)) {
    const int rank = shape.rank();
    const bool is_dense = common::walk_of(shape, target.strides) == common::Walk::dense;
    if (rank > 2 && !is_dense) return fail();
    const Index row = rank > 2 ? s.n : target.strides[rank - 2];
    item.targets.push_back(target.place);
    if (out_.rows > 0) item.targets.back().row = row;
    item.product.targets.push_back({row, target.strides[rank - 1]});
  }
  if (!item.targets.empty()) out_.items.push_back(std::move(item));
}

// Parts that the step computes go there at once.
void StepBuilder::add_concat(std::int32_t id) {
  const Node& concat = graph().node(id);
  const int axis = device::axis_of(concat);
  Index first = 0;
  for (const ValueId part : concat.inputs) {
    const Shape& shape = type(part).shape;
    if (is_view(part.node) || !is_computed(part))
      for (const Target& target : targets({id, 0})) {
        LoopItem item;
        item.expression.shape = shape;
        item.expression.inputs.push_back({type(part).dtype, strides(part, shape)});
        item.expression.results.push_back({0, target.strides});
        item.inputs.push_back(read(operand(part), item.expression.inputs[0].strides));
        item.targets.push_back(target.place);
        item.targets[0].offset += first * target.strides[axis];
        item.targets[0].row = first_stride(target.strides);
        if (!goes_by_rows(shape)) return fail();
        out_.items.push_back(std::move(item));
      }
    first += shape[axis];
  }
}

void StepBuilder::add_step(std::int32_t id) {
  const Node& step = graph().node(id);
  if (device::is_pointwise(step)) return add_expression(LoopItem::Kind::pointwise, id);
  switch (step.op) {
    case Op::fused_reduction: return add_expression(LoopItem::Kind::rows, id);
    case Op::reshape:
    case Op::transpose:
    case Op::slice:
    case Op::broadcast:
    case Op::windows: return move_node(id);
    case Op::concat: return add_concat(id);
    case Op::pad: return pad(id);
    case Op::matmul: return add_product(id);
    default: return fail();
  }
}

// Outputs that are inputs, or other readings of values.
void StepBuilder::add_outputs() {
  for (std::size_t k = 0; k < graph().outputs().size(); ++k) {
    const ValueId value = graph().outputs()[k].value;
    if ((k >= n_states() && !out_.kept[k]) || (is_computed(value) && !is_view(value.node))) continue;
    const Shape& shape = type(value).shape;
    LoopItem item;
    item.expression.shape = shape;
    item.expression.inputs.push_back({type(value).dtype, strides(value, shape)});
    item.expression.results.push_back({0, common::dense_strides(shape)});
    item.inputs.push_back(read(operand(value), item.expression.inputs[0].strides));
    const bool is_state = k < n_states();
    item.targets.push_back(is_state ? LoopPlace{.where = Where::after, .index = static_cast<int>(k)}
                                    : stack(static_cast<int>(k), shape));
    item.targets.back().row = first_stride(item.expression.results[0].strides);
    if (!goes_by_rows(shape)) fail();
    if (shape.elements() > 0) out_.items.push_back(std::move(item));
  }
}

std::optional<LoopStep> StepBuilder::run() {
  const ScanLayout& layout = form_.layout;
  if (!form_ || layout.has_lengths || layout.steps < 1) return std::nullopt;
  out_.steps = layout.steps;
  out_.reverse = layout.reverse;
  out_.packed = layout.packed;
  out_.rows = layout.packed ? type(graph().outputs()[0].value).shape[0] : form_.rows;
  for (const Storage& s : outer_.storage[scan_])
    out_.kept.push_back(s.place != Storage::Place::none);
  for (std::size_t i = 0; i < n_states(); ++i) {
    const ValueId state = graph().inputs()[i].value;
    const Shape& shape = type(state).shape;
    if (shape.elements() == 0 || !goes_by_rows(shape)) return std::nullopt;
    out_.states.push_back(array(state, common::dense_strides(shape)));
    // With one row, the stride of rows is zero.
    if (out_.rows > 0) out_.states.back().row_words = shape.elements() / out_.rows;
  }
  concats_.resize(graph().nodes().size());
  find_needed();
  for (std::int32_t n = 0; n < static_cast<std::int32_t>(needed_.size()); ++n) {
    if (!needed_[n] || graph().node(n).op != Op::concat) continue;
    for (const ValueId part : graph().node(n).inputs)
      if (is_computed(part) && !is_view(part.node)) {
        auto& list = concats_[part.node];
        if (std::find(list.begin(), list.end(), ValueId{n, 0}) == list.end()) list.push_back({n, 0});
      }
  }
  find_read();
  for (std::int32_t n = 0; fits_ && n < static_cast<std::int32_t>(needed_.size()); ++n)
    if (needed_[n] && !is_view(n) && is_computed({n, 0})) add_step(n);
  if (fits_) add_outputs();
  return fits_ ? std::optional(std::move(out_)) : std::nullopt;
}

}  // namespace

std::optional<LoopStep> loop_step(const Plan& plan, std::int32_t scan, const common::Hazards& body) {
  std::size_t unused = 0;
  return StepBuilder(plan, scan, body, unused).run();
}

}  // namespace unroll::vulkan
