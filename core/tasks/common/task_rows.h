// SPDX-License-Identifier: Apache-2.0
// The table rows of a task: its network, for trained models, and its predictor. They are in network.cc and predictor.cc
// of the task's folder; UNROLL_TASKS (unroll/tasks/tasks.h) lists the tasks.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "unroll/model/stream.h"
#include "unroll/tasks/examples.h"
#include "unroll/tasks/inference.h"
#include "unroll/tasks/predict.h"
#include "unroll/tasks/tasks.h"

namespace unroll {

struct NetworkRow {
  Inference (*inference)(const Metadata&);
  StreamModel (*stream)(const Metadata&) = nullptr;  // null: the network needs the whole sequence
};

struct ExampleRequest {
  const Task& task;
  const Metadata& metadata;
  const TensorMap& parameters;
  BackendHandle backend;
  std::size_t most;
};
struct PredictionRow {
  const char* form;  // "texts -> lists of (label, probability)"
  std::unique_ptr<Predictor> (*predictor)(const Metadata&, const TensorMap&, BackendHandle);
  // Fills in the examples of the task on `Examples::split`; null: the task has none.
  void (*examples)(const ExampleRequest&, Examples&) = nullptr;
};

#define UNROLL_DECLARE_TASK(name, Title, word) \
  extern const NetworkRow name##_network_row;  \
  extern const PredictionRow name##_prediction_row;
UNROLL_TASKS(UNROLL_DECLARE_TASK)
#undef UNROLL_DECLARE_TASK

// Implements `predict` with the model class of the task, such as a Labeler.
template <class Model, InputForm form,
          std::vector<Prediction> (*predict_with)(Model&, std::span<const PredictInput>, const PredictOptions&)>
class PredictorWith : public Predictor {
 public:
  PredictorWith(const Metadata& metadata, const TensorMap& parameters, BackendHandle backend)
      : model_(metadata, parameters, backend) {}
  InputForm reads() const override { return form; }
  std::vector<Prediction> predict(std::span<const PredictInput> inputs, const PredictOptions& options) override {
    return predict_with(model_, inputs, options);
  }
  static std::unique_ptr<Predictor> make(const Metadata& metadata, const TensorMap& parameters, BackendHandle backend) {
    return std::make_unique<PredictorWith>(metadata, parameters, backend);
  }

 private:
  Model model_;
};

// Return the inputs as texts, or as numbers. Throw Error(usage) with the index of another input.
std::vector<std::string> texts_in(std::span<const PredictInput> inputs);
std::vector<std::vector<double>> rows_in(std::span<const PredictInput> inputs);

// Returns a member of each result as its prediction: labels, a text.
template <class Result, class Part>
std::vector<Prediction> predictions_of(std::vector<Result> results, Part Result::*part) {
  std::vector<Prediction> list;
  for (Result& result : results) list.emplace_back(std::move(result.*part));
  return list;
}

}  // namespace unroll
