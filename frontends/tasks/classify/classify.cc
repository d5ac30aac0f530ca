// SPDX-License-Identifier: Apache-2.0
// Classification of short sequences, one per row: the pooled outputs go through dropout into a linear layer.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "core/support/text/counted.h"
#include "frontends/data/batch/shuffle.h"
#include "frontends/data/table/csv.h"
#include "frontends/data/table/dates.h"
#include "frontends/data/text/entry_lines.h"
#include "frontends/tasks/classify/features.h"
#include "frontends/tasks/common/class_metrics.h"
#include "frontends/tasks/common/pooling.h"
#include "frontends/tasks/common/split_records.h"
#include "frontends/tasks/common/task_parts.h"
#include "unroll/error.h"
#include "unroll/tasks.h"

namespace unroll {

namespace {

constexpr std::size_t k_max_classes = 65536;

// Classes in the order of their numbers: of texts by bytes, of numbers by value.
class ClassNames {
 public:
  // False when there are too many.
  bool add(const std::string& name) {
    names_.insert(name);
    return names_.size() <= k_max_classes;
  }
  std::vector<std::string> sorted() const {
    std::vector<std::string> names(names_.begin(), names_.end());
    const bool numbers =
        std::all_of(names.begin(), names.end(), [](const auto& n) { return number_in(n).has_value(); });
    if (numbers)
      std::sort(names.begin(), names.end(), [](auto& a, auto& b) { return *number_in(a) < *number_in(b); });
    return names;
  }

