// SPDX-License-Identifier: Apache-2.0
// Parts shared by the task networks, for inference graphs and streams.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/tasks/common/task_parts.h"
#include "core/tasks/common/task_rows.h"

namespace unroll {

// Axes of a TensorSpec.
inline Axis any(const char* letter) { return {letter, 0}; }
inline Axis fixed(std::int64_t size) { return {{}, size}; }

inline TaskGraph outputs(std::vector<std::pair<std::string, Value>> values) {
  TaskGraph graph;
  graph.outputs = std::move(values);
  return graph;
}

// Appends x -> recurrent layers -> linear, after each step: the layers of sequence_answers with the pooling "final".
CellLayerResult step_answers(Scope& scope, Value x, const RecurrentModelOptions& model, std::span<const Value> states,
                             std::int64_t outputs);

}  // namespace unroll
