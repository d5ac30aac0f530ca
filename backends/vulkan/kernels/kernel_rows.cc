// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "backends/vulkan/kernels/rows.h"

namespace unroll::vulkan {

namespace {

using common::Expression;
using common::Instruction;

constexpr std::uint32_t k_added_in_a_row = 8;  // partial results that each lane adds up by itself

// The most reductions in one loop over columns: their partial results lie side by side.
std::size_t most_reductions(const RowSchedule& schedule, const Expression& e) {
  std::size_t most = 0;
  for (const RowSchedule::Loop& loop : schedule.loops()) {
    std::size_t n = 0;
    for (const std::size_t r : loop.registers) {
      const Op op = e.instructions[r - schedule.first()].op;
      n += op == Op::reduce_sum || op == Op::reduce_max;
    }
    most = std::max(most, n);
  }
  return most;
}

class RowWriter {
 public:
  RowWriter(Code& c, const Expression& e, const RowLayout& layout, RowOperands& operands, int spill)
      : c_(c), e_(e), o_(operands), layout_(layout), schedule_(e), n_columns_(schedule_.columns()),
        spill_words_(spill_words(schedule_, layout)), spill_(spill) {}
  void write(const RowRange& range);

 private:
  Kind kind(std::size_t r) const { return kind_of(schedule_.dtypes()[r]); }
  const Instruction& instruction(std::size_t r) const { return e_.instructions[r - schedule_.first()]; }
  Term u(std::int64_t n) { return c_.u(static_cast<std::uint32_t>(n)); }

  void place_values();
  void of_unit(Term unit, Term all, bool repeats);
  void row(Term unit, Term within, bool repeats);
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

  Code& c_;
  const Expression& e_;
  RowOperands& o_;
  const RowLayout& layout_;
  const RowSchedule schedule_;
  const std::vector<std::int64_t>& n_columns_;
  const std::uint32_t spill_words_;
  const int spill_;  // operand
  Shared shared_, parts_, stored_;
  std::vector<std::uint32_t> place_;  // [register] in shared memory, or behind it in the spill buffer
  std::map<std::size_t, Term> scalars_, known_;  // of the row; of the column
  std::vector<bool> is_stored_;                  // [register] a scalar in stored_, at its place
  Term lane_, team_, own_, valid_, first_row_, spill_row_;
};

void RowWriter::place_values() {
  place_.assign(n_columns_.size(), 0);
  std::uint32_t shared = 0, spilled = 0;
  for (const std::size_t r : schedule_.kept()) {
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

Term RowWriter::input(std::size_t k, Term column) { return o_.load(k, column); }

void RowWriter::store(std::size_t k, Term column, Term x) {
  c_.when(valid_, [&] {
    if (!e_.results[k].sums) return o_.store(k, column, x);
    const Term before = o_.load_sum(k, column);
    o_.store(k, column, combine(Op::reduce_sum, c_.select(first_row_, c_.zero(x.kind), before), x));
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
    c_.store(1 + spill_, c_.push(1 + spill_) + spill_row_ + u(place_[r] - layout_.shared_words) + column, bits);
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
  if (!schedule_.is_kept(r)) {
    const Term x = computed(r, column);
    known_[r] = x;
    return x;
  }
  const Term bits = place_[r] < layout_.shared_words
                        ? shared_.get(team_ * c_.u(layout_.shared_words) + u(place_[r]) + column)
                        : c_.load(1 + spill_, c_.push(1 + spill_) + spill_row_ +
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
        const Term a = value(i.a, c_.select(left, column, c_.u(0)));
        known_.clear();
        x = c_.select(left, a, value(i.b, c_.select(left, c_.u(0), column - n)));
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
        const Local& sum = sums[reduction - reductions.begin()];
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

void RowWriter::row(Term unit, Term within, bool repeats) {
  const std::int64_t n = std::max<std::int64_t>(e_.sum_rows, 1);
  const Term row = unit * u(n) + within;
  first_row_ = within == c_.u(0);
  spill_row_ = row * c_.u(spill_words_);
  o_.begin_row(row, unit);
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
  if (crosses && (n > 1 || repeats)) c_.barrier();  // before the next row overwrites what other lanes read
}

void RowWriter::of_unit(Term unit, Term all, bool repeats) {
  valid_ = unit < all;
  // Invocations without a row compute the last one and store nothing, so that all meet at the barriers.
  const Term last = c_.select(all == c_.u(0), all, all - c_.u(1)), own = c_.select(valid_, unit, last);
  if (e_.sum_rows > 1) c_.loop(c_.u(0), u(e_.sum_rows), c_.u(1), [&](Term within) { row(own, within, repeats); });
  else row(own, c_.u(0), repeats);
}

void RowWriter::write(const RowRange& range) {
  place_values();
  if (const std::size_t most = most_reductions(schedule_, e_); most > 0)
    parts_ = c_.shared(Kind::u32, static_cast<std::uint32_t>(most) * layout_.lanes * layout_.teams);
  own_ = c_.local_index();
  lane_ = own_ % c_.u(layout_.lanes);
  team_ = own_ / c_.u(layout_.lanes);
  if (!range.all_by_group) return of_unit(c_.group_index() * c_.u(layout_.teams) + team_, range.units, false);
  c_.loop(c_.u(0), range.units, c_.u(layout_.teams), [&](Term first) { of_unit(first + team_, range.units, true); });
}

}  // namespace

void write_rows(Code& c, const common::Expression& e, const RowLayout& layout, RowOperands& operands, int spill,
                const RowRange& range) {
  RowWriter(c, e, layout, operands, spill).write(range);
}

std::uint32_t row_shared_words(const common::Expression& e, const RowLayout& layout) {
  const RowSchedule schedule(e);
  const auto most = static_cast<std::uint32_t>(most_reductions(schedule, e));
  std::uint32_t scalars = 0;
  for (std::size_t r = schedule.first(); layout.stores_scalars && r < schedule.columns().size(); ++r)
    scalars += schedule.columns()[r] == 1;
  return (most + scalars) * layout.lanes * layout.teams + layout.shared_words * layout.teams;
}

}  // namespace unroll::vulkan
