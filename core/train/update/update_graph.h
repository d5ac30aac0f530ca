// SPDX-License-Identifier: Apache-2.0
// The graphs of a training update and of an evaluation batch. An input with an output of the same name is a buffer: it
// stays on the device, and the run overwrites it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/support/tensor_role.h"
#include "core/train/update/built_task.h"
#include "core/train/update/optimizer.h"
#include "unroll/train/trainer.h"

namespace unroll {

// The part of an update that a graph computes. `whole`: all of it, with one batch on one rank. Otherwise `accumulate`
// computes the gradient of one micro-batch, and `step` applies the sum of all. Several ranks add up theirs in the graph
// of each rank's last micro-batch, `last`, so that sums travel while the rest of the gradient is computed. A rank
// without micro-batches does so in `exchange`.
enum class Phase : std::uint8_t { whole, accumulate, last, exchange, step };

// The micro-batches of an update, and this rank among those that share them (sum_tree.h).
struct UpdateShare {
  std::int64_t micro_batches = 1;  // of all ranks
  int rank = 0, ranks = 1;
};

// The settings of every update of a run.
struct UpdateConfig {
  explicit UpdateConfig(const TrainerOptions& options)
      : optimizer(options.optimizer), optimizer_options(options.optimizer), groups(options.groups), clip(options.clip),
        averages(options.average.kind != Average::none), scales(options.precision == Precision::f16),
        loss_scale(options.loss_scale) {}
  Optimizer optimizer;
  OptimizerOptions optimizer_options;
  std::vector<ParameterGroup> groups;
  ClipOptions clip;
  bool averages;
  bool scales;  // the loss
  LossScaleOptions loss_scale;
  // [trained parameter] the vector in which its gradient travels, in the order in which gradients are known; empty: all
  // in one.
  std::vector<int> buckets = {};
};

// Inputs: the batch, k_control (control.h), the parameters, and the buffers: "optimizer.<slot>.<parameter>",
// "average.<parameter>", "state.<name>", "accumulated.<i>.<part>", and, with M parts of metrics in all,
//   k_totals      f32[4 + 2 M]: sums over the good updates of loss * weight, weight, gradient norm, 1, then total and
//                 count of each metric
//   k_bad         f32[4]: skipped updates, how many of the last ones without a break, the longest such run, and
//                 the last one
//   k_loss_scale, k_scale_age f32[]: the scale, and updates since it changed, with Precision::f16
// Sums over micro-batches consist of parts, "gradient.<bucket>.<dtype>" [N]: gradient times weight of each parameter of
// this bucket and dtype, in their order. Before them, gradient.0.f32 has the sums loss * weight, weight, total, count
// of each metric, and whether a rank was asked to stop. A penalty with a weight of its own (Scope::add_penalty) has
// parts "penalty.<i>.<dtype>", and its value * weight and weight follow the metrics.
//   accumulate  has the outputs "accumulated.0.<part>" of its micro-batch, and "accumulated.0.sums", the sums alone
//   last        the same, and reads the partial sums before it in "accumulated.<i + 1>.<part>"; its outputs
//               "accumulated.total.<part>" are the sums of all ranks
//   exchange    has only the totals. The input "accumulated.0.<part>" is ignored.
//   step        reads the totals; with one rank, the partial sums "accumulated.<i>.<part>", the last micro-batch not
//               yet added. With several ranks, its output k_asked f32[1] counts the micro-batches of ranks that were
//               asked to stop.
struct TrainingGraph {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  std::vector<ParameterSpec> parameters;
  std::vector<NamedType> buffers;  // all but the parameters
  std::vector<MetricLayout> metrics;
  std::vector<NamedType> parts;    // of sums over micro-batches, in the order in which ranks add them
};
inline constexpr const char* k_loss_scale = "trainer.loss_scale";
inline constexpr const char* k_scale_age = "trainer.loss_scale_age";
inline constexpr const char* k_totals = "trainer.totals";
inline constexpr const char* k_bad = "trainer.bad";
inline constexpr const char* k_sums_part = "sums";
inline std::string accumulated_name(std::size_t i, const std::string& part) {
  return name_in_role(TensorRole::accumulated, std::to_string(i) + "." + part);
}
inline std::string total_name(const std::string& part) {
  return name_in_role(TensorRole::accumulated, "total." + part);
}
inline constexpr const char* k_asked = "accumulated.asked";
inline constexpr std::size_t k_n_fixed_totals = 4;

// forward -> loss -> gradients -> norm -> clip -> optimizer -> average. An update whose loss or gradient norm is not
// finite leaves parameters, slots, averages and states as they were. Over several batches the loss is the mean by
// weight, so that the gradient is that of one batch that holds them all; a state then moves on where the loss of its
// own batch is finite.
TrainingGraph build_update(const Task& task, const Batch& like, const UpdateConfig& config, Phase phase,
                           const UpdateShare& share = {});
// UpdateConfig::buckets for several ranks: gradients that are known before another loop of the gradient begins travel
// while it runs.
std::vector<int> gradient_buckets(const Task& task, const Batch& like, const UpdateConfig& config);

// Training statistics of the update that `build_update(..., phase)` would make: the same inputs, and nothing is
// replaced. Output k_statistics f32[2 P + 2 L]: for each trained parameter, the norm of its gradient before clipping,
// and the norm of its change divided by its own norm; for each recurrent loop, the shares of saturated activations and
// of dead units (activation_counts.h). `phase` is whole or step.
struct StatisticsGraph {
  TrainingGraph training = {};
  std::vector<std::string> parameters;  // P, trained ones
  std::vector<std::string> loops = {};  // L
};
inline constexpr const char* k_statistics = "statistics";
StatisticsGraph build_statistics(const Task& task, const Batch& like, const UpdateConfig& config, Phase phase,
                                 const UpdateShare& share = {});

}  // namespace unroll
