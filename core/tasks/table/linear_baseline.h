// SPDX-License-Identifier: Apache-2.0
// Linear models of whole rows, beside which a trained network is judged. Shapes: N rows, F features, K outputs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unroll/train/trainer.h"

namespace unroll {

struct LinearAnswers {
  std::vector<double> answers;  // [N,K]
  std::vector<double> targets;  // [N,K]; of classes [N], their ids
};
// Returns the answers for the rows of `split`, batch by batch, of a model that is fitted to the training set: of
// logistic regression the logits of K classes if `n_classes` is given, else of ridge regression the K targets. Features
// are x [T,B,I] of a batch, standardized. The penalty is that of one row, as in scikit-learn's C = 1 and alpha = 1.
// Large training sets are thinned evenly, to about a second of work. Empty without a training set.
LinearAnswers linear_answers(const Task& task, Split split, std::int64_t n_classes = 0);
// Returns a note for Task::notes() if the training set is thinned, else none.
std::vector<std::string> linear_notes(const Task& task, const std::string& name, std::int64_t n_classes = 0);

}  // namespace unroll
