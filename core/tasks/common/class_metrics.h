// SPDX-License-Identifier: Apache-2.0
// Metrics of predicted classes: accuracy, f1_micro, f1_macro. Graphs add up counts over batches; baselines count on the
// host. F1 of a class is 2 hits / (predicted + actual). The macro F1 is the mean over the classes that occur in either.
// The micro F1 uses the total counts of all classes (van Rijsbergen 1979; as scikit-learn).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "unroll/train/trainer.h"

namespace unroll {

struct ClassSet {
  std::int64_t size = 0;      // K
  std::int64_t outside = -1;  // a class outside F1, such as the label "nothing here"; -1: none
};

// Maximum number of classes for a confusion matrix of K^2 counts in an evaluation.
inline constexpr std::int64_t k_most_confused_classes = 1024;

// Adds the metrics. predicted and labels are i32 of one shape; a label outside [0, K) is padding and does not count.
// Returns the number of other labels, a float scalar.
Value add_class_metrics(TaskGraph& task, Value predicted, Value labels, const ClassSet& classes);

std::map<std::string, double> class_metrics(std::span<const std::int32_t> predicted,
                                            std::span<const std::int32_t> labels, const ClassSet& classes);

}  // namespace unroll
