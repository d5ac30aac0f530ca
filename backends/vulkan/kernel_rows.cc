// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <map>

#include "backends/common/walk.h"
#include "backends/vulkan/rows.h"

namespace unroll::vulkan {

namespace {

using common::Expression;
using common::Instruction;
using common::operands_of;
using common::Strides;

constexpr std::uint32_t k_added_in_a_row = 8;  // partial results that each lane adds up by itself

std::size_t last_axis(const Expression& e) { return static_cast<std::size_t>(e.shape.rank() - 1); }

class RowWriter {
 public:
  RowWriter(const Expression& e, const Buffers& buffers, const RowLayout& layout, const Setting& setting)
      : e_(e), b_(buffers), layout_(layout), schedule_(e), n_columns_(schedule_.columns()),
        spill_(spill_words(schedule_, layout)), c_(options(buffers, spill_ > 0, layout, setting)) {}
  Words write();

 private:
  static ModuleOptions options(const Buffers& buffers, bool spills, const RowLayout& layout, const Setting& setting) {
    ModuleOptions o = module_options(setting, buffers.count + spills);
    o.local_size = layout.lanes * layout.teams;
    o.coherent = spills ? buffers.count + 1 : -1;
    return o;
  }
  Kind kind(std::size_t r) const { return kind_of(schedule_.dtypes()[r]); }
  const Instruction& instruction(std::size_t r) const { return e_.instructions[r - schedule_.first()]; }
  Term u(std::int64_t n) { return c_.u(static_cast<std::uint32_t>(n)); }

  void place_values();
  void row(Term unit, Term within);
  void places(Term row, Term unit);
  void of_row(const RowSchedule::Loop& loop);
  void of_columns(const RowSchedule::Loop& loop);
  void reduce(const std::vector<std::size_t>& reductions, const std::vector<Local>& sums);
  Term combine(Op op, Term a, Term b) { return instruction_term(c_, joining(op), a, b, {}); }
  static Instruction joining(Op op) { return {.op = op == Op::reduce_sum ? Op::add : Op::maximum}; }
  Term input(std::size_t k, Term column);
  Term value(std::size_t r, Term column);  // where it is kept, or as it lies in memory
  Term computed(std::size_t r, Term column);
  Term to_bits(Term x);
  Term from_bits(std::size_t r, Term bits);
  void keep(std::size_t r, Term column, Term x);
  void set_scalar(std::size_t r, Term x);
  Term scalar_place(std::size_t r) { return u(place_[r]) * u(layout_.lanes * layout_.teams) + own_; }
  void store(std::size_t k, Term column, Term x);
  Term at(std::size_t operand, Term column);

