// SPDX-License-Identifier: Apache-2.0
// Predictions of trained models. Each class takes the metadata and the parameters of a checkpoint, or those of a task
// and its trainer, and a backend that must outlive it. Constructors throw Error(usage) when the model is of another
// task and Error(input_file) when metadata and parameters do not fit together.
//
// `predict` takes many inputs and returns one result for each, in the same order. Inputs of like length run together; a
// result is that of the input by itself, within rounding. A program is compiled for each padded length and batch size,
// and the last used ones are kept. An empty input has an empty result. An input that is too long throws Error(usage)
// with its index in the span; `check` says beforehand what the model cannot read.
//
// `Predictor` predicts with a model of any task; the classes of the tasks (unroll/tasks/NAME.h) return more about each
// prediction.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "unroll/support/tensor.h"
#include "unroll/tasks/tasks.h"

namespace unroll {

// A line or text, the tokens of a sentence, or numbers: a row of a table, or a history [rows, S].
using PredictInput = std::variant<std::string, std::vector<std::string>, std::vector<double>>;
// A text, a number, a list of labels, labels with probabilities, or an array of numbers.
using Prediction = std::variant<std::string, double, std::vector<std::string>, std::vector<ScoredLabel>, Tensor>;

struct PredictOptions {
  std::int64_t top_k = 1;   // labels with probabilities: how many; 0: all
  std::int64_t steps = 0;   // of a forecast; 0: the horizon of the model
  DecodeOptions decode = {};  // of written texts
};

// What a model predicts from: texts; texts or lists of their tokens; numbers.
enum class InputForm : std::uint8_t { text, tokens, numbers };

class UNROLL_API Predictor {
 public:
  virtual ~Predictor() = default;
  virtual InputForm reads() const = 0;
  // One prediction for each input. Throws Error(usage) on inputs of another form, and as the class of the task does.
  virtual std::vector<Prediction> predict(std::span<const PredictInput> inputs, const PredictOptions& options = {}) = 0;
};
// For the task in the metadata. Throws Error(input_file) when there is no such task.
UNROLL_API std::unique_ptr<Predictor> make_predictor(const Metadata& metadata, const TensorMap& parameters,
                                                     Backend& backend);

// What a predictor reads and returns, by task: "classify" and "rows of numbers -> lists of (label, probability)".
UNROLL_API std::vector<std::pair<std::string, std::string>> prediction_forms();

}  // namespace unroll
