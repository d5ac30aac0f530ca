// SPDX-License-Identifier: Apache-2.0
// The model and the loss of a task in a graph, before gradients.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unroll/train/task.h"

namespace unroll {

struct MetricLayout {
  std::string name;
  MetricForm form = MetricForm::ratio;
  std::int64_t parts = 1;  // elements of total, and of count
  double scale = 1;
  friend bool operator==(const MetricLayout&, const MetricLayout&) = default;
};

// Of the loss, with a weight of its own.
struct LossTerm {
  Value value, weight;
};

struct Built {
  TaskGraph task;
  std::vector<LossTerm> terms = {};
  std::vector<ParameterSpec> parameters = {};
  std::vector<MetricLayout> metrics = {};
};

// In one batch, penalties are part of the loss. `in_parts`: those whose weight differs from batch to batch in another
// way than the loss's are terms of their own.
Built build_task(const Task& task, Graph& graph, const Batch& like, bool training, Value key = {},
                 bool in_parts = false);
// An input that nothing sets would be zeros in every update.
void require_sources(const Graph& graph, const TaskGraph& task, const Batch& like, const Scope& scope);

// Scalars and vectors side by side, f32 [n].
Value row_of(const std::vector<Value>& values);
// loss * weight, weight, then total and count of each metric, then value * weight and weight of each further term.
Value sums_of(const Built& built);

}  // namespace unroll
