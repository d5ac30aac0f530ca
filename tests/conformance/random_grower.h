// SPDX-License-Identifier: Apache-2.0
// Grows a graph value by value from a pool of what is there. All choices depend on shapes and flags only, never on the
// float dtype. Comparisons, argmax, sign and casts to whole numbers only see exact values, so that no branch can be
// taken differently in f32 and f64.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/support/cases.h"
#include "unroll/ir/ops.h"

namespace unroll::testing {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::int64_t below(std::int64_t n) {
    return n <= 1 ? 0 : static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(n));
  }
  std::int64_t from(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }
  bool chance(double p) { return static_cast<double>(engine_() >> 11) * 0x1p-53 < p; }

 private:
  std::mt19937_64 engine_;
};

class Grower {
 public:
  struct Entry {
    Value value;
    bool exact;  // the same number in f32 and f64
    bool used;
  };

  // With `ranges` null this is the body of a scan, which gets constants instead of inputs.
  Grower(Graph& graph, DType dtype, Random& random, std::map<std::string, Range>* ranges);

  void add(Value value, bool exact) { pool_.push_back({value, exact, false}); }
  void add_first_inputs();
  void grow(int steps, bool with_scan);
  const std::vector<Entry>& pool() const { return pool_; }
  // A float value of the type that was grown here, latest first; `otherwise` when there is none.
  Value of_type(const Type& type, Value otherwise) const;

 private:
  // Each appends a few nodes and the result to the pool, or nothing when the pool has no fitting operand.
  void grow_unary();
  void grow_binary();
  void grow_compare();
  void grow_select();
  void grow_whole();
  void grow_reshape();
  void grow_transpose();
  void grow_slice();
  void grow_pad();
  void grow_concat();
  void grow_broadcast();
  void grow_matmul();
  void grow_reduce();
  void grow_argmax();
  void grow_gather();
  void grow_scatter();
  void grow_random();
  void grow_composite();
  void grow_scan();

  using Condition = std::function<bool(const Entry&)>;
  Entry* pick(const Condition& fits);  // marks it used
  Entry* pick_float(int least_rank = 0, int most_rank = Shape::k_max_rank);
  void keep(Value value, bool exact);  // into the pool unless it is too large
  Value fresh(Type type, Range range = {});
  std::int64_t size();
  Shape shape(int rank);
  int axis_of(Value x) { return static_cast<int>(random_.below(x.rank())); }

  Graph& graph_;
  DType dtype_;
  Random& random_;
  std::map<std::string, Range>* ranges_;
  std::vector<Entry> pool_;
  std::int64_t largest_;
};

}  // namespace unroll::testing
