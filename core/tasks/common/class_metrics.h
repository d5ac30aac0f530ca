// SPDX-License-Identifier: Apache-2.0
// Metrics of predicted classes: accuracy, f1_micro, f1_macro. In a graph as counts that add up over batches, and on the
// host for baselines. F1 of a class is 2 hits / (predicted + actual); the macro one is the mean over the classes that
// occur in either, the micro one takes the counts of all classes together (van Rijsbergen 1979; as scikit-learn).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "unroll/train/trainer.h"

namespace unroll {

struct ClassSet {
  std::int64_t size = 0;      // K
  std::int64_t outside = -1;  // a class that F1 leaves out, as what marks "nothing here"; -1: none
};

// Up to so many classes an evaluation counts labels by predictions, K^2 numbers.
inline constexpr std::int64_t k_most_confused_classes = 1024;

// predicted and labels i32 of one shape; a label outside [0, K) is padding and counts nowhere. Returns how many are
// not, a float scalar.
Value add_class_metrics(TaskGraph& task, Value predicted, Value labels, const ClassSet& classes);

std::map<std::string, double> class_metrics(std::span<const std::int32_t> predicted,
                                            std::span<const std::int32_t> labels, const ClassSet& classes);

}  // namespace unroll
