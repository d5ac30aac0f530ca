// SPDX-License-Identifier: Apache-2.0
// Classification of short sequences, one per row: the pooled outputs go through dropout into a linear layer.
#include <algorithm>
#include <optional>
#include <set>

#include "core/data/text/entry_lines.h"
#include "core/support/text/counted.h"
#include "core/support/text/in_quotes.h"
#include "core/tasks/check/row_checks.h"
#include "core/tasks/common/class_metrics.h"
#include "core/tasks/common/pooling.h"
#include "core/tasks/table/linear_baseline.h"
#include "core/tasks/table/table_check.h"
#include "core/tasks/table/table_rows.h"
#include "unroll/support/error.h"
#include "unroll/tasks/tasks.h"

namespace unroll {

namespace {

// Numbers of rows whose label is a word for a missing value, by word.
using WordLabels = std::map<std::string, std::int64_t, std::less<>>;

std::vector<std::string> word_warnings(const std::string& file, const WordLabels& words) {
  std::vector<std::string> warnings;
  for (const auto& [word, n] : words)
    warnings.push_back(file + ": the label " + in_quotes(word) + " of " + counted(n, "row") +
                       " is read as a class. If it stands for a missing label, remove these rows, or list such words "
                       "in data.missing_values");
  return warnings;
}

// Class names in the order of their ids: texts by bytes, numbers by value.
class ClassNames {
 public:
  // False if there are too many classes.
  bool add(const std::string& name) {
    names_.insert(name);
    return std::ssize(names_) <= k_max_classes;
  }
  // True if there are names besides these words, and all of them are numbers.
  bool are_numbers_but(const WordLabels& words) const {
    return names_.size() > words.size() && std::all_of(names_.begin(), names_.end(), [&](const std::string& name) {
      return number_in(name).has_value() || words.contains(name);
    });
  }
  std::vector<std::string> sorted() const {
    std::vector<std::string> names(names_.begin(), names_.end());
    if (are_numbers_but({}))
      std::sort(names.begin(), names.end(), [](auto& a, auto& b) { return *number_in(a) < *number_in(b); });
    return names;
  }

 private:
  std::set<std::string> names_;
};

class Classify : public Task, public TableRows {
 public:
  Classify(const ClassifyOptions& options, RecordFile file, const Metadata& fitted)
      : TableRows(checked_options(options, "classify"), std::move(file), {"classify", "label", "data.label", true},
                  fitted),
        options_(options) {
    read_classes(fitted.empty() ? std::vector<std::string>() : class_names_of(fitted));
    draw_splits();
  }

  TaskGraph build(Scope& scope, const Batch& like) const override {
    const Value x = scope.graph().input("x", like.inputs.at("x").type());                 // [T, B, I]
    const Value labels = scope.graph().input("labels", like.inputs.at("labels").type());  // [B]
    const Value logits = sequence_answers(scope, x, options_.model, options_.pooling, n_classes());
    const OriginScope of_loss(scope.graph(), {k_loss_layer});
    TaskGraph t;
    t.weight = scalar_like(logits, static_cast<double>(labels.shape()[0]));
    t.loss = sum(smoothed_cross_entropy(scope, logits, labels, options_.label_smoothing)) / t.weight;
    add_class_metrics(t, argmax(logits, -1), labels, {n_classes(), -1});
    return t;
  }

  std::int64_t n_batches(Split split) const override { return n_batches_of(split); }

  Batch batch(Split split, std::uint64_t seed, std::int64_t epoch, std::int64_t index) const override {
    Tensor labels(DType::i32, {batch_rows(split, index)});
    Batch result;
    result.inputs.emplace("x", inputs(split, seed, epoch, index, [&](std::int64_t b, std::string_view record) {
                            labels.values<std::int32_t>()[b] = label_in(record);
                          }));
    result.inputs.emplace("labels", std::move(labels));
    return result;
  }

  Metadata metadata() const override {
    Metadata m{{"task", "classify"},
               {"classes", std::to_string(n_classes())},
               {"labels", entry_lines(class_names_)},
               {"label", target_names()[0]},
               {"pooling", options_.pooling}};
    put(m);
    put_model_options(m, options_.model);
    return m;
  }

