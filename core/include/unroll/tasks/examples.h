// SPDX-License-Identifier: Apache-2.0
// Examples of what a trained model does on a split of its data: what a report draws and lists.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "unroll/tasks/attention.h"
#include "unroll/tasks/shared.h"
#include "unroll/train/trainer.h"

namespace unroll {

// One series over the last values of the split, in its own units. Windows follow each other without overlap, so that
// every value is predicted once: 1 to `horizon` steps after the last value that the model has read.
struct ForecastExample {
  std::string series;             // the column; "" for the only one of a file without a header
  std::vector<std::string> at;    // of each value: its date, or its row counted from 0
  std::vector<double> actual;     // NaN where it is missing
  std::vector<double> predicted;
  std::vector<std::int64_t> ahead;  // 1 to horizon; 1 begins a window
  std::map<std::string, std::vector<double>> baselines;  // by method
};

struct ClassExample {
  std::string input;  // the text, or the row of the table
  std::string truth, predicted;
  double probability = 0;  // of `predicted`
  TextAttention attention;  // of a model that attends to words
};
// How often each class was taken for each.
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

// What fits the task is filled in, the rest is empty.
struct Examples {
  std::string task;  // of the metadata
  Split split = Split::test;
  std::vector<ForecastExample> forecasts;        // one for each series
  std::vector<ClassExample> classes;             // of texts or rows
  bool are_rows = false;                         // the inputs of `classes` are rows of a table
  Confusion confusion;                           // of the whole split; of sentences, of all its tokens
  std::vector<SentenceExample> sentences;        // with labels for their tokens
  std::vector<TranslationExample> translations;  // texts written for texts
  std::string prompt, text;                      // a sample that follows the prompt
};

// At most `most` examples (values of each series, tokens of a sample), half of them wrong where there are enough of
// both kinds, in the order of the data. An empty split gives none.
UNROLL_API Examples examples_of(const Task& task, const Metadata& metadata, const TensorMap& parameters,
                                Backend& backend, Split split, std::size_t most);

}  // namespace unroll