 private:
  std::set<std::string> names_;
};

// Of models without names: "0", "1", ...
std::vector<std::string> class_names_of(const Metadata& fitted) {
  if (fitted.contains("labels")) return get_list(fitted, "labels");
  std::vector<std::string> names;
  const std::int64_t n = get_integer(fitted, "classes");
  for (std::int64_t k = 0; k < std::min<std::int64_t>(n, k_max_classes); ++k) names.push_back(std::to_string(k));
  return names;
}

class Classify : public Task, public SplitTableRows, public SplitExamples {
 public:
  Classify(const ClassifyOptions& options, RecordFile file, const Metadata& fitted)
      : options_(options),
        file_(records_of(std::move(file), options.validation, options.test)),
        reader_(file_.name(), CsvLimits{}.max_columns, CsvFormat::of(options.header, options.separator)) {
    check_options();
    read_rows(fitted.empty() ? std::vector<std::string>() : class_names_of(fitted));
    rows_ = split_rows(file_, options.validation, options.test, options.split_seed);
    if (fitted.empty()) fit();
    else use(Features::of(fitted));
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

  std::int64_t n_examples(Split split) const override { return static_cast<std::int64_t>(rows(split).size()); }
  std::int64_t n_batches(Split split) const override {
    const auto n = static_cast<std::int64_t>(rows(split).size());
    return (n + options_.batch - 1) / options_.batch;
  }

  void for_each_row(Split split, const TakeRow& take) const override {
    std::vector<double> values(places_.size());
    file_.for_each(rows(split), [&](std::int64_t, std::string_view record) {
      numbers_in(file_, reader_, record, places_, values);
      take(values, class_names_[static_cast<std::size_t>(label_in(record))], record);
    });
  }

  Batch batch(Split split, std::uint64_t seed, std::int64_t epoch, std::int64_t index) const override {
    const std::vector<std::int64_t>& from = rows(split);
    const auto n = static_cast<std::int64_t>(from.size()), begin = index * options_.batch;
    const std::int64_t B = std::min(options_.batch, n - begin), T = features_.steps, I = features_.width();
    Tensor x(DType::f32, {T, B, I}), labels(DType::i32, {B});
    const auto xs = x.values<float>();
    std::vector<double> values(places_.size());
    for (std::int64_t b = 0; b < B; ++b) {
      const std::int64_t k =
          split == Split::train ? shuffle_.order(n, seed, epoch)[static_cast<std::size_t>(begin + b)] : begin + b;
      const std::string record = file_.text(from[static_cast<std::size_t>(k)]);
      numbers_in(file_, reader_, record, places_, values);
      features_.apply(values);
      for (std::int64_t t = 0; t < T; ++t)
        for (std::int64_t i = 0; i < I; ++i)
          xs[static_cast<std::size_t>((t * B + b) * I + i)] =
              static_cast<float>(values[static_cast<std::size_t>(t * I + i)]);
      labels.values<std::int32_t>()[static_cast<std::size_t>(b)] = label_in(record);
    }
    Batch result;
    result.inputs.emplace("x", std::move(x));
    result.inputs.emplace("labels", std::move(labels));
    return result;
  }

  Metadata metadata() const override {
    Metadata m{{"task", "classify"},
               {"classes", std::to_string(n_classes())},
               {"labels", entry_lines(class_names_)},
               {"label", reader_.column_name(label_)},
               {"header", reader_.header().empty() ? "0" : "1"},
               {"separator", std::string(1, reader_.separator())},
               {"pooling", options_.pooling}};
    features_.put(m);
    put_model_options(m, options_.model);
    return m;
  }

  // Always the class that is most frequent in training.
  std::map<std::string, std::map<std::string, double>> baselines(Split split) const override {
    if (rows(split).empty()) return {};
    std::vector<std::int64_t> count(class_names_.size());
    file_.for_each(rows(Split::train), [&](std::int64_t, std::string_view record) {
      ++count[static_cast<std::size_t>(label_in(record))];
    });
    const auto best = static_cast<std::int32_t>(std::max_element(count.begin(), count.end()) - count.begin());
    std::vector<std::int32_t> labels;
    file_.for_each(rows(split), [&](std::int64_t, std::string_view record) { labels.push_back(label_in(record)); });
    return {{"most_frequent", class_metrics(std::vector(labels.size(), best), labels, {n_classes(), -1})}};
  }

  std::vector<std::string> notes() const override {
    std::vector<std::string> notes{
        file_.name() + ": " + reader_.found(file_.size()) + "; label '" + reader_.column_name(label_) + "', " +
        counted(n_classes(), "class") + ", " + counted(places_.size(), "feature") + " in " +
        counted(features_.steps, "step")};
    if (n_missing_ > 0)
      notes.push_back(file_.name() + ": " + std::to_string(n_missing_) + " missing values filled (data.missing = \"" +
                      options_.missing + "\")");
    return notes;
  }

 private:
  void check_options() const {
    if (options_.batch < 1)
      throw Error(ErrorKind::usage, "classify", "batch must be at least 1; got " + std::to_string(options_.batch));
    if (!(std::fabs(options_.divide) > 0) || !std::isfinite(options_.divide))
      throw Error(ErrorKind::usage, "classify", "divide must not be 0");
    if (options_.normalize && options_.divide != 1)
      throw Error(ErrorKind::usage, "classify", "normalize and divide are both set",
                  "Set only one of the two");
    constexpr std::string_view k_missing[] = {"error", "previous", "interpolate", "mean"};
    if (std::find(std::begin(k_missing), std::end(k_missing), options_.missing) == std::end(k_missing))
      throw Error(ErrorKind::usage, "classify",
                  "missing must be error, previous, interpolate or mean; got '" + options_.missing.substr(0, 40) + "'");
  }

  // `known`: the classes of a model, or none.
  void read_rows(std::vector<std::string> known) {
    ClassNames names;
    index_rows(file_, reader_, [&](std::span<const std::string> cells, std::size_t line) {
      if (places_.empty()) choose_columns();
      for (const std::size_t c : places_) check_feature(cells[c], line, c);
      if (is_missing(cells[label_])) reader_.refuse(line, label_, "the label is missing", "Remove the line");
      const std::string name = class_name(cells[label_]);
      if (name.find('\n') != std::string::npos)
        reader_.refuse(line, label_, "the label has a line break", "Write it on one line");
      if (!known.empty() && std::find(known.begin(), known.end(), name) == known.end())
        reader_.refuse(line, label_, "the model has no class '" + name.substr(0, 40) + "'");
      if (!names.add(name)) refuse_labels(k_max_classes + 1);
    });
    class_names_ = known.empty() ? names.sorted() : std::move(known);
    constexpr std::int64_t k_few = 20;  // a small file may have one row of each class
    if (n_classes() > k_few && 2 * n_classes() > file_.size()) refuse_labels(class_names_.size());
    for (std::size_t k = 0; k < class_names_.size(); ++k)
      class_numbers_.emplace(class_names_[k], static_cast<std::int32_t>(k));
  }

  [[noreturn]] void refuse_labels(std::size_t n) const {
    throw Error(ErrorKind::input_file, file_.name(),
                "column '" + reader_.column_name(label_) + "' has " + counted(n, "different label") + " in " +
                    counted(file_.size(), "row"),
                "Is it the label? Set data.label to the column of the classes; numbers are forecast by task.kind = "
                "\"forecast\"");
  }

  void choose_columns() {
    label_ = reader_.column(options_.label);
    for (const std::string& column : options_.columns) places_.push_back(reader_.column(column));
    if (std::find(places_.begin(), places_.end(), label_) != places_.end())
      throw Error(ErrorKind::usage, file_.name(),
                  "column '" + reader_.column_name(label_) + "' is the label and one of columns",
                  "Remove it from data.columns, or set data.label");
    for (std::size_t c = 0; options_.columns.empty() && c < reader_.n_columns(); ++c)
      if (c != label_) places_.push_back(c);
    const auto n = static_cast<std::int64_t>(places_.size());
    features_.steps = options_.steps == 0 ? n : options_.steps;
    if (n == 0)
      throw Error(ErrorKind::input_file, file_.name(), "has only one column; expected features and a label",
                  "Set data.separator if cells are not separated by tab, semicolon or comma");
    if (features_.steps < 1 || n % features_.steps != 0)
      throw Error(
          ErrorKind::usage, file_.name(),
          counted(n, "feature") + " cannot be divided into " + std::to_string(options_.steps) + " equal steps",
          "Set steps to a divisor of the number of features, or to 0 for one step per feature");
    for (const std::size_t c : places_) features_.columns.push_back(reader_.column_name(c));
    features_.missing = options_.missing;
    features_.divide = options_.divide;
    features_.normalize = options_.normalize;
  }

  void check_feature(const std::string& cell, std::size_t line, std::size_t column) {
    const std::string_view text = trimmed(cell);
    if (!is_missing(text) && !number_in(text) && text.find(' ') != std::string_view::npos && !date_in(text))
      reader_.refuse(line, column, "'" + std::string(text.substr(0, 40)) + "' is a text, not a number",
                     "A text with one label is read by task.kind = \"document\"; other columns are left out with "
                     "data.columns");
    n_missing_ += std::isnan(reader_.number(cell, line, column, options_.missing == "error"
                                                                     ? CsvReader::Missing::refused
                                                                     : CsvReader::Missing::as_nan));
  }

  void fit() {
    features_.mean.assign(places_.size(), 0.0);
    features_.deviation.assign(places_.size(), 1.0);
    if (!options_.normalize && options_.missing == "error") return;
    FeatureFit fit(places_.size());
    std::vector<double> values(places_.size());
    file_.for_each(rows(Split::train), [&](std::int64_t, std::string_view record) {
      numbers_in(file_, reader_, record, places_, values);
      fit.add(values);
    });
    fit.put(features_);
  }
  void use(Features fitted) {
    places_ = fitted.places(reader_, reader_.column_name(label_));
    features_ = std::move(fitted);
  }

  std::int32_t label_in(std::string_view record) const {
    const auto at = class_numbers_.find(class_name(cells_in(file_, reader_, record)[label_]));
    if (at == class_numbers_.end()) file_.refuse_changed();
    return at->second;
  }
  const std::vector<std::int64_t>& rows(Split split) const { return rows_[static_cast<std::size_t>(split)]; }
  std::int64_t n_classes() const { return static_cast<std::int64_t>(class_names_.size()); }

  ClassifyOptions options_;
  RecordFile file_;  // of a row each
  CsvReader reader_;
  std::size_t label_ = 0;            // its column
  std::vector<std::size_t> places_;  // the columns of the features
  Features features_;
  std::int64_t n_missing_ = 0;
  std::vector<std::string> class_names_;
  std::map<std::string, std::int32_t, std::less<>> class_numbers_;
  SplitRows rows_;
  mutable Shuffle shuffle_;
};

}  // namespace

std::shared_ptr<const Task> make_classify(const ClassifyOptions& options, std::string_view csv, const std::string& name,
                                          const Metadata& fitted) {
  return std::make_shared<Classify>(options, RecordFile(csv, name), fitted);
}

std::shared_ptr<const Task> make_classify(const ClassifyOptions& options, std::shared_ptr<const Vfs::Reader> file,
                                          const std::string& name, const Metadata& fitted) {
  return std::make_shared<Classify>(options, RecordFile(std::move(file), name, options.memory_limit), fitted);
}

}  // namespace unroll
