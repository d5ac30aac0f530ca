// SPDX-License-Identifier: Apache-2.0
// Predictions of trained models. Each class takes the metadata and parameters of a checkpoint, or of a task and its
// trainer, and a backend. Constructors throw Error(usage) when the model is of another task and Error(input_file) when
// metadata and parameters do not match.
//
// `predict` takes many inputs and returns one result per input, in the same order. Inputs of similar length run
// together in one batch; a result equals that of the input alone, within rounding. One program is compiled per padded
// length and batch size, and the last used programs are kept. An empty input has an empty result. An input that is too
// long throws Error(usage) with its index in the span; `check` reports such inputs in advance.
//
// `Predictor` predicts with a model of any task. The task classes (unroll/tasks/NAME.h) return more details of each
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
  std::int64_t top_k = 1;   // number of labels with probabilities; 0: all
  std::int64_t steps = 0;   // of a forecast; 0: the horizon of the model
  DecodeOptions decode = {};  // for generated texts
};

// The inputs of a model: texts; texts or lists of their tokens; numbers.
enum class InputForm : std::uint8_t { text, tokens, numbers };

class UNROLL_API Predictor {
 public:
  virtual ~Predictor() = default;
  virtual InputForm reads() const = 0;
  // Returns one prediction per input. Throws Error(usage) on inputs of another form, and as the task's class does.
  virtual std::vector<Prediction> predict(std::span<const PredictInput> inputs, const PredictOptions& options = {}) = 0;
};
// Creates the predictor for the task in the metadata. Throws Error(input_file) when the task is unknown.
UNROLL_API std::unique_ptr<Predictor> make_predictor(const Metadata& metadata, const TensorMap& parameters,
                                                     BackendHandle backend);

// Returns the input and output forms by task: "classify" and "rows of numbers -> lists of (label, probability)".
UNROLL_API std::vector<std::pair<std::string, std::string>> prediction_forms();

}  // namespace unroll
