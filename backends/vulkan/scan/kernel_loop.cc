// SPDX-License-Identifier: Apache-2.0
// The shader of a whole loop: states, pointwise items and rows.
#include <algorithm>

#include "backends/common/walk.h"
#include "backends/vulkan/scan/loop_writer.h"

namespace unroll::vulkan {

namespace {

using common::Expression;
using common::Strides;
using Index = std::int64_t;
using Where = LoopPlace::Where;

Index inner_elements(const Shape& shape) { return shape.removed(0).elements(); }

}  // namespace

void LoopWriter::place_arrays() {
  Index at = 0, carry = 0;
  for (const LoopStep::Array& state : s_.states) {
    state_at_.push_back(at);
    carry_at_.push_back(carry);
    at += 2 * words(state);
    carry += state.words;
  }
  for (const LoopStep::Array& local : s_.locals) {
    local_at_.push_back(at);
    at += words(local);
  }
  memory_ = c_.shared(Kind::u32, static_cast<std::uint32_t>(std::max<Index>(at, 1)));
}

Term LoopWriter::shared_at(const LoopPlace& place) {
  if (place.where == Where::local) return u(local_at_[place.index] + place.offset);
  const Index size = words(s_.states[place.index]), base = state_at_[place.index] + place.offset;
  const Term turn = place.where == Where::before ? parity_ : c_.u(1) - parity_;
  return u(base) + times(turn, size);
}

Term LoopWriter::operand_at(const LoopPlace& place) {
  const std::uint32_t before = (place.where == Where::input ? o_.input_at : o_.output_at)[place.index];
  Term at = c_.u(before + static_cast<std::uint32_t>(place.offset));
  if (place.step != 0) at = at + times(place.is_packed ? position_ : step_, place.step);
  if (!shares_rows() || place.row == 0) return at;
  return at + (place.sums > 0 ? times(group_, t_.rows / place.sums * place.row) : times(first_row_, place.row));
}

Term LoopWriter::load(const LoopPlace& place, Term at, DType dtype) {
  switch (place.where) {
    case Where::constant: return constant_term(c_, {dtype, place.number});
    case Where::input:
      return load_element(c_, o_.inputs[place.index], operand_at(place) + at, dtype);
    case Where::output:
      return load_element(c_, o_.outputs[place.index], operand_at(place) + at, dtype);
    default: break;
  }
  const Term bits = memory_.get(shared_at(place) + at);
  const Kind kind = kind_of(dtype);
  return kind == Kind::boolean ? bits != c_.u(0) : c_.as(kind, bits);
}

void LoopWriter::store(const LoopPlace& place, Term at, Term value, DType dtype) {
  if (place.where == Where::output)
    return store_element(c_, o_.outputs[place.index], operand_at(place) + at, value, dtype);
  const Term bits = value.kind == Kind::boolean ? c_.convert(Kind::u32, value) : c_.as(Kind::u32, value);
  memory_.set(shared_at(place) + at, bits);
}

// Elements of the states of this workgroup: their number here, and outside among those of all rows.
void LoopWriter::states(const std::function<void(std::size_t, Term, Term)>& each) {
  for (std::size_t i = 0; i < s_.states.size(); ++i) {
    const LoopStep::Array& state = s_.states[i];
    const Term count = shares_rows() ? times(valid_rows_, state.row_words) : u(state.words);
    c_.loop(lane_, count, c_.u(t_.local_size), [&](Term element) {
      each(i, element, shares_rows() ? element + times(first_row_, state.row_words) : element);
    });
  }
}

void LoopWriter::enter() {
  parity_ = begin_ & c_.u(1);
  states([&](std::size_t i, Term element, Term outside) {
    const int index = static_cast<int>(i);
    const DType dtype = s_.states[i].dtype;
    const Local bits = c_.local(c_.u(0));
    const LoopPlace here{.where = Where::before, .index = index};
    c_.when(begin_ == c_.u(0), [&] {
      const Term at = c_.u(o_.input_at[i]) + outside;
      const Term x = load_element(c_, o_.inputs[i], at, dtype);
      bits.set(x.kind == Kind::boolean ? c_.convert(Kind::u32, x) : c_.as(Kind::u32, x));
    });
    c_.when(begin_ != c_.u(0),
            [&] { bits.set(c_.load(1 + o_.carry, c_.push(1 + o_.carry) + u(carry_at_[i]) + outside)); });
    memory_.set(shared_at(here) + element, bits.get());
    // A row begins later, or has ended: then no step of this dispatch makes the other one.
    const LoopPlace other{.where = Where::after, .index = index};
    if (s_.packed) memory_.set(shared_at(other) + element, bits.get());
  });
  c_.barrier();
}

Term LoopWriter::live(Term step, std::uint32_t which) {
  return c_.load(1 + o_.live, c_.push(1 + o_.live) + step + step + c_.u(which));
}

// Rows end from the last to the first: the steps of one are as many as have more rows than its number.
Term LoopWriter::last_parity(Term row) {
  if (!s_.packed || s_.reverse) return end_ & c_.u(1);
  const Local low = c_.local(c_.u(0)), high = c_.local(end_);
  c_.repeat([&] { return low.get() < high.get(); },
            [&] {
              const Term middle = (low.get() + high.get()) >> c_.u(1), is_there = row < live(middle, 0);
              low.set(c_.select(is_there, middle + c_.u(1), low.get()));
              high.set(c_.select(is_there, high.get(), middle));
            });
  return low.get() & c_.u(1);
}

void LoopWriter::leave() {
  states([&](std::size_t i, Term element, Term outside) {
    const DType dtype = s_.states[i].dtype;
    parity_ = last_parity(shares_rows() ? outside / u(s_.states[i].row_words) : outside);
    const LoopPlace here{.where = Where::before, .index = static_cast<int>(i)};
    const Term x = load(here, element, dtype);
    c_.when(end_ != u(s_.steps), [&] {
      const Term bits = x.kind == Kind::boolean ? c_.convert(Kind::u32, x) : c_.as(Kind::u32, x);
      c_.store(1 + o_.carry, c_.push(1 + o_.carry) + u(carry_at_[i]) + outside, bits);
    });
    if (!s_.kept[i]) return;
    c_.when(end_ == u(s_.steps),
            [&] { store_element(c_, o_.outputs[i], c_.u(o_.output_at[i]) + outside, x, dtype); });
  });
}

namespace {

// Axes other than that of the rows are joined where all operands allow it.
Expression joined(const Expression& e) {
  Expression inner = e;
  inner.shape = e.shape.removed(0);
  const auto shifted = [&](Strides& strides, int by) {
    Strides out{};
    for (int axis = 0; axis < e.shape.rank(); ++axis)
      if (axis + by >= 0) out[axis + by] = strides[axis];
    strides = out;
  };
  for (auto& input : inner.inputs) shifted(input.strides, -1);
  for (auto& result : inner.results) shifted(result.strides, -1);
  inner = common::simplified(inner);
  std::vector<Index> dims{e.shape[0]};
  dims.insert(dims.end(), inner.shape.dims().begin(), inner.shape.dims().end());
  inner.shape = Shape(std::span<const Index>(dims));
  for (std::size_t k = 0; k < e.inputs.size(); ++k) {
    shifted(inner.inputs[k].strides, 1);
    inner.inputs[k].strides[0] = e.inputs[k].strides[0];
  }
  for (std::size_t k = 0; k < e.results.size(); ++k) {
    shifted(inner.results[k].strides, 1);
    inner.results[k].strides[0] = e.results[k].strides[0];
  }
  return inner;
}

}  // namespace

void LoopWriter::pointwise(const LoopItem& item) {
  const Expression e = item.expression.shape.rank() > 0 ? joined(item.expression) : item.expression;
  const int rank = e.shape.rank();
  const Term count = shares_rows() ? times(valid_rows_, inner_elements(e.shape)) : u(e.shape.elements());
  c_.loop(lane_, count, c_.u(t_.local_size), [&](Term element) {
    std::vector<Term> coordinates(rank);
    Term rest = element;
    for (int axis = rank - 1; axis >= 0; --axis) {
      coordinates[axis] = axis > 0 ? rest % u(e.shape[axis]) : rest;
      if (axis > 0) rest = rest / u(e.shape[axis]);
    }
    const auto at = [&](const Strides& strides) {
      Term sum = c_.u(0);
      for (std::size_t axis = 0; axis < coordinates.size(); ++axis)
        if (strides[axis] != 0) sum = sum + times(coordinates[axis], strides[axis]);
      return sum;
    };
    std::vector<Term> registers;
    for (std::size_t k = 0; k < e.inputs.size(); ++k)
      registers.push_back(load(item.inputs[k], at(e.inputs[k].strides), e.inputs[k].dtype));
    for (const auto& constant : e.constants) registers.push_back(constant_term(c_, constant));
    for (const common::Instruction& i : e.instructions)
      registers.push_back(instruction_term(c_, i, registers[i.a], registers[i.b], registers[i.c]));
    const std::vector<DType> dtypes = common::register_dtypes(e);
    for (std::size_t k = 0; k < e.results.size(); ++k) {
      const std::uint16_t from = e.results[k].from;
      store(item.targets[k], at(e.results[k].strides), registers[from], dtypes[from]);
    }
  });
}

namespace {

class LoopRows final : public RowOperands {
 public:
  LoopRows(LoopWriter& writer, Code& c, const LoopItem& item)
      : w_(writer), c_(c), item_(item), e_(item.expression), dtypes_(common::register_dtypes(e_)) {}

