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
// Returns the k-th of `parts` slices.
Slice slice_of(const Slice& whole, int k, int parts) {
  const auto i = static_cast<std::size_t>(k), n = static_cast<std::size_t>(parts), size = whole.size();
  const auto bound = [&](std::size_t j) { return whole.begin + size / n * j + std::min(j, size % n); };
  return {bound(i), bound(i + 1)};
}

// A block of micro-batches, and the location of this rank's slice of its sum.
struct Held {
  TreeBlock block;
  Part part;
};

class Planner {
 public:
  Planner(std::int64_t leaves, int rank, int ranks, std::size_t elements)
      : leaves_(leaves), rank_(rank), ranks_(ranks), slice_{0, elements} {}

  SumPlan run() {
    const std::vector<TreeBlock> own = blocks_before_last_sum(leaves_of(leaves_, rank_, ranks_));
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
  // Joins f groups of `stride` ranks.
  void meet(int stride, int factor) {
    const std::vector<int> partners = level_partners(rank_, stride, factor);
    const int mine = rank_ / stride % factor;
    const Slice whole = slice_, own = slice_of(whole, mine, factor);
    SumPlan::Stage stage, back;
    std::vector<Held> all;
    for (int g = 0; g < factor; ++g) {
      const int partner = partners[static_cast<std::size_t>(g)];
      const Slice theirs = slice_of(whole, g, factor);
      if (g == mine) {
        for (const Held& h : held_) all.push_back({h.block, within(h.part, whole, own)});
        continue;
      }
      for (const Held& h : held_) add_message(stage.send, partner, within(h.part, whole, theirs));
      const int first = partner / stride * stride;  // first rank of the partner's group
      const Leaves of_group{leaves_of(leaves_, first, ranks_).begin,
                            leaves_of(leaves_, first + stride - 1, ranks_).end};
      for (const TreeBlock& block : roots_of(of_group)) {
        all.push_back({block, new_part(own.size())});
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
    std::vector<TreeBlock> blocks;
    for (const Held& h : held_) blocks.push_back(h.block);
    std::vector<int> places;
    for (const SumStep& step : sum_halves(blocks, places)) add(stage, step);
    std::vector<Held> left;
    for (std::size_t i = 0; i < places.size(); ++i)
      left.push_back({blocks[i], held_[static_cast<std::size_t>(places[i])].part});
    held_ = std::move(left);
  }

  void add(SumPlan::Stage& stage, const SumStep& step) {
    Part& left = held_[static_cast<std::size_t>(step.left)].part;
    const Part& right = held_[static_cast<std::size_t>(step.right)].part;
    const Part sum = left.where == Part::Where::work    ? left
                     : right.where == Part::Where::work ? right
                                                        : new_part(left.n);  // keeps the blocks unchanged
    if (sum.n > 0) stage.additions.push_back({left, right, sum});
    left = sum;
  }

  // Every rank now has the partial sums of all micro-batches. Also adds blocks whose other half is empty.
  void finish() {
    SumPlan::Stage last;
    std::vector<TreeBlock> blocks;
    for (const Held& h : held_) blocks.push_back(h.block);
    for (const SumStep& step : sum_steps(blocks)) add(last, step);
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

  std::int64_t leaves_;
  int rank_, ranks_;
  Slice slice_;             // the slice that this rank sums
  std::vector<Held> held_;  // in micro-batch order
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

SumPlan sum_plan(std::int64_t leaves, int rank, int ranks, std::size_t elements) {
  return Planner(leaves, rank, ranks, elements).run();
}

}  // namespace unroll
