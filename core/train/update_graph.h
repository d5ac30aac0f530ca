// SPDX-License-Identifier: Apache-2.0
// The graph of one training update, and of one evaluation batch. An input that an output of the same name replaces is
// resident: it stays in a device buffer that the run overwrites.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/train/optimizer.h"
#include "unroll/trainer.h"

namespace unroll {

struct NamedType {
  std::string name;
  Type type;
};

struct MetricLayout {
  std::string name;
  bool root;
};

// Inputs beside batch, parameters and residents: lr f32[], update i32[] (from 1), key i32[3] when something is random.
// Residents: the parameters, "optimizer.<slot>.<parameter>", "state.<name>", and
//   k_totals f32[4 + 2 M]: sums over the good updates of loss * weight, weight, gradient norm, 1, then total and count
//   of
//            each metric
//   k_bad    f32[3]: skipped updates, how many of the last ones without a break, the longest such run
struct TrainingGraph {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  std::vector<ParameterSpec> parameters;
  std::vector<NamedType> residents;  // slots, states, k_totals, k_bad: zero at first
  std::vector<MetricLayout> metrics;
};
inline constexpr const char* k_totals = "trainer.totals";
inline constexpr const char* k_bad = "trainer.bad";
inline constexpr std::size_t k_n_fixed_totals = 4;

// forward -> loss -> gradients -> norm -> clip -> optimiser; an update whose loss or gradient norm is not finite
// leaves every resident but the counters as it was.
TrainingGraph build_update(const Task& task, const Batch& like, const OptimizerRecipe& optimizer, double clip_norm);

// The forward pass without dropout. Output "report" f32[2 + 2 M]: loss * weight, weight, then total and count of each
// metric. Residents are the states.
struct EvaluationGraph {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  std::vector<ParameterSpec> parameters;
  std::vector<NamedType> residents;
  std::vector<MetricLayout> metrics;
};
EvaluationGraph build_evaluation(const Task& task, const Batch& like);

}  // namespace unroll