  void begin_row(Term row, Term unit) override {
    unit_ = unit;
    coordinates_.assign(e_.shape.rank(), c_.u(0));
    for (int axis = e_.shape.rank() - 2; axis >= 0; --axis) {
      coordinates_[axis] = axis > 0 ? row % w_.u(e_.shape[axis]) : row;
      if (axis > 0) row = row / w_.u(e_.shape[axis]);
    }
  }
  Term load(std::size_t k, Term column) override {
    return w_.load(item_.inputs[k], at(e_.inputs[k].strides, column, false), dtypes_[k]);
  }
  Term load_sum(std::size_t k, Term column) override {
    return w_.load(item_.targets[k], at(e_.results[k].strides, column, true), dtype(k));
  }
  void store(std::size_t k, Term column, Term x) override {
    w_.store(item_.targets[k], at(e_.results[k].strides, column, e_.results[k].sums), x, dtype(k));
  }

 private:
  DType dtype(std::size_t result) const { return dtypes_[e_.results[result].from]; }
  Term at(const Strides& strides, Term column, bool sums) {
    const std::size_t last = e_.shape.rank() - 1;
    Term sum = strides[last] == 0 ? c_.u(0) : w_.times(column, strides[last]);
    if (sums) return sum + w_.times(unit_, strides[last - 1]);
    for (std::size_t axis = 0; axis < last; ++axis)
      if (strides[axis] != 0) sum = sum + w_.times(coordinates_[axis], strides[axis]);
    return sum;
  }

