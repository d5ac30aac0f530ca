// SPDX-License-Identifier: Apache-2.0
// The network of translate and summarize in f64, to compare its gradients with differences of the loss.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/tasks/decode/attention_network.h"
#include "unroll/autodiff/autodiff.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/run.h"

namespace unroll::testing {

// Two sources of unequal length with words that the vocabulary lacks, and targets that copy them: 7 source numbers or
// 8, 8 target numbers.
struct DoubleNetwork {
  Graph graph;
  Scope scope{graph, /*training=*/true, DType::f64};
  TensorMap feed;

  explicit DoubleNetwork(const AttentionNetwork& n) {
    const auto ids = [&](const char* name, const Shape& shape, const std::vector<std::int32_t>& values) {
      feed.emplace(name, Tensor::from<std::int32_t>(shape, values));
      return graph.input(name, {DType::i32, shape});
    };
    const Value source = ids("source", {5, 2}, {3, 1, 2, 6, 6, 0, 1, 0, 6, 0});  // [S,B]; 6 is unknown, 7 the end
    const Value lengths = ids("lengths", {2}, {5, 2}), before = ids("before", {3, 2}, {7, 7, 6, 2, 1, 7});
    const Value copies = ids("copies", {2, 5}, {3, 2, 8, 1, 8, 1, 8, -2, -2, -2});
    const Value labels = n.reordered(ids("labels", {3, 2}, {8, 2, 1, 7, 7, -1}));
    const AttentionNetwork::Encoded e = n.encode(scope, source, lengths);
    const AttentionNetwork::Written w = n.decode(scope, before, e.states, e.memory);
    const Value p = n.log_probability(w, labels, copies);
    Value nats = select(less_equal(scalar_like(labels, 0), labels), -p, scalar_like(p, 0));
    if (n.coverage) nats = nats + reduce_sum(minimum(w.weights, w.covered), {2});
    const Value loss = sum(nats);
    std::vector<Value> parameters;
    for (const ParameterSpec& spec : scope.parameters()) parameters.push_back(graph.find_input(spec.name));
    const std::vector<Value> gradients = differentiate(loss, parameters);
    graph.output("loss", loss);
    for (std::size_t i = 0; i < gradients.size(); ++i) graph.output("d." + scope.parameters()[i].name, gradients[i]);
    for (auto& [name, tensor] : initialize(scope.parameters(), 5)) feed.emplace(name, tensor);
  }
};

// The largest distance of a gradient from the central difference, of every seventh element of each parameter.
inline double worst_gradient(const AttentionNetwork& n) {
  constexpr double step = 1e-5;
  const auto backend = make_backend("reference");
  DoubleNetwork net(n);
  Program program(net.graph, *backend);
  const TensorMap exact = program.run(net.feed);
  double worst = 0;
  for (const ParameterSpec& p : net.scope.parameters()) {
    const Tensor given = net.feed.at(p.name);
    const Tensor& gradient = exact.at("d." + p.name);
    for (std::int64_t i = 0; i < given.elements(); i += 7) {
      double loss[2];
      for (const int side : {0, 1}) {
        Tensor moved = given;
        moved.set(i, given.at(i) + (side == 0 ? -step : step));
        net.feed.insert_or_assign(p.name, moved);
        loss[side] = program.run(net.feed).at("loss").at(0);
      }
      worst = std::max(worst, std::abs((loss[1] - loss[0]) / (2 * step) - gradient.at(i)));
    }
    net.feed.insert_or_assign(p.name, given);
  }
  return worst;
}
inline constexpr double k_worst_gradient = 1e-8;  // the third derivative times step^2 / 6, and rounding of 1e-15 / step

}  // namespace unroll::testing
