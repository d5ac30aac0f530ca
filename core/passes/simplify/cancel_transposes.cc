// SPDX-License-Identifier: Apache-2.0
// A layout that a layer needs and leaves again, such as the channels of a convolution, costs a copy of everything
// between two layers. Here the work between them moves to the layout of the layers.
#include "core/passes/simplify/cancel_transposes.h"

#include <algorithm>
#include <array>
#include <map>

namespace unroll {

namespace {

constexpr std::array k_along_axis{Op::slice, Op::pad, Op::concat};

class Cancelled {
 public:
  explicit Cancelled(const Ints& permutation) : permutation_(permutation) {}

  Value run(Value x) {
    if (is_leaf(x) || !can_move(x) || n_cancelled_ == 0) return {};
    return moved(x);
  }

 private:
  static constexpr int k_most_nodes = 64;
  static constexpr std::int64_t k_small = 8;  // a value with this part of the elements is transposed at little cost

  int rank() const { return static_cast<int>(permutation_.size()); }
  // The operand of the opposite transpose; empty for other nodes.
  Value before_transpose(Value x) const {
    if (x.node().op != Op::transpose) return {};
    const Ints& inner = x.node().attributes.get<Ints>("permutation");
    for (int i = 0; i < rank(); ++i)
      if (inner.size() != permutation_.size() || inner[permutation_[i]] != i) return {};
    return x.graph().value(x.node().inputs[0]);
  }
  static bool is_leaf(Value x) {
    return !is_elementwise(x.node().op) &&
           std::ranges::find(k_along_axis, x.node().op) == k_along_axis.end();
  }

  // A small operand, which broadcasting repeats.
  static bool is_small(Value operand, Value result) {
    return operand.shape().elements() * k_small <= result.shape().elements();
  }
  bool can_move(Value x) {
    if (seen_.contains(x.id())) return true;
    if (before_transpose(x)) {
      ++n_cancelled_;
    } else {
      if (is_leaf(x) || x.rank() != rank() || static_cast<int>(seen_.size()) > k_most_nodes) return false;
      for (const ValueId& input : x.node().inputs) {
        const Value operand = x.graph().value(input);
        if (!(is_elementwise(x.node().op) && is_small(operand, x)) && !can_move(operand)) return false;
      }
    }
    seen_[x.id()] = Value();
    return true;
  }

  Value moved(Value x) {
    if (const Value before = before_transpose(x)) return before;
    if (const Value& done = seen_[x.id()]) return done;
    std::vector<Value> operands;
    for (const ValueId& input : x.node().inputs) {
      const Value operand = x.graph().value(input);
      if (seen_.contains(input)) operands.push_back(moved(operand));
      else operands.push_back(operand.rank() == 0 ? operand : transpose(aligned(operand), permutation_));
    }
    Attributes attributes = x.node().attributes;
    if (!is_elementwise(x.node().op)) {
      const auto at = std::ranges::find(permutation_, attributes.get<std::int64_t>("axis"));
      attributes.set("axis", static_cast<std::int64_t>(at - permutation_.begin()));
    }
    return seen_[x.id()] = x.graph().append_one(x.node().op, operands, std::move(attributes));
  }
  // With the axes that broadcasting would add.
  Value aligned(Value x) const {
    Shape shape = x.shape();
    while (shape.rank() < rank()) shape = shape.inserted(0, 1);
    return reshape(x, shape);
  }

  const Ints& permutation_;
  std::map<ValueId, Value> seen_;  // with the moved value, once it is made
  int n_cancelled_ = 0;
};

}  // namespace

Value cancel_transposes(Value x, const Ints& permutation) { return Cancelled(permutation).run(x); }

}  // namespace unroll