  LoopWriter& w_;
  Code& c_;
  const LoopItem& item_;
  const Expression& e_;
  const std::vector<DType> dtypes_;
  std::vector<Term> coordinates_;
  Term unit_;
};

}  // namespace

void LoopWriter::rows(const LoopItem& item) {
  const Expression& e = item.expression;
  const Index all = e.shape.removed(e.shape.rank() - 1).elements(), sum = std::max<Index>(e.sum_rows, 1);
  const Term units = shares_rows() ? times(valid_rows_, all / s_.rows) / u(sum) : u(all / sum);
  LoopRows operands(*this, c_, item);
  write_rows(c_, e, loop_row_layout(e, t_.local_size, limits_), operands, -1, {units, true});
}

void LoopWriter::item(const LoopItem& item) {
  const bool waits = std::any_of(item.inputs.begin(), item.inputs.end(), [&](const LoopPlace& place) {
    return place.where == Where::local && written_.count(place.index);
  });
  if (waits) {
    c_.barrier();
    written_.clear();
  }
  switch (item.kind) {
    case LoopItem::Kind::pointwise: pointwise(item); break;
    case LoopItem::Kind::product: product(item); break;
    case LoopItem::Kind::rows: rows(item); break;
  }
  for (const LoopPlace& place : item.targets)
    if (place.where == Where::local) written_.insert(place.index);
}

void LoopWriter::step(Term number) {
  parity_ = number & c_.u(1);
  written_.clear();
  for (const LoopItem& each : s_.items) item(each);
  c_.barrier();
}

Words LoopWriter::write() {
  place_arrays();
  lane_ = c_.local_index();
  begin_ = parameter(c_, 0), end_ = parameter(c_, 1);
  group_ = c_.group_index();
  first_row_ = times(group_, t_.rows);
  const Term left = u(s_.rows) - first_row_;
  valid_rows_ = c_.select(left < c_.u(t_.rows), left, c_.u(t_.rows));
  enter();
  c_.loop(begin_, end_, c_.u(1), [&](Term number) {
    step_ = s_.reverse ? u(s_.steps - 1) - number : number;
    if (!s_.packed) return step(number);
    const Term rows = live(step_, 0), all = valid_rows_;
    position_ = live(step_, 1);
    c_.when(rows > first_row_, [&] {
      const Term left_over = rows - first_row_;
      valid_rows_ = c_.select(left_over < all, left_over, all);
      step(number);
    });
    valid_rows_ = all;
  });
  leave();
  return c_.finish();
}

Words loop_shader(const LoopStep& step, const LoopTiling& tiling, const LoopOperands& operands, const Setting& setting,
                  const Limits& limits) {
  return LoopWriter(step, tiling, operands, setting, limits).write();
}

}  // namespace unroll::vulkan
