// SPDX-License-Identifier: Apache-2.0
// Parts shared by the tasks in training: splits of the data, carried states and the loss.
#include <algorithm>
#include <cmath>

#include "core/data/batch/shuffle.h"
#include "core/data/file/held_text.h"
#include "core/support/tensor_role.h"
#include "core/support/text/counted.h"
#include "core/support/text/exact_text.h"
#include "core/tasks/common/task_parts.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

std::vector<CarriedState> carried_states(Scope& scope, const RecurrentModelOptions& options, std::int64_t batch,
                                         std::int64_t inputs) {
  std::vector<CarriedState> states;
  for (const Shape& shape : recurrent_state_shapes(options, batch, inputs)) {
    const std::string name = std::to_string(states.size());
    const Type type{scope.dtype(), shape};
    states.push_back({name, type, scope.graph().input(state_name(name), type), {}});
  }
  return states;
}

std::int64_t part_of(std::int64_t n, double part, const char* key) {
  if (!(part >= 0 && part < 1))
    throw Error(ErrorKind::usage, "task", std::string(key) + " must be in [0,1); got " + exact_text(part));
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(n) * part));
}

RecordFile records_of(RecordFile file, const SplitSources& splits) {
  for (const SplitSource* source : {&splits.validation, &splits.test})
    if (source->file) file.append(source->file, source->name);
  return file;
}

SplitRows split_rows(const RecordFile& file, const SplitSources& splits) {
  const SplitSource &validation = splits.validation, &test = splits.test;
  const std::vector<std::int64_t> first = file.records_of(0);
  const auto n = std::ssize(first);
  const std::int64_t n_test = test.file ? 0 : part_of(n, test.share, "test");
  const std::int64_t n_validation = validation.file ? 0 : part_of(n, validation.share, "validation");
  if (n_test + n_validation >= n)
    throw Error(ErrorKind::usage, "task",
                "no rows are left for training: of " + counted(n, "row") + ", data.validation takes " +
                    std::to_string(n_validation) + " and data.test " + std::to_string(n_test),
                "Lower data.validation or data.test, or use more data");
  const std::vector<std::int64_t> order = permutation(n, splits.seed, 0);
  const auto validation_begin = order.begin() + n_test, train_begin = validation_begin + n_validation;
  SplitRows rows{std::vector(train_begin, order.end()), std::vector(validation_begin, train_begin),
                 std::vector(order.begin(), validation_begin)};
  for (auto& part : rows) std::sort(part.begin(), part.end());
  if (validation.file) rows[1] = file.records_of(1);
  if (test.file) rows[2] = file.records_of(file.n_files() - 1);
  return rows;
}

Value smoothed_cross_entropy(const Scope& scope, Value logits, Value labels, double smoothing) {
  const Value loss = softmax_cross_entropy(logits, labels);
  if (!scope.training() || smoothing == 0) return loss;
  const int last = logits.rank() - 1;
  const std::int64_t classes = logits.shape()[last];
  const Value real = logical_and(less_equal(scalar_like(labels, 0), labels),
                                 less(labels, scalar_like(labels, static_cast<double>(classes))));
  const Value read = select(reshape(real, labels.shape().inserted(last, 1)), logits, scalar_like(logits, 0));
  const Value even = reduce_sum(log_softmax(read), {last}) / static_cast<double>(-classes);
  return loss * (1 - smoothing) + select(real, even * smoothing, scalar_like(even, 0));
}

DataSource::DataSource(std::string_view text) : file(std::make_shared<HeldText>(text)), in_memory(true) {}

SplitSource split_from_text(std::string text, std::string name) {
  return {std::make_shared<OwnedText>(std::move(text)), std::move(name)};
}

}  // namespace unroll
