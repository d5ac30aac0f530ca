// SPDX-License-Identifier: Apache-2.0
// Matrix products. Weights that are constants are packed: panels of up to 64 columns, row by row, so that a compiler
// keeps the sums of a panel in registers and reads the weights once, in order.
#include <algorithm>
#include <cmath>

#include "backends/cxx/parts.h"
#include "core/support/formats.h"
#include "unroll/support/error.h"
#include "unroll/support/tensor.h"

namespace unroll::cxx {

namespace {

constexpr Index k_panel = 64, k_few_weights = 4096;  // products with fewer weights keep f32, as on cpu

struct Product {
  Index m, n, k;
  bool transpose_a, transpose_b;
};
Index dim(const Shape& shape, int from_end) { return shape[shape.rank() - from_end]; }

Product product_of(const Graph& graph, const Node& node) {
  const bool ta = node.attributes.get<bool>("transpose_a"), tb = node.attributes.get<bool>("transpose_b");
  const Shape &a = graph.type(node.inputs[0]).shape, &c = node.outputs[0].shape;
  return {dim(c, 2), dim(c, 1), dim(a, ta ? 2 : 1), ta, tb};
}

Index panel_of(Index n) { return std::min(n, k_panel); }

// [panels][K][panel], the columns behind N zero.
std::vector<float> packed(const Tensor& weight, const Product& p) {
  const Index width = panel_of(p.n), panels = (p.n + width - 1) / width;
  std::vector<float> all(panels * p.k * width);
  for (Index k = 0; k < p.k; ++k)
    for (Index n = 0; n < p.n; ++n)
      all[(n / width * p.k + k) * width + n % width] =
          static_cast<float>(weight.at(p.transpose_b ? n * p.k + k : k * p.n + n));
  return all;
}

struct Weights {
  std::string array, scales;  // scales: of int8, one for each column
};

Weights print_weights(Source& source, const Tensor& weight, const Product& p, WeightFormat format) {
  std::vector<float> all = packed(weight, p);
  if (format == WeightFormat::f32) return {source.constants.add<float>(all), {}};
  if (format == WeightFormat::bf16) {
    std::vector<std::uint16_t> halves(all.size());
    std::ranges::transform(all, halves.begin(), [](float w) { return to_bf16(w).bits; });
    return {source.constants.add<std::uint16_t>(halves), {}};
  }
  // The largest weight of a column is 127.
  const Index width = panel_of(p.n);
  std::vector<float> scales(p.n);
  const auto column = [&](std::size_t i) {
    const auto at = static_cast<Index>(i);
    return static_cast<std::size_t>(at / (p.k * width) * width + at % width);
  };
  for (std::size_t i = 0; i < all.size(); ++i)
    if (column(i) < scales.size()) scales[column(i)] = std::max(scales[column(i)], std::fabs(all[i]) / 127);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (column(i) < scales.size() && scales[column(i)] > 0) all[i] = std::nearbyint(all[i] / scales[column(i)]);
  const std::vector<std::int8_t> bytes(all.begin(), all.end());
  return {source.constants.add<std::int8_t>(bytes), source.constants.add<float>(scales)};
}

WeightFormat format_of(const Source& source, const Product& p) {
  return p.k * p.n >= k_few_weights ? source.plan.weights : WeightFormat::f32;
}

}  // namespace

void print_product(Source& source, std::int32_t id) {
  const Node& node = source.graph.node(id);
  const Node& right = source.graph.node(node.inputs[1].node);
  const Type& c = node.outputs[0];
  if (node.inputs.size() > 2 || c.dtype != DType::f32)
    throw Error(ErrorKind::unsupported, "cxx_source", "matmul of " + c.text() + " has no C++ form");
  const Product p = product_of(source.graph, node);
  const auto n = [](Index i) { return std::to_string(i); };
  const Place from = source.place_of(node.inputs[0]), to = source.make(c.dtype, c.shape.elements());
  source.place({id, 0}, to);
  if (right.op == Op::constant && right.outputs[0].shape.rank() == 2 && !p.transpose_a && p.k > 0) {
    const auto& weight = *right.attributes.get<std::shared_ptr<const Tensor>>("value");
    const WeightFormat format = format_of(source, p);
    const Weights weights = print_weights(source, weight, p, format);
    const Index rows = c.shape.elements() / std::max<Index>(p.n, 1);
    const std::string row = rows > 1 ? " + d0 * " : "";
    source.line((rows > 1 ? "for (int d0 = 0; d0 < " + n(rows) + "; ++d0) " : "") + "unroll_product<" + n(p.k) + ", " +
                n(p.n) + ", " + n(panel_of(p.n)) + ">(&" + from.at(n(0)) + (rows > 1 ? row + n(p.k) : "") + ", " +
                weights.array + ", &" + to.at(n(0)) + (rows > 1 ? row + n(p.n) : "") + ");");
    if (format == WeightFormat::int8)
      source.line("for (int e = 0; e < " + n(rows * p.n) + "; ++e) " + to.at("e") + " *= " + weights.scales + "[e % " +
                  n(p.n) + "];");
    return;
  }
  // Batches of both are repeated as NumPy does.
  const Shape batch = c.shape.removed(c.shape.rank() - 1).removed(c.shape.rank() - 2);
  const auto part = [&](const ValueId& value, Index elements) {
    const Shape& shape = source.graph.type(value).shape;
    common::Strides strides =
        common::broadcast_strides(shape.removed(shape.rank() - 1).removed(shape.rank() - 2), batch);
    for (auto& stride : strides) stride *= elements;
    return strides;
  };
  const Place b = source.place_of(node.inputs[1]);
  common::Strides strides = common::dense_strides(batch);
  for (auto& stride : strides) stride *= p.m * p.n;
  source.loops(batch, [&](const std::vector<std::string>& names) {
    source.line("  unroll_matmul<" + n(p.m) + ", " + n(p.n) + ", " + n(p.k) + ", " + n(p.transpose_a) + ", " +
                n(p.transpose_b) + ">(&" + from.at(index_text(names, part(node.inputs[0], p.m * p.k))) + ", &" +
                b.at(index_text(names, part(node.inputs[1], p.k * p.n))) + ", &" + to.at(index_text(names, strides)) +
                ");");
  });
}

std::string product_functions() {
  return R"(inline float unroll_weight(float w) { return w; }
inline float unroll_weight(uint16_t w) { return unroll_from_bf16(w); }
inline float unroll_weight(int8_t w) { return float(w); }
// c [N] = a [K] by w in panels of P columns
template <int K, int N, int P, class W>
inline void unroll_product(const float* a, const W* w, float* c) {
  for (int n = 0; n < N; n += P, w += K * P) {
    float sums[P] = {};
    for (int k = 0; k < K; ++k) {
      const float x = a[k];
      for (int j = 0; j < P; ++j) sums[j] += x * unroll_weight(w[k * P + j]);
    }
    for (int j = 0; j < P && n + j < N; ++j) c[n + j] = sums[j];
  }
}
// c [M, N] = a by b; TA, TB: stored as [K, M], [N, K]
template <int M, int N, int K, bool TA, bool TB>
inline void unroll_matmul(const float* a, const float* b, float* c) {
  for (int m = 0; m < M; ++m) {
    for (int n = 0; n < N; ++n) c[m * N + n] = 0.0f;
    for (int k = 0; k < K; ++k) {
      const float x = a[TA ? k * M + m : m * K + k];
      for (int n = 0; n < N; ++n) c[m * N + n] += x * b[TB ? n * K + k : k * N + n];
    }
  }
}
)";
}

}  // namespace unroll::cxx
