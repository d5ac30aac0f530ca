// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cases.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "unroll/support/error.h"

namespace unroll::testing {

namespace {

// FNV-1a: the same seed from the same words everywhere.
std::uint64_t hash(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h;
}

double unit(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

std::vector<double> special_numbers(DType dtype) {
  using F = std::numeric_limits<float>;
  using I = std::numeric_limits<std::int32_t>;
  if (dtype == DType::i32)
    return {0, 1, -1, 2, -7, 100, I::max(), I::max() - 1.0, I::min(), I::min() + 1.0, 65536, -65537};
  if (dtype == DType::b8) return {0, 1, 1, 0, 1};
  const double tiny = F::denorm_min(), least = F::min(), most = F::max();
  return {0.0,   -0.0,   1.0,  -1.0,  F::infinity(), -F::infinity(), F::quiet_NaN(), tiny, -tiny, least, -least,
          most,  -most,  0.5,  -0.5,  87.0,          -87.0,          89.0,           -104, 1e-3,  -1e-3, 1e-8,
          -1e-8, 20.0,   -20., 9.0,   -9.0,          1e4,            -1e4,           3.25, -2.75, 0.999, 1.001};
}

double draw(const Range& range, std::mt19937_64& random, DType dtype) {
  if (dtype == DType::b8) return random() % 2 == 0 ? 0 : 1;
  if (dtype == DType::i32) return std::floor(range.low + unit(random) * (range.high - range.low + 1));
  if (range.grid > 0) {
    const double steps = std::floor((range.high - range.low) / range.grid);
    return range.phase + range.low + range.grid * std::floor(unit(random) * (steps + 1));
  }
  return range.low + unit(random) * (range.high - range.low);
}

Tensor make_input(const Type& type, const Range& range, std::string_view seed) {
  std::mt19937_64 random(hash(seed));
  Tensor t(type);
  const std::int64_t n = t.elements();
  std::vector<double> values;
  for (std::int64_t i = 0; i < n; ++i) {
    const double even = range.low + (range.high - range.low) * (static_cast<double>(i) + 0.5) / static_cast<double>(n);
    values.push_back(range.distinct ? even : draw(range, random, type.dtype));
  }
  if (range.special) {
    const auto special = special_numbers(type.dtype);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = special[i % special.size()];
  }
  if (range.distinct || range.special) std::shuffle(values.begin(), values.end(), random);
  for (std::int64_t i = 0; i < n; ++i) {
    const double value = values[static_cast<std::size_t>(i)];
    t.set(i, is_float(type.dtype) ? static_cast<double>(static_cast<float>(value)) : value);
  }
  return t;
}

void collect_ops(const Graph& graph, std::set<Op>& ops) {
  for (const Node& node : graph.nodes()) {
    ops.insert(node.op);
    if (node.body) collect_ops(*node.body, ops);
  }
}

}  // namespace

std::shared_ptr<Graph> build_case(const Case& c, DType dtype) {
  auto graph = std::make_shared<Graph>();
  c.build(*graph, dtype);
  if (graph->outputs().empty()) throw Error(ErrorKind::internal, c.name, "the case has no output");
  return graph;
}

TensorMap make_inputs(const Graph& graph, const std::map<std::string, Range>& ranges, std::string_view seed) {
  TensorMap inputs;
  for (const NamedValue& input : graph.inputs()) {
    const auto at = ranges.find(input.name);
    inputs.insert_or_assign(input.name, make_input(graph.type(input.value), at == ranges.end() ? Range{} : at->second,
                                                   std::string(seed) + "/" + input.name));
  }
  return inputs;
}

std::vector<Op> ops_of(const Graph& graph) {
  std::set<Op> ops;
  collect_ops(graph, ops);
  return {ops.begin(), ops.end()};
}

}  // namespace unroll::testing