  const Expression& e_;
  const Buffers& b_;
  const RowLayout& layout_;
  const RowSchedule schedule_;
  const std::vector<std::int64_t>& n_columns_;
  const std::uint32_t spill_;
  Code c_;
  Shared shared_, parts_, stored_;
  std::vector<std::uint32_t> place_;  // [register] in shared memory, or behind it in the spill buffer
  std::map<std::size_t, Term> scalars_, known_;  // of the row; of the column
  std::vector<bool> is_stored_;                  // [register] a scalar in stored_, at its place
  std::vector<Term> offsets_;         // [operand] of the row
  Term lane_, team_, own_, valid_, first_row_, spill_row_;
};

void RowWriter::place_values() {
  place_.assign(n_columns_.size(), 0);
  std::uint32_t shared = 0, spilled = 0;
  for (std::size_t r = schedule_.first(); r < n_columns_.size(); ++r) {
    if (!schedule_.is_kept(r)) continue;
    const auto words = static_cast<std::uint32_t>(n_columns_[r]);
    std::uint32_t& from = shared + words <= layout_.shared_words ? shared : spilled;
    place_[r] = from + (&from == &spilled ? layout_.shared_words : 0);
    from += words;
  }
  std::uint32_t n_stored = 0;
  for (std::size_t r = schedule_.first(); layout_.stores_scalars && r < n_columns_.size(); ++r)
    if (n_columns_[r] == 1) place_[r] = n_stored++;
  if (n_stored > 0) stored_ = c_.shared(Kind::u32, n_stored * layout_.lanes * layout_.teams);
  if (layout_.shared_words > 0) shared_ = c_.shared(Kind::u32, layout_.shared_words * layout_.teams);
}

// The offset of the row in each operand. Parameters: units, sizes of the leading axes, strides, distances.
void RowWriter::places(Term row, Term unit) {
  const int rank = e_.shape.rank();
  std::vector<Term> coordinates(static_cast<std::size_t>(rank));
  Term rest = row;
  for (int axis = rank - 2; axis >= 0; --axis) {
    const Term size = parameter(c_, 1 + axis);
    coordinates[static_cast<std::size_t>(axis)] = axis > 0 ? rest % size : rest;
    if (axis > 0) rest = rest / size;
  }
  const auto operands = operands_of(e_);
  int next = rank + static_cast<int>(operands.size()) * rank;
  offsets_.clear();
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const int strides = rank + static_cast<int>(k) * rank;
    const bool sums = k >= e_.inputs.size() && e_.results[k - e_.inputs.size()].sums;
    Term at = sums ? unit * parameter(c_, strides + rank - 2) : c_.u(0);
    for (int axis = 0; !sums && axis < rank - 1; ++axis)
      if ((*operands[k])[static_cast<std::size_t>(axis)] != 0)
        at = at + coordinates[static_cast<std::size_t>(axis)] * parameter(c_, strides + axis);
    if (!b_.is_first(k)) at = at + parameter(c_, next++);
    offsets_.push_back(at);
  }
}

Term RowWriter::at(std::size_t operand, Term column) {
  const std::int64_t inner = (*operands_of(e_)[operand])[last_axis(e_)];
  if (inner == 0) return offsets_[operand];
  if (inner == 1) return offsets_[operand] + column;
  const int rank = e_.shape.rank();
  return offsets_[operand] + column * parameter(c_, rank + static_cast<int>(operand) * rank + rank - 1);
}

Term RowWriter::input(std::size_t k, Term column) {
  return load_element(c_, b_.of[k], at(k, column), e_.inputs[k].dtype);
}

void RowWriter::store(std::size_t k, Term column, Term x) {
  const std::size_t operand = e_.inputs.size() + k;
  c_.when(valid_, [&] {
    const Term place = at(operand, column);
    const DType dtype = schedule_.dtypes()[e_.results[k].from];
    Term y = x;
    if (e_.results[k].sums) {
      const Term before = load_element(c_, b_.of[operand], place, dtype);
      y = combine(Op::reduce_sum, c_.select(first_row_, c_.zero(x.kind), before), x);
    }
    store_element(c_, b_.of[operand], place, y, dtype);
  });
}

Term RowWriter::to_bits(Term x) { return x.kind == Kind::boolean ? c_.convert(Kind::u32, x) : c_.as(Kind::u32, x); }
Term RowWriter::from_bits(std::size_t r, Term bits) {
  return kind(r) == Kind::boolean ? bits != c_.u(0) : c_.as(kind(r), bits);
}

void RowWriter::keep(std::size_t r, Term column, Term x) {
  const Term bits = to_bits(x);
  if (place_[r] < layout_.shared_words) shared_.set(team_ * c_.u(layout_.shared_words) + u(place_[r]) + column, bits);
  else c_.when(valid_, [&] {
    c_.store(1 + b_.count, c_.push(1 + b_.count) + spill_row_ + u(place_[r] - layout_.shared_words) + column, bits);
  });
}

void RowWriter::set_scalar(std::size_t r, Term x) {
  scalars_[r] = x;
  is_stored_[r] = layout_.stores_scalars;
  if (is_stored_[r]) stored_.set(scalar_place(r), to_bits(x));
}

Term RowWriter::value(std::size_t r, Term column) {
  if (is_stored_[r]) return from_bits(r, stored_.get(scalar_place(r)));
  if (const auto scalar = scalars_.find(r); scalar != scalars_.end()) return scalar->second;
  if (const auto known = known_.find(r); known != known_.end()) return known->second;
  if (r < schedule_.first()) return input(r, column);
  const Term bits = place_[r] < layout_.shared_words
                        ? shared_.get(team_ * c_.u(layout_.shared_words) + u(place_[r]) + column)
                        : c_.load(1 + b_.count, c_.push(1 + b_.count) + spill_row_ +
                                                    u(place_[r] - layout_.shared_words) + column);
  return from_bits(r, bits);
}

Term RowWriter::computed(std::size_t r, Term column) {
  const Instruction& i = instruction(r);
  switch (i.op) {
    case Op::broadcast: return value(i.a, column);
    case Op::slice:
    case Op::concat: {
      // Other columns of a value of this loop are those that it kept, never the one of this column.
      const auto known = std::exchange(known_, {});
      Term x;
      if (i.op == Op::slice) {
        x = value(i.a, column + u(i.first));
      } else {
        const Term n = u(n_columns_[i.a]), left = column < n;
        x = c_.select(left, value(i.a, c_.select(left, column, c_.u(0))),
                      value(i.b, c_.select(left, c_.u(0), column - n)));
      }
      known_ = known;
      return x;
    }
    default: break;
  }
  Term operands[3];
  const auto from = schedule_.operands_of(r);
  for (std::size_t k = 0; k < from.size(); ++k) {
    operands[k] = value(from[k], column);
    if (n_columns_[from[k]] > 1) known_[from[k]] = operands[k];
  }
  return instruction_term(c_, i, operands[0], operands[1], operands[2]);
}

void RowWriter::of_row(const RowSchedule::Loop& loop) {
  for (const std::size_t r : loop.registers) set_scalar(r, computed(r, c_.u(0)));
}

void RowWriter::of_columns(const RowSchedule::Loop& loop) {
  std::vector<std::size_t> reductions;
  std::vector<Local> sums;
  for (const std::size_t r : loop.registers) {
    const Op op = instruction(r).op;
    if (op != Op::reduce_sum && op != Op::reduce_max) continue;
    reductions.push_back(r);
    const Term lowest = c_.bits(kind(r), kind(r) == Kind::f32 ? k_minus_infinity : k_lowest);
    sums.push_back(c_.local(op == Op::reduce_sum ? c_.zero(kind(r)) : lowest));
  }
  bool crosses = false;
  c_.loop(lane_, u(loop.columns), c_.u(layout_.lanes), [&](Term column) {
    known_.clear();
    for (const std::size_t r : loop.registers) {
      const auto reduction = std::find(reductions.begin(), reductions.end(), r);
      if (reduction != reductions.end()) {
        const Local& sum = sums[static_cast<std::size_t>(reduction - reductions.begin())];
        const std::size_t of = instruction(r).a;
        const Term x = value(of, column);
        if (n_columns_[of] > 1) known_[of] = x;
        sum.set(combine(instruction(r).op, sum.get(), x));
        continue;
      }
      const Term x = known_[r] = computed(r, column);
      if (schedule_.is_kept(r)) keep(r, column, x);
      crosses = crosses || schedule_.is_crossed(r);
      for (std::size_t k = 0; k < e_.results.size(); ++k)
        if (e_.results[k].from == r) store(k, column, x);
    }
  });
  known_.clear();
  if (crosses) c_.barrier();
  reduce(reductions, sums);
}

// Every lane gets the result.
void RowWriter::reduce(const std::vector<std::size_t>& reductions, const std::vector<Local>& sums) {
  if (reductions.empty()) return;
  const std::uint32_t size = layout_.lanes * layout_.teams;
  const auto at = [&](std::size_t k, Term index) { return c_.u(static_cast<std::uint32_t>(k) * size) + index; };
  const auto part = [&](std::size_t k, Term index) { return parts_.get(at(k, index)); };
  const auto set = [&](std::size_t k, Term x) { parts_.set(at(k, own_), c_.as(Kind::u32, x)); };
  for (std::size_t k = 0; k < sums.size(); ++k) set(k, sums[k].get());
  std::uint32_t left = layout_.lanes;
  for (; left > k_added_in_a_row; left /= 2) {
    c_.barrier();
    c_.when(lane_ < c_.u(left / 2), [&] {
      for (std::size_t k = 0; k < reductions.size(); ++k) {
        const Kind kind = this->kind(reductions[k]);
        set(k, combine(instruction(reductions[k]).op, c_.as(kind, part(k, own_)),
                       c_.as(kind, part(k, own_ + c_.u(left / 2)))));
      }
    });
  }
  c_.barrier();
  for (std::size_t k = 0; k < reductions.size(); ++k) {
    const Kind kind = this->kind(reductions[k]);
    Term all = c_.as(kind, part(k, team_ * c_.u(layout_.lanes)));
    for (std::uint32_t i = 1; i < left; ++i)
      all = combine(instruction(reductions[k]).op, all,
                    c_.as(kind, part(k, team_ * c_.u(layout_.lanes) + c_.u(i))));
    set_scalar(reductions[k], all);
  }
  c_.barrier();
}

void RowWriter::row(Term unit, Term within) {
  const std::int64_t n = std::max<std::int64_t>(e_.sum_rows, 1);
  const Term row = unit * u(n) + within;
  first_row_ = within == c_.u(0);
  spill_row_ = row * c_.u(spill_);
  places(row, unit);
  scalars_.clear();
  known_.clear();
  is_stored_.assign(n_columns_.size(), false);
  for (std::size_t k = 0; k < e_.inputs.size(); ++k)
    if (n_columns_[k] == 1) scalars_[k] = input(k, c_.u(0));
  for (std::size_t k = 0; k < e_.constants.size(); ++k)
    scalars_[e_.inputs.size() + k] = constant_term(c_, e_.constants[k]);
  bool crosses = false;
  for (const RowSchedule::Loop& loop : schedule_.loops()) {
    if (loop.columns == 0) of_row(loop);
    else of_columns(loop);
    for (const std::size_t r : loop.registers) crosses = crosses || schedule_.is_crossed(r);
  }
  for (std::size_t k = 0; k < e_.results.size(); ++k) {
    const std::size_t r = e_.results[k].from;
    if (n_columns_[r] == 1) c_.when(lane_ == c_.u(0), [&] { store(k, c_.u(0), value(r, c_.u(0))); });
    else if (r < schedule_.first())
      c_.loop(lane_, u(n_columns_[r]), c_.u(layout_.lanes), [&](Term column) { store(k, column, input(r, column)); });
  }
  if (crosses && n > 1) c_.barrier();  // before the next row overwrites what other lanes read
}

Words RowWriter::write() {
  place_values();
  std::size_t most = 0;
  for (const RowSchedule::Loop& loop : schedule_.loops())
    most = std::max(most, static_cast<std::size_t>(std::count_if(
                              loop.registers.begin(), loop.registers.end(), [&](std::size_t r) {
                                return instruction(r).op == Op::reduce_sum || instruction(r).op == Op::reduce_max;
                              })));
  if (most > 0)
    parts_ = c_.shared(Kind::u32, static_cast<std::uint32_t>(most) * layout_.lanes * layout_.teams);
  const Term local = c_.local_index(), units = parameter(c_, 0);
  lane_ = local % c_.u(layout_.lanes);
  team_ = local / c_.u(layout_.lanes);
  own_ = local;
  const Term unit = c_.group_index() * c_.u(layout_.teams) + team_;
  valid_ = unit < units;
  // Invocations without a row compute the last one and store nothing, so that all meet at the barriers.
  const Term own = c_.select(valid_, unit, units - c_.u(1));
  if (e_.sum_rows > 1) c_.loop(c_.u(0), u(e_.sum_rows), c_.u(1), [&](Term within) { row(own, within); });
  else row(own, c_.u(0));
  return c_.finish();
}

}  // namespace

