// SPDX-License-Identifier: Apache-2.0
#include "unroll/tasks/predict.h"

#include <string_view>
#include <utility>

#include "core/support/text/in_quotes.h"
#include "core/tasks/common/task_parts.h"
#include "core/tasks/common/task_rows.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

const PredictionRow* prediction_row(std::string_view task) {
#define UNROLL_TASK_ROW(name, Title, word) {#name, &name##_prediction_row},
  static constexpr std::pair<std::string_view, const PredictionRow*> k_rows[] = {UNROLL_TASKS(UNROLL_TASK_ROW)};
#undef UNROLL_TASK_ROW
  for (const auto& [name, row] : k_rows)
    if (name == task) return row;
  return nullptr;
}

template <class Form>
std::vector<Form> inputs_as(std::span<const PredictInput> inputs, const char* form) {
  std::vector<Form> list;
  for (const PredictInput& input : inputs) {
    const auto* one = std::get_if<Form>(&input);
    if (!one)
      throw Error(ErrorKind::usage, "Predictor", "input " + std::to_string(list.size()) + ": expected " + form);
    list.push_back(*one);
  }
  return list;
}

}  // namespace

std::vector<std::string> texts_in(std::span<const PredictInput> inputs) {
  return inputs_as<std::string>(inputs, "a text");
}
std::vector<std::vector<double>> rows_in(std::span<const PredictInput> inputs) {
  return inputs_as<std::vector<double>>(inputs, "numbers");
}

std::unique_ptr<Predictor> make_predictor(const Metadata& metadata, const TensorMap& parameters,
                                          BackendHandle backend) {
  const std::string& task = get_text(metadata, "task");
  if (const PredictionRow* row = prediction_row(task)) return row->predictor(metadata, parameters, backend);
  throw Error(ErrorKind::input_file, "model", "unknown task " + in_quotes(task));
}

std::vector<std::pair<std::string, std::string>> prediction_forms() {
#define UNROLL_TASK_FORM(name, Title, word) {word, name##_prediction_row.form},
  return {UNROLL_TASKS(UNROLL_TASK_FORM)};
#undef UNROLL_TASK_FORM
}

Examples examples_of(const Task& task, const Metadata& metadata, const TensorMap& parameters, BackendHandle backend,
                     Split split, std::size_t most) {
  Examples examples;
  examples.task = get_text(metadata, "task");
  examples.split = split;
  const PredictionRow* row = prediction_row(examples.task);
  if (row && row->examples) row->examples({task, metadata, parameters, backend, most}, examples);
  return examples;
}

}  // namespace unroll