  // Baselines: the most frequent class of the training set, and logistic regression on all features.
  std::map<std::string, std::map<std::string, double>> baselines(Split split) const override {
    if (rows(split).empty()) return {};
    std::vector<std::int64_t> count(class_names_.size());
    for_each_record(Split::train, [&](std::string_view record) { ++count[label_in(record)]; });
    const auto best = static_cast<std::int32_t>(std::max_element(count.begin(), count.end()) - count.begin());
    std::vector<std::int32_t> labels;
    for_each_record(split, [&](std::string_view record) { labels.push_back(label_in(record)); });
    const LinearAnswers linear = linear_answers(*this, split, n_classes());
    std::vector<std::int32_t> truth(linear.targets.begin(), linear.targets.end()), found;
    for (auto row = linear.answers.begin(); row != linear.answers.end(); row += n_classes())
      found.push_back(static_cast<std::int32_t>(std::max_element(row, row + n_classes()) - row));
    std::map<std::string, std::map<std::string, double>> all{
        {"most_frequent", class_metrics(std::vector(labels.size(), best), labels, {n_classes(), -1})}};
    if (!found.empty()) all.emplace("logistic_regression", class_metrics(found, truth, {n_classes(), -1}));
    return all;
  }

  std::vector<std::string> warnings() const override {
    std::vector<std::string> all = reader().warnings();
    for (std::string& warning : word_warnings(file().name(), words_)) all.push_back(std::move(warning));
    return all;
  }
  std::vector<std::string> notes() const override {
    std::vector<std::string> all = notes_on("label '" + target_names()[0] + "', " + counted(n_classes(), "class"));
    for (std::string& note : linear_notes(*this, "logistic_regression", n_classes())) all.push_back(std::move(note));
    return all;
  }

 private:
  // `known`: the classes of a model, or none.
  void read_classes(std::vector<std::string> known) {
    ClassNames names;
    std::size_t first_word_line = 0;
    const std::string column[] = {options_.label};
    read(column, [&](std::span<const std::string> cells, std::size_t line) {
      const std::size_t at = targets()[0];
      const std::string name = target_text(cells[at]);
      if (reader().is_missing(cells[at]) && words_[name]++ == 0) first_word_line = line;
      if (name.find('\n') != std::string::npos)
        reader().refuse(line, at, "the label has a line break", "Write it on one line");
      if (!known.empty() && std::find(known.begin(), known.end(), name) == known.end())
        reader().refuse(line, at, "the model has no class " + in_quotes(name));
      if (!names.add(name)) refuse_labels(k_max_classes + 1);
    });
    if (!words_.empty() && names.are_numbers_but(words_))
      reader().refuse(first_word_line, targets()[0], "the label is missing", "Remove the line");
    class_names_ = known.empty() ? names.sorted() : std::move(known);
    constexpr std::int64_t k_few = 20;  // each class of a small file may have one row
    if (n_classes() > k_few && 2 * n_classes() > file().size()) refuse_labels(class_names_.size());
    for (std::size_t k = 0; k < class_names_.size(); ++k)
      class_numbers_.emplace(class_names_[k], static_cast<std::int32_t>(k));
  }

  [[noreturn]] void refuse_labels(std::size_t n) const {
    throw Error(ErrorKind::input_file, file().name(),
                "column '" + target_names()[0] + "' has " + counted(n, "different label") + " in " +
                    counted(file().size(), "row"),
                "Is it the label? Set data.label to the column of the classes; numbers are predicted by task.kind = "
                "\"regress\"");
  }

  std::int32_t label_in(std::string_view record) const {
    const auto at = class_numbers_.find(target_text(targets_in(record)[0]));
    if (at == class_numbers_.end()) file().refuse_changed();
    return at->second;
  }
  std::int64_t n_classes() const { return std::ssize(class_names_); }

  ClassifyOptions options_;
  WordLabels words_;
  std::vector<std::string> class_names_;
  std::map<std::string, std::int32_t, std::less<>> class_numbers_;
};

}  // namespace

std::shared_ptr<const Task> make_classify(const ClassifyOptions& options, DataSource data, const std::string& name,
                                          const Metadata& fitted) {
  return std::make_shared<Classify>(options, record_file(data, name, options), fitted);
}

DataCheck check_data(const ClassifyOptions& options, DataSource from, const std::string& name) {
  LabelCounts labels;
  const std::string column[] = {options.label};
  return check_table_rows(
      options, column, from.file, name,
      [&](std::span<const std::string> targets, Split split) { ++labels[std::string(trimmed(targets[0]))][split]; },
      [&](DataChecker& checker) {
        checker.labels(labels);
        WordLabels words;
        const CsvFormat format = csv_format(options);
        for (const auto& [label, n] : labels)
          if (format.is_missing(label)) words[label] = n[0] + n[1] + n[2];
        checker.format(word_warnings(name, words));
      });
}

}  // namespace unroll
