// SPDX-License-Identifier: Apache-2.0
#include "core/parallel/sum_plan.h"

#include <algorithm>

#include "core/support/sum_tree.h"

namespace unroll {

namespace {

using Part = SumPlan::Part;

struct Slice {
  std::size_t begin, end;
  std::size_t size() const { return end - begin; }
};
// The k-th of n slices.
Slice slice_of(const Slice& whole, std::size_t k, std::size_t n) {
  const auto bound = [&](std::size_t j) { return whole.begin + whole.size() / n * j + std::min(j, whole.size() % n); };
  return {bound(k), bound(k + 1)};
}

// A partial sum, and the place of this rank's slice of it.
struct Held {
  PartialSum sum;
  Part part;
};

class Planner {
 public:
  Planner(std::int64_t micro_batches, int rank, int ranks, std::size_t elements)
      : micro_batches_(micro_batches), rank_(rank), ranks_(ranks), slice_{0, elements} {}

  SumPlan run() {
    const std::vector<PartialSum> own = partial_sums_before_last(of_ranks(rank_, rank_));
    for (std::size_t i = 0; i < own.size(); ++i)
      held_.push_back({own[i], {Part::Where::block, i, slice_.begin, slice_.size()}});
    SumPlan::Stage before;
    add_halves(before);
    if (!before.additions.empty()) plan_.stages.push_back(std::move(before));
    int stride = 1;
    for (const int factor : level_factors(ranks_)) {
      meet(stride, factor);
      stride *= factor;
    }
    finish();
    return std::move(plan_);
  }

 private:
  // The micro-batches of the ranks [first, last].
  MicroBatches of_ranks(int first, int last) const {
    return {micro_batches_of(micro_batches_, first, ranks_).begin, micro_batches_of(micro_batches_, last, ranks_).end};
  }

  // f groups of `stride` ranks become one.
  void meet(int stride, int factor) {
    const std::vector<int> partners = level_partners(rank_, stride, factor);
    const auto mine = static_cast<std::size_t>(rank_ / stride % factor);
    const Slice whole = slice_, own = slice_of(whole, mine, partners.size());
    SumPlan::Stage stage, back;
    std::vector<Held> all;
    for (std::size_t g = 0; g < partners.size(); ++g) {
      const int partner = partners[g];
      const Slice theirs = slice_of(whole, g, partners.size());
      if (partner == rank_) {
        for (const Held& h : held_) all.push_back({h.sum, within(h.part, whole, own)});
        continue;
      }
      for (const Held& h : held_) add_message(stage.send, partner, within(h.part, whole, theirs));
      const int first = partner / stride * stride;  // of the partner's group
      for (const PartialSum& sum : partial_sums_of(of_ranks(first, first + stride - 1))) {
        all.push_back({sum, new_part(own.size())});
        add_message(stage.receive, partner, all.back().part);
      }
      add_message(back.send, partner, result(own));
      add_message(back.receive, partner, result(theirs));
    }
    held_ = std::move(all);
    slice_ = own;
    add_halves(stage);
    plan_.stages.push_back(std::move(stage));
    plan_.gather.insert(plan_.gather.begin(), std::move(back));
  }

  static void add_message(std::vector<SumPlan::Message>& messages, int peer, const Part& part) {
    if (part.n > 0) messages.push_back({peer, part});
  }

  void add_halves(SumPlan::Stage& stage) {
    std::vector<PartialSum> sums = held_sums();
    std::vector<std::size_t> places;
    for (const SumStep& step : sum_halves(sums, places)) add(stage, step);
    std::vector<Held> left;
    for (std::size_t i = 0; i < places.size(); ++i) left.push_back({sums[i], held_[places[i]].part});
    held_ = std::move(left);
  }

  std::vector<PartialSum> held_sums() const {
    std::vector<PartialSum> sums;
    for (const Held& h : held_) sums.push_back(h.sum);
    return sums;
  }

  void add(SumPlan::Stage& stage, const SumStep& step) {
    Part& left = held_[step.left].part;
    const Part& right = held_[step.right].part;
    const Part sum = left.where == Part::Where::work    ? left
                     : right.where == Part::Where::work ? right
                                                        : new_part(left.n);  // keeps the blocks unchanged
    if (sum.n > 0) stage.additions.push_back({left, right, sum});
    left = sum;
  }

  // Every rank has the partial sums of all micro-batches now: those whose other half is empty are added, too.
  void finish() {
    SumPlan::Stage last;
    for (const SumStep& step : sum_steps(held_sums())) add(last, step);
    if (!last.additions.empty()) plan_.stages.push_back(std::move(last));
    const Part to = result(slice_);
    if (to.n == 0) return;
    SumPlan::Addition* const end =
        plan_.stages.empty() || plan_.stages.back().additions.empty() ? nullptr : &plan_.stages.back().additions.back();
    if (end) end->sum = to;
    else plan_.slice = SumPlan::Copy{held_.front().part, to};
  }

  static Part within(const Part& part, const Slice& whole, const Slice& slice) {
    return {part.where, part.block, part.at + slice.begin - whole.begin, slice.size()};
  }
  static Part result(const Slice& slice) { return {Part::Where::result, 0, slice.begin, slice.size()}; }
  Part new_part(std::size_t n) {
    const Part part{Part::Where::work, 0, plan_.work, n};
    plan_.work += n;
    return part;
  }

  std::int64_t micro_batches_;  // of all ranks
  int rank_, ranks_;
  Slice slice_;             // added by this rank
  std::vector<Held> held_;  // in the order of the micro-batches
  SumPlan plan_;
};

}  // namespace

std::vector<int> level_factors(int ranks) {
  std::vector<int> factors;
  for (int f = 2; ranks > 1; ++f)
    for (; ranks % f == 0; ranks /= f) factors.push_back(f);
  return factors;
}

std::vector<int> level_partners(int rank, int stride, int factor) {
  const int group = rank / stride % factor;
  std::vector<int> partners;
  for (int g = 0; g < factor; ++g) partners.push_back(rank + (g - group) * stride);
  return partners;
}

SumPlan sum_plan(std::int64_t n, int rank, int ranks, std::size_t elements) {
  return Planner(n, rank, ranks, elements).run();
}

}  // namespace unroll
