// SPDX-License-Identifier: Apache-2.0
// Classification of short sequences, one a line: the pooled outputs go through dropout into a linear layer.
#include <algorithm>
#include <cmath>

#include "frontends/data/csv.h"
#include "frontends/data/shuffle.h"
#include "frontends/model/tasks/class_metrics.h"
#include "frontends/model/tasks/pooling.h"
#include "frontends/model/tasks/task_parts.h"
#include "unroll/error.h"
#include "unroll/tasks.h"

namespace unroll {

namespace {

constexpr std::int64_t k_max_classes = 65536;

class Classify : public Task {
 public:
  Classify(const ClassifyOptions& options, RecordFile file, const Metadata& fitted)
      : options_(options), file_(std::move(file)), reader_(file_.name()) {
    read_rows();
    const std::string& name = file_.name();
    const auto n_features = static_cast<std::int64_t>(reader_.n_columns()) - 1;
    if (options.steps < 1 || n_features < 1 || n_features % options.steps != 0)
      throw Error(
          ErrorKind::usage, name,
          std::to_string(n_features) + " values a line do not divide into " + std::to_string(options.steps) + " steps",
          "Set steps to a divisor of it");
    if (options.batch < 1)
      throw Error(ErrorKind::usage, "classify", "batch must be at least 1; got " + std::to_string(options.batch));
    if (!(std::fabs(options.divide) > 0) || !std::isfinite(options.divide))
      throw Error(ErrorKind::usage, "classify", "divide must not be 0");
    width_ = n_features / options.steps;
    if (!fitted.empty()) n_classes_ = std::max(n_classes_, get_integer(fitted, "classes"));
    const std::int64_t n = file_.size();
    const std::int64_t n_held = part_of(n, options.held_out, "held_out");
    const std::vector<std::int64_t> order = permutation(n, options.split_seed, 0);
    held_out_.assign(order.begin(), order.begin() + n_held);
    train_.assign(order.begin() + n_held, order.end());
    std::sort(train_.begin(), train_.end());
    std::sort(held_out_.begin(), held_out_.end());
  }

  TaskGraph build(Scope& scope, const Batch& like) const override {
    const Value x = scope.graph().input("x", like.inputs.at("x").type());                 // [T, B, I]
    const Value labels = scope.graph().input("labels", like.inputs.at("labels").type());  // [B]
    const Value y = pooled(scope, recurrent_model(scope.child("recurrent"), x, options_.model).y, options_.pooling,
                           options_.model.bidirectional);
    const Value logits =
        linear_layer(scope.child("output"), dropout_layer(scope, y, options_.model.dropout), n_classes_);
    TaskGraph t;
    t.weight = scalar_like(logits, static_cast<double>(labels.shape()[0]));
    t.loss = sum(smoothed_cross_entropy(scope, logits, labels, options_.label_smoothing)) / t.weight;
    add_class_metrics(t, argmax(logits, -1), labels, {n_classes_, -1});
    return t;
  }

  std::int64_t n_batches(Split split) const override {
    const auto n = static_cast<std::int64_t>(rows(split).size());
    return (n + options_.batch - 1) / options_.batch;
  }

  Batch batch(Split split, std::uint64_t seed, std::int64_t epoch, std::int64_t index) const override {
    const std::vector<std::int64_t>& from = rows(split);
    const auto n = static_cast<std::int64_t>(from.size()), begin = index * options_.batch;
    const std::int64_t B = std::min(options_.batch, n - begin);
    Tensor x(DType::f32, {options_.steps, B, width_}), labels(DType::i32, {B});
    const auto xs = x.values<float>();
    for (std::int64_t b = 0; b < B; ++b) {
      const std::int64_t k =
          split == Split::train ? shuffle_.order(n, seed, epoch)[static_cast<std::size_t>(begin + b)] : begin + b;
      const std::vector<double> row =
          numbers_in(file_, reader_, file_.text(from[static_cast<std::size_t>(k)]));
      for (std::int64_t t = 0; t < options_.steps; ++t)
        for (std::int64_t i = 0; i < width_; ++i)
          xs[static_cast<std::size_t>((t * B + b) * width_ + i)] =
              static_cast<float>(row[static_cast<std::size_t>(t * width_ + i)] / options_.divide);
      labels.values<std::int32_t>()[static_cast<std::size_t>(b)] = static_cast<std::int32_t>(row.back());
    }
    Batch result;
    result.inputs.emplace("x", std::move(x));
    result.inputs.emplace("labels", std::move(labels));
    return result;
  }

  Metadata metadata() const override {
    Metadata m{{"task", "classify"},
               {"classes", std::to_string(n_classes_)},
               {"steps", std::to_string(options_.steps)},
               {"width", std::to_string(width_)},
               {"divide", number_text(options_.divide)},
               {"pooling", options_.pooling}};
    put_model_options(m, options_.model);
    return m;
  }

  // Always the class that is most frequent in training.
  std::map<std::string, std::map<std::string, double>> baselines() const override {
    if (held_out_.empty() || train_.empty()) return {};
    std::vector<std::int64_t> count(static_cast<std::size_t>(n_classes_));
    const auto label_in = [&](std::string_view record) {
      return static_cast<std::int32_t>(numbers_in(file_, reader_, record).back());
    };
    file_.for_each(train_, [&](std::int64_t, std::string_view record) {
      ++count[static_cast<std::size_t>(label_in(record))];
    });
    const auto best = static_cast<std::int32_t>(std::max_element(count.begin(), count.end()) - count.begin());
    std::vector<std::int32_t> labels;
    file_.for_each(held_out_, [&](std::int64_t, std::string_view record) { labels.push_back(label_in(record)); });
    return {{"most_frequent", class_metrics(std::vector(labels.size(), best), labels, {n_classes_, -1})}};
  }

 private:
  void read_rows() {
    index_rows(file_, reader_, [&](std::span<const std::string> cells, std::size_t line) {
      double label = 0;  // the last number
      for (std::size_t c = 0; c < cells.size(); ++c) label = reader_.number(cells[c], line, c);
      if (label != std::floor(label) || label < 0 || label >= k_max_classes)
        reader_.refuse(line, cells.size() - 1,
                       "the label in the last column must be 0, 1, ..., " + std::to_string(k_max_classes - 1) +
                           "; got " + number_text(label));
      n_classes_ = std::max(n_classes_, static_cast<std::int64_t>(label) + 1);
    });
  }
  const std::vector<std::int64_t>& rows(Split split) const { return split == Split::train ? train_ : held_out_; }

  ClassifyOptions options_;
  RecordFile file_;                 // of a row each
  CsvReader reader_;
  std::int64_t width_ = 0;          // I
  std::int64_t n_classes_ = 0;
  std::vector<std::int64_t> train_, held_out_;
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
