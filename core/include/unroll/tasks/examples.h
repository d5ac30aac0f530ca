// SPDX-License-Identifier: Apache-2.0
// Example predictions of a trained model on a split of its data, for reports.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "unroll/tasks/attention.h"
#include "unroll/tasks/shared.h"
#include "unroll/train/trainer.h"

namespace unroll {

// One series over the last values of the split, in the units of the data. Windows do not overlap, so every value is
// predicted once, 1 to `horizon` steps after the last value that the model has read.
struct ForecastExample {
  std::string series;             // the column; "" for the single series of a file without a header
  std::vector<std::string> at;    // of each value: its date, or its row number from 0
  std::vector<double> actual;     // NaN where missing
  std::vector<double> predicted;
  std::vector<std::int64_t> ahead;  // 1 to horizon; 1 begins a window
  std::map<std::string, std::vector<double>> baselines;  // by method
};

struct ClassExample {
  std::string input;  // the text, or the row of the table
  std::string truth, predicted;
  double probability = 0;  // of `predicted`
  TextAttention attention;  // for a model that attends to words
};
// Confusion matrix: the number of predictions of each class for each true class.
struct Confusion {
  std::vector<std::string> labels;
  std::vector<std::int64_t> counts;  // [truth, predicted], K * K
  std::int64_t at(std::size_t truth, std::size_t predicted) const { return counts[truth * labels.size() + predicted]; }
};

struct SentenceExample {
  std::vector<std::string> tokens, truth, predicted;
  std::vector<double> probabilities;  // of `predicted`
};

struct TranslationExample {
  std::string source, target, written;
  double log_probability = 0;  // of `written`, natural logarithm
  WrittenAttention attention;  // of `written` to `source`
};

// Examples of a task. Fields of other tasks are empty.
struct Examples {
  std::string task;  // of the metadata
  Split split = Split::test;
  std::vector<ForecastExample> forecasts;        // one for each series
  std::vector<ClassExample> classes;             // of texts or rows
  bool are_rows = false;                         // the inputs of `classes` are rows of a table
  Confusion confusion;                           // over the whole split; of sentences, over all their tokens
  std::vector<SentenceExample> sentences;        // with labels of their tokens
  std::vector<TranslationExample> translations;  // generated texts with their sources
  std::string prompt, text;                      // a sample that continues the prompt
};

// Returns at most `most` examples (values of each series, tokens of a sample) in data order, half of them wrong if
// there are enough of both kinds. An empty split gives none.
UNROLL_API Examples examples_of(const Task& task, const Metadata& metadata, const TensorMap& parameters,
                                BackendHandle backend, Split split, std::size_t most);

}  // namespace unroll
