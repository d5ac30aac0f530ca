// SPDX-License-Identifier: Apache-2.0
// Class probabilities for rows of numbers, read as sequences.
#include "core/tasks/common/example_parts.h"
#include "core/tasks/common/task_parts.h"
#include "core/tasks/table/row_predictor.h"
#include "unroll/ir/ops.h"

namespace unroll {

namespace {

constexpr std::string_view k_classifier = "Classifier";

}  // namespace

struct Classifier::State {
  State(const Metadata& metadata, const TensorMap& parameters, BackendHandle backend)
      : labels(class_names_of(metadata)), rows(metadata, parameters, backend, k_classifier,
                                          std::ssize(labels), softmax) {}
  std::vector<std::string> labels;
  RowPredictor rows;
};

Classifier::Classifier(const Metadata& metadata, const TensorMap& parameters, BackendHandle backend) {
  require_task(metadata, "classify", k_classifier);
  state_ = hidden_state<State>(metadata, parameters, backend);
}

const std::vector<std::string>& Classifier::labels() const { return state_->labels; }
std::int64_t Classifier::steps() const { return state_->rows.features().steps; }
std::int64_t Classifier::width() const { return state_->rows.features().width(); }

std::vector<std::vector<ScoredLabel>> Classifier::predict(std::span<const Row> rows, std::int64_t top_k) {
  std::vector<std::vector<ScoredLabel>> results(rows.size());
  state_->rows.predict(rows, [&](std::size_t row, std::span<const float> probabilities) {
    results[row] = ranked(probabilities, state_->labels, top_k);
  });
  return results;
}

namespace {

std::vector<Prediction> classify_inputs(Classifier& classifier, std::span<const PredictInput> inputs,
                                        const PredictOptions& options) {
  std::vector<Prediction> list;
  for (std::vector<ScoredLabel>& labels : classifier.predict(rows_in(inputs), options.top_k))
    list.emplace_back(std::move(labels));
  return list;
}

void classify_examples(const ExampleRequest& r, Examples& examples) {
  const auto* task = dynamic_cast<const SplitTableRows*>(&r.task);
  if (!task) return;
  Classifier classifier(r.metadata, r.parameters, r.backend);
  ConfusionCount confusion(classifier.labels());
  Chosen<ClassExample> chosen(r.most);
  std::vector<Classifier::Row> rows;
  std::vector<ClassExample> batch;
  const auto predict = [&] {
    const auto results = classifier.predict(rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      ClassExample& e = batch[i];
      e.predicted = results[i][0].label;
      e.probability = results[i][0].probability;
      confusion.add(e.truth, e.predicted);
      const bool right = e.truth == e.predicted;
      chosen.add(std::move(e), right);
    }
    rows.clear();
    batch.clear();
  };
  task->for_each_row(examples.split, [&](std::span<const double> values, std::span<const std::string> targets,
                                         std::string_view record) {
    rows.emplace_back(values.begin(), values.end());
    batch.push_back({first_csv_row(record), target_text(targets[0]), "", 0, {}});
    if (rows.size() == k_example_batch) predict();
  });
  predict();
  examples.classes = chosen.take();
  examples.are_rows = true;
  examples.confusion = std::move(confusion.result);
}

}  // namespace

const PredictionRow classify_prediction_row{
    "rows of numbers -> lists of (label, probability)",
    PredictorWith<Classifier, InputForm::numbers, classify_inputs>::make, classify_examples};

}  // namespace unroll
