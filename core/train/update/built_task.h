// SPDX-License-Identifier: Apache-2.0
// The model and the loss of a task in a graph without gradients; the graphs of evaluation and prediction.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/support/tensor_role.h"
#include "unroll/train/task.h"

namespace unroll {

struct NamedType {
  std::string name;
  Type type;
  double initial = 0;  // of every element
};

// Adds the tensors that stay in device buffers to a graph: an input that is zero at first, and the output that replaces
// it. A graph that changes nothing has no such outputs.
class GraphBuffers {
 public:
  GraphBuffers(Graph& graph, std::vector<NamedType>& list, bool change = true)
      : graph_(graph), list_(list), change_(change) {}
  Value read(const std::string& name, const Type& type, double initial = 0) {
    list_.push_back({name, type, initial});
    return graph_.input(name, type);
  }
  void write(const std::string& name, Value next) {
    if (change_) graph_.output(name, next);
  }
  void carry(const CarriedState& s, Value next) {  // the task has made the input
    list_.push_back({state_name(s.name), s.type});
    write(state_name(s.name), next);
  }

 private:
  Graph& graph_;
  std::vector<NamedType>& list_;
  bool change_;
};

struct MetricLayout {
  std::string name;
  MetricForm form = MetricForm::ratio;
  std::int64_t parts = 1;  // elements of total, and of count
  double scale = 1;
  friend bool operator==(const MetricLayout&, const MetricLayout&) = default;
};

// A term of the loss with its own weight.
struct LossTerm {
  Value value, weight;
};

struct Built {
  TaskGraph task;
  std::vector<LossTerm> terms = {};
  std::vector<ParameterSpec> parameters = {};
  std::vector<MetricLayout> metrics = {};
};

// In one batch, penalties are part of the loss. With `in_parts`, a penalty whose weight differs from batch to batch in
// another way than the loss's is a term of its own.
Built build_task(const Task& task, Graph& graph, const Batch& like, bool training, Value key = {},
                 bool in_parts = false);
// An input that nothing sets would be zeros in every update.
void require_sources(const Graph& graph, const TaskGraph& task, const Batch& like, const Scope& scope);

// Scalars and vectors side by side, f32 [n].
Value row_of(const std::vector<Value>& values);
// loss * weight, weight, then total and count of each metric, then value * weight and weight of each further term.
Value sums_of(const Built& built);

// The forward pass without dropout. Output "report" f32[2 + 2 M]: loss * weight, weight, then total and count of each
// metric; with `counts` also "count.<name>" of each of the task's counts. The buffers are the states.
struct EvaluationGraph {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  std::vector<ParameterSpec> parameters;
  std::vector<NamedType> buffers;
  std::vector<MetricLayout> metrics;
};
EvaluationGraph build_evaluation(const Task& task, const Batch& like, bool counts = false);
inline constexpr const char* k_count_prefix = "count.";
inline constexpr const char* k_report = "report";
// The same with the task's outputs instead of the report, which needs no loss: output k_output_prefix + name.
inline constexpr const char* k_output_prefix = "trainer.output.";
EvaluationGraph build_prediction(const Task& task, const Batch& like);

}  // namespace unroll
