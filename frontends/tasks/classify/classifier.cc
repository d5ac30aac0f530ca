// SPDX-License-Identifier: Apache-2.0
// Classes and their probabilities for rows of numbers, read as sequences.
#include <cmath>

#include "core/support/text/counted.h"
#include "frontends/model/constants.h"
#include "frontends/tasks/classify/features.h"
#include "frontends/tasks/common/pooling.h"
#include "frontends/tasks/common/prediction_batches.h"
#include "frontends/tasks/common/task_parts.h"
#include "unroll/ops.h"

namespace unroll {

namespace {

constexpr std::string_view k_classifier = "Classifier";
constexpr std::int64_t k_most_classes = 65536;

// Models of classes that are numbers do not name them.
std::vector<std::string> labels_of(const Metadata& metadata) {
  std::vector<std::string> labels;
  if (metadata.contains("labels")) {
    labels = get_list(metadata, "labels");
    if (labels.empty()) throw Error(ErrorKind::input_file, "model", "metadata 'labels' is empty");
    return labels;
  }
  const std::int64_t classes = get_integer(metadata, "classes");
  if (classes < 1 || classes > k_most_classes)
    throw Error(ErrorKind::input_file, "model", "metadata 'classes' is " + std::to_string(classes));
  for (std::int64_t k = 0; k < classes; ++k) labels.push_back(std::to_string(k));
  return labels;
}

}  // namespace

struct Classifier::State {
  State(const Metadata& metadata, const TensorMap& parameters, Backend& b)
      : backend(b), model(get_model_options(metadata)),
        pooling(metadata.contains("pooling") ? get_text(metadata, "pooling") : "final"),
        features(Features::of(metadata)), steps(features.steps), width(features.width()),
        labels(labels_of(metadata)), constants(constants_of(parameters)) {
    program(1);  // so that what does not fit together is refused here
  }

  // x f32 [T,B,I] -> probabilities [B,K]
  std::shared_ptr<Program> program(std::int64_t rows) {
    return programs.get(rows, [&] {
      Graph graph;
      Scope scope(graph, /*training=*/false);
      const Value x = graph.input("x", {DType::f32, {steps, rows, width}});
      const auto K = static_cast<std::int64_t>(labels.size());
      graph.output("probabilities", softmax(sequence_answers(scope, x, model, pooling, K)));
      return std::make_shared<Program>(*with_constants(graph, 1, constants, k_classifier), backend);
    });
  }

  void check(const Row& row, std::size_t index) const {
    if (static_cast<std::int64_t>(row.size()) != steps * width)
      refuse_input(k_classifier, index, "expected " + counted(steps, "step") + " of " + counted(width, "value") +
                                     "; got " + counted(row.size(), "value"));
    for (const double value : row) {
      if (std::isnan(value) && features.missing == "error")
        refuse_input(k_classifier, index, "a value is missing; the model was trained with data.missing = \"error\"");
      if (std::isinf(value)) refuse_input(k_classifier, index, "a value is not finite");
    }
  }

  Backend& backend;
  RecurrentModelOptions model;
  std::string pooling;
  Features features;
  std::int64_t steps, width;
  std::vector<std::string> labels;
  Constants constants;
  ProgramCache<std::int64_t> programs;  // by B
};

Classifier::Classifier(const Metadata& metadata, const TensorMap& parameters, Backend& backend) {
  require_task(metadata, "classify", k_classifier);
  state_ = std::make_unique<State>(metadata, parameters, backend);
}
Classifier::~Classifier() = default;
Classifier::Classifier(Classifier&&) noexcept = default;
Classifier& Classifier::operator=(Classifier&&) noexcept = default;

const std::vector<std::string>& Classifier::labels() const { return state_->labels; }
std::int64_t Classifier::steps() const { return state_->steps; }
std::int64_t Classifier::width() const { return state_->width; }

std::vector<std::vector<ScoredLabel>> Classifier::predict(std::span<const Row> rows, std::int64_t top_k) {
  State& s = *state_;
  std::vector<std::size_t> all(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    s.check(rows[i], i);
    all[i] = i;
  }
  std::vector<std::vector<ScoredLabel>> results(rows.size());
  for_each_batch(all, prediction_rows(s.steps * s.width, std::int64_t{1} << 20),
                 [&](std::span<const std::size_t> part, std::int64_t B) {
                   Tensor x(DType::f32, {s.steps, B, s.width});
                   const auto to = x.values<float>();
                   const auto width = static_cast<std::size_t>(s.width);
                   for (std::size_t b = 0; b < part.size(); ++b) {
                     Row row = rows[part[b]];
                     s.features.apply(row);
                     for (std::size_t i = 0; i < row.size(); ++i)
                       to[(i / width * static_cast<std::size_t>(B) + b) * width + i % width] =
                           static_cast<float>(row[i]);
                   }
                   const TensorMap outputs = s.program(B)->run({{"x", std::move(x)}});
                   const auto probabilities = outputs.at("probabilities").values<float>();
                   for (std::size_t b = 0; b < part.size(); ++b)
                     results[part[b]] =
                         ranked(probabilities.subspan(b * s.labels.size(), s.labels.size()), s.labels, top_k);
                 });
  return results;
}

}  // namespace unroll