std::uint64_t row_units(const Expression& e) {
  const std::int64_t rows = e.shape.removed(e.shape.rank() - 1).elements();
  return static_cast<std::uint64_t>(rows / std::max<std::int64_t>(e.sum_rows, 1));
}

std::string rows_key(const Expression& e, const Buffers& buffers, const RowLayout& layout) {
  std::string key = "w" + std::to_string(layout.lanes) + "x" + std::to_string(layout.teams) + "," +
                    std::to_string(layout.shared_words) + "," + std::to_string(e.sum_rows) + ";";
  for (const auto& input : e.inputs) key += std::to_string(input.columns) + ",";
  for (const Strides* strides : operands_of(e)) {
    for (std::size_t axis = 0; axis < last_axis(e); ++axis) key += (*strides)[axis] != 0 ? '1' : '0';
    const std::int64_t inner = (*strides)[last_axis(e)];
    key += inner == 0 ? 's' : inner == 1 ? 'd' : 'x';
  }
  for (const Instruction& i : e.instructions) key += std::to_string(i.first) + "," + std::to_string(i.columns) + ",";
  for (const auto& result : e.results) key += result.sums ? 's' : 'r';
  return key + expression_key(e, buffers);
}

Params rows_params(const Expression& e, const Buffers& buffers) {
  Params p{static_cast<std::uint32_t>(row_units(e))};
  for (std::size_t axis = 0; axis < last_axis(e); ++axis)
    p.push_back(static_cast<std::uint32_t>(e.shape[static_cast<int>(axis)]));
  for (const Strides* strides : operands_of(e))
    for (std::size_t axis = 0; axis <= last_axis(e); ++axis) p.push_back(static_cast<std::uint32_t>((*strides)[axis]));
  for (std::size_t k = 0; k < buffers.of.size(); ++k)
    if (!buffers.is_first(k)) p.push_back(buffers.distance[k]);
  return p;
}

Words rows_shader(const Expression& e, const Buffers& buffers, const RowLayout& layout, const Setting& setting) {
  return RowWriter(e, buffers, layout, setting).write();
}

}  // namespace unroll::vulkan
