// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/common/class_metrics.h"

#include <vector>

#include "unroll/ir/ops.h"

namespace unroll {

Value add_class_metrics(TaskGraph& task, Value predicted, Value labels, const ClassSet& classes) {
  const Shape flat{labels.shape().elements()};
  predicted = reshape(predicted, flat);
  labels = reshape(labels, flat);
  Graph& graph = labels.graph();
  const Value ones = filled(graph, {DType::f32, flat}, 1), none = filled(graph, {DType::i32, flat}, -1);
  const Value real = logical_and(less_equal(scalar_like(labels, 0), labels),
                                 less(labels, scalar_like(labels, static_cast<double>(classes.size))));
  const Value hit = logical_and(real, equal(predicted, labels));
  const Value count = sum(cast(real, DType::f32));
  task.metrics.push_back({"accuracy", sum(cast(hit, DType::f32)), count});

  // The index -1 adds nothing.
  const auto per_class = [&](Value where, Value ids) {
    return scatter_add(select(where, ids, none), ones, classes.size);
  };
  Tensor counted = Tensor::filled({DType::f32, {classes.size}}, 1);
  if (classes.outside >= 0) counted.set(classes.outside, 0);
  const Value mask = constant(graph, std::move(counted));
  const Value twice_hits = per_class(hit, labels) * mask * 2.0;
  const Value both = (per_class(real, predicted) + per_class(real, labels)) * mask;
  task.metrics.push_back({"f1_micro", sum(twice_hits), sum(both)});
  task.metrics.push_back({"f1_macro", twice_hits, both});
  if (classes.size <= k_most_confused_classes) {
    const Value pair = labels * scalar_like(labels, static_cast<double>(classes.size)) + predicted;
    const Value pairs = scatter_add(select(real, pair, none), ones, classes.size * classes.size);
    task.counts.emplace_back("confusion", reshape(pairs, {classes.size, classes.size}));
  }
  return count;
}

std::map<std::string, double> class_metrics(std::span<const std::int32_t> predicted,
                                            std::span<const std::int32_t> labels, const ClassSet& classes) {
  std::vector<double> twice_hits(classes.size), both(twice_hits.size());
  double count = 0, hits = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0 || labels[i] >= classes.size) continue;
    const bool hit = predicted[i] == labels[i];
    ++count;
    hits += hit;
    if (labels[i] != classes.outside) {
      ++both[labels[i]];
      twice_hits[labels[i]] += hit ? 2 : 0;
    }
    if (predicted[i] != classes.outside && predicted[i] >= 0 && predicted[i] < classes.size) ++both[predicted[i]];
  }
  std::map<std::string, double> metrics;
  if (count > 0) metrics["accuracy"] = hits / count;
  double all_hits = 0, all = 0, sum = 0, n = 0;
  for (std::size_t k = 0; k < both.size(); ++k) {
    if (both[k] == 0) continue;
    all_hits += twice_hits[k];
    all += both[k];
    sum += twice_hits[k] / both[k];
    ++n;
  }
  if (n > 0) metrics["f1_micro"] = all_hits / all, metrics["f1_macro"] = sum / n;
  return metrics;
}

}  // namespace unroll
