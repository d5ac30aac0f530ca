// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/random_grower.h"

#include <algorithm>
#include <numeric>

namespace unroll::testing {

namespace {

constexpr std::int64_t k_most_elements = 4096;  // of one value

}  // namespace

Grower::Grower(Graph& graph, DType dtype, Random& random, std::map<std::string, Range>* ranges)
    : graph_(graph), dtype_(dtype), random_(random), ranges_(ranges), largest_(random.chance(0.1) ? 40 : 6) {}

std::int64_t Grower::size() {
  if (random_.chance(0.02)) return 0;
  return random_.chance(0.15) ? 1 : random_.from(1, largest_);
}

Shape Grower::shape(int rank) {
  Ints dims;
  for (int i = 0; i < rank; ++i) dims.push_back(size());
  return Shape(dims);
}

// A new input; in a body, or sometimes, a constant.
Value Grower::fresh(Type type, Range range) {
  if (ranges_ && random_.chance(0.75)) {
    const std::string name = "in" + std::to_string(graph_.inputs().size());
    (*ranges_)[name] = range;
    return graph_.input(name, type);
  }
  Tensor t(type);
  for (std::int64_t i = 0; i < t.elements(); ++i) {
    const double u = static_cast<double>(random_.below(1024)) / 1024;  // exact in f32
    const double value = range.low + u * (range.high - range.low);
    t.set(i, type.dtype == DType::b8 ? u < 0.5
             : is_float(type.dtype)  ? static_cast<double>(static_cast<float>(value))
                                     : std::floor(value));
  }
  return constant(graph_, std::move(t));
}

void Grower::add_first_inputs() {
  const std::int64_t n = random_.from(1, 3);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::string name = "in" + std::to_string(graph_.inputs().size());
    (*ranges_)[name] = {};
    add(graph_.input(name, {dtype_, shape(static_cast<int>(random_.from(1, 3)))}), true);
  }
}

Grower::Entry* Grower::pick(const Condition& fits) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < pool_.size(); ++i)
    if (fits(pool_[i])) found.push_back(i);
  if (found.empty()) return nullptr;
  // Half of the time one of the latest three, so that graphs become deep as well as wide.
  const auto n = static_cast<std::int64_t>(found.size());
  const std::int64_t at = random_.chance(0.5) ? n - 1 - random_.below(std::min<std::int64_t>(n, 3)) : random_.below(n);
  Entry& entry = pool_[found[static_cast<std::size_t>(at)]];
  entry.used = true;
  return &entry;
}

Grower::Entry* Grower::pick_float(int least_rank, int most_rank) {
  return pick([&](const Entry& e) {
    return is_float(e.value.dtype()) && e.value.rank() >= least_rank && e.value.rank() <= most_rank;
  });
}

void Grower::keep(Value value, bool exact) {
  if (value.shape().elements() <= k_most_elements) add(value, exact);
}

Value Grower::of_type(const Type& type, Value otherwise) const {
  for (std::size_t i = pool_.size(); i-- > 0;)
    if (pool_[i].value.type() == type) return pool_[i].value;
  return otherwise;
}

void Grower::grow(int steps, bool with_scan) {
  struct Row {
    int weight;
    void (Grower::*step)();
  };
  static const Row rows[] = {
      {18, &Grower::grow_unary},   {20, &Grower::grow_binary}, {3, &Grower::grow_compare},   {3, &Grower::grow_select},
      {2, &Grower::grow_whole},    {5, &Grower::grow_reshape}, {5, &Grower::grow_transpose}, {5, &Grower::grow_slice},
      {3, &Grower::grow_pad},      {4, &Grower::grow_concat},  {3, &Grower::grow_broadcast}, {10, &Grower::grow_matmul},
      {6, &Grower::grow_reduce},   {1, &Grower::grow_argmax},  {3, &Grower::grow_gather},    {2, &Grower::grow_scatter},
      {2, &Grower::grow_random},   {5, &Grower::grow_composite},
  };
  const int total =
      std::accumulate(std::begin(rows), std::end(rows), 0, [](int sum, const Row& row) { return sum + row.weight; });
  const std::int64_t scan_at = with_scan ? random_.below(steps) : -1;
  for (std::int64_t i = 0; i < steps; ++i) {
    if (i == scan_at || (with_scan && random_.chance(0.05))) {
      grow_scan();
      continue;
    }
    std::int64_t at = random_.below(total);
    const Row* row = rows;
    while (at >= row->weight) at -= (row++)->weight;
    (this->*row->step)();
  }
}

}  // namespace unroll::testing
