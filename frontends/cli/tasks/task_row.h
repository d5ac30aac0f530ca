// SPDX-License-Identifier: Apache-2.0
// Helpers of the task rows: options of a task from a config, and its functions from the options.
#pragma once

#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontends/cli/predict/answers.h"
#include "frontends/config/run/job.h"
#include "frontends/config/task_kinds.h"

namespace unroll::cli {

// Returns the file of data.path, unpacked if it is compressed.
std::shared_ptr<const Vfs::Reader> data_file(const Config& config, const std::string& path);
// Returns data.validation or data.test: a share, or a file name relative to `folder`.
SplitSource split_source(const Config& config, std::string_view key, const std::string& folder);
std::size_t data_memory_limit(const Config& config);
// Returns the options of a task: fields of keys, the model, and task-specific data options.
template <class TaskOptions>
TaskOptions task_options(const Config& config, const std::string& folder) {
  TaskOptions options;
  for_each_part<TaskOptions>([&]<class Part>() { config.fill<Part>(options); });
  options.model = model_options(config);
  options.validation = split_source(config, "data.validation", folder);
  options.test = split_source(config, "data.test", folder);
  options.memory_limit = data_memory_limit(config);
  return options;
}

// Returns columns for the `top_k` best labels: "label", "probability", "label_2", "probability_2", ...
std::vector<std::string> ranking_columns(std::int64_t top_k);
std::vector<std::string> texts_of(const std::vector<InputLine>& lines);  // empty for a line with an error
// "words", "characters"; empty for subwords or bytes, which are never unknown.
std::string unit_of_tokens(const RunFolder& run);
// Includes the line's error, if any.
void put_json(RowWriter::Json object, const InputLine& line, RowWriter& writer);
// Writes the `top_k` best labels: as ranking_columns, as text separated by tabs, or as members of `object`: "label",
// "probability" and, if top_k exceeds 1, the list "top". A row of a table begins with the cells `first`.
void put_labels(RowWriter::Json object, const std::vector<ScoredLabel>& labels, std::int64_t top_k,
                const InputLine& line, RowWriter& writer, std::vector<std::string> first = {});

// For models that read a line of text each. Their results count tokens and unknown ones.
template <class Model>
class LineAnswers : public Answers {
 public:
  LineAnswers(const RunFolder& run, Backend& backend, std::string unit)
      : model_(run.model.metadata, run.model.tensors, backend) {
    unknown_.unit = std::move(unit);
  }
  RowFormat usual_format() const override { return RowFormat::text; }
  bool accepts(const InputLine& line) override {
    if constexpr (requires { model_.cut(line.text); }) model_.check(model_.cut(line.text));
    else model_.check(line.text);
    return true;
  }
  void count(const std::vector<InputLine>&) override {
    for (const typename Model::Result& r : results_) {
      if constexpr (requires { r.tokens; }) unknown_.tokens += r.tokens;
      else if constexpr (requires { r.words; }) unknown_.tokens += r.words;
      else unknown_.tokens += std::ssize(r.labels);
      unknown_.unknown += r.unknown;
    }
  }
  UnknownCount unknown() const override { return unknown_; }

 protected:
  Model model_;
  std::vector<typename Model::Result> results_;

 private:
  UnknownCount unknown_;
};

template <auto make, auto options_of>
std::shared_ptr<const Task> make_of(const Config& config, const DataPlace& at, const Metadata& fitted) {
  return make(options_of(config, at.folder), data_file(config, at.path), at.path, fitted);
}
template <auto options_of>
DataCheck check_of(const Config& config, const DataPlace& at) {
  return check_data(options_of(config, at.folder), data_file(config, at.path), at.path);
}
template <class Answering>
std::unique_ptr<Answers> answer_with(const RunFolder& run, Backend& backend, const PredictArguments& options) {
  return std::make_unique<Answering>(run, backend, options);
}

}  // namespace unroll::cli
