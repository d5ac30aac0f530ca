// SPDX-License-Identifier: Apache-2.0
// Regression on short sequences, one per row: the pooled outputs go through dropout into a linear layer, which predicts
// the standardized targets. Shapes: B rows, K targets.
#include <algorithm>
#include <cmath>
#include <optional>

#include "core/data/series/windows.h"
#include "core/data/text/entry_lines.h"
#include "core/support/text/counted.h"
#include "core/support/text/in_quotes.h"
#include "core/tasks/common/pooling.h"
#include "core/tasks/table/linear_baseline.h"
#include "core/tasks/table/table_check.h"
#include "core/tasks/table/table_rows.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

std::vector<std::string> target_columns(const RegressOptions& options) {
  return options.targets.empty() ? std::vector<std::string>{""} : options.targets;
}

// Error sums over rows for one target, in its units.
struct RegressErrors {
  double n = 0, absolute = 0, square = 0;
  void add(double error) {
    ++n;
    absolute += std::fabs(error);
    square += error * error;
  }
  RegressErrors& operator+=(const RegressErrors& e) {
    n += e.n;
    absolute += e.absolute;
    square += e.square;
    return *this;
  }
  void put(std::map<std::string, double>& metrics, const std::string& suffix) const {
    metrics["mae" + suffix] = absolute / n;
    metrics["rmse" + suffix] = std::sqrt(square / n);
  }
};

class Regress : public Task, public TableRows {
 public:
  Regress(const RegressOptions& options, RecordFile file, const Metadata& fitted)
      : TableRows(checked_options(options, "regress"), std::move(file), {"regress", "target", "data.targets"},
                  fitted),
        options_(options) {
    read(target_columns(options), [&](std::span<const std::string> cells, std::size_t line) {
      for (const std::size_t c : targets()) {
        if (!reader().number_of(cells[c]))
          reader().refuse(line, c, "the target " + in_quotes(cells[c]) + " is not a number",
                          "Set data.targets to columns of numbers; a label is learned by task.kind = \"classify\"");
        reader().number(cells[c], line, c);
      }
    });
    draw_splits();
    if (fitted.empty()) fit();
    else use(fitted);
  }

  TaskGraph build(Scope& scope, const Batch& like) const override {
    const Value x = scope.graph().input("x", like.inputs.at("x").type());                 // [T,B,I]
    const Value target = scope.graph().input("target", like.inputs.at("target").type());  // [B,K]
    const Value predicted = sequence_answers(scope, x, options_.model, options_.pooling, n_targets());
    const OriginScope of_loss(scope.graph(), {k_loss_layer});
    const Value square = mse(predicted, target);
    TaskGraph t;
    t.weight = scalar_like(predicted, static_cast<double>(target.shape()[0] * n_targets()));
    t.loss = sum(square) / t.weight;
    add_metrics(t, scope, mae(predicted, target), square, target);
    return t;
  }

  std::int64_t n_batches(Split split) const override { return n_batches_of(split); }
  bool have_numbers() const override { return true; }

  Batch batch(Split split, std::uint64_t seed, std::int64_t epoch, std::int64_t index) const override {
    Tensor target(DType::f32, {batch_rows(split, index), n_targets()});
    Batch result;
    result.inputs.emplace("x", inputs(split, seed, epoch, index, [&](std::int64_t b, std::string_view record) {
                            const std::vector<double> values = values_in(record);
                            for (std::size_t k = 0; k < values.size(); ++k)
                              target.set(b * n_targets() + static_cast<std::int64_t>(k), scales_[k].apply(values[k]));
                          }));
    result.inputs.emplace("target", std::move(target));
    return result;
  }

  Metadata metadata() const override {
    Metadata m{{"task", "regress"}, {"targets", entry_lines(target_names())}, {"pooling", options_.pooling}};
    std::vector<double> mean, deviation;
    for (const ZScore& scale : scales_) {
      mean.push_back(scale.mean);
      deviation.push_back(scale.deviation);
    }
    put_numbers(m, "target_mean", mean);
    put_numbers(m, "target_deviation", deviation);
    put(m);
    put_model_options(m, options_.model);
    return m;
  }

  // Baselines: the mean of the training set, whose r2 is 0 by definition, and ridge regression on all features.
  std::map<std::string, std::map<std::string, double>> baselines(Split split) const override {
    if (rows(split).empty()) return {};
    std::vector<RegressErrors> of_mean(scales_.size()), of_ridge(scales_.size());
    for_each_record(split, [&](std::string_view record) {
      const std::vector<double> values = values_in(record);
      for (std::size_t k = 0; k < values.size(); ++k) of_mean[k].add(values[k] - scales_[k].mean);
    });
    std::map<std::string, double> mean = metrics_of(of_mean);
    mean["r2"] = 0;
    const LinearAnswers linear = linear_answers(*this, split);
    if (linear.answers.empty()) return {{"mean", mean}};
    const std::size_t K = scales_.size();
    for (std::size_t i = 0; i < linear.targets.size(); ++i)
      of_ridge[i % K].add((linear.targets[i] - linear.answers[i]) * scales_[i % K].deviation);
    std::map<std::string, double> ridge = metrics_of(of_ridge);
    for (std::size_t k = 0; k < K; ++k)
      if (of_mean[k].square > 0) ridge["r2"] += (1 - of_ridge[k].square / of_mean[k].square) / static_cast<double>(K);
    return {{"mean", mean}, {"ridge", ridge}};
  }

  std::vector<std::string> warnings() const override { return reader().warnings(); }
  std::vector<std::string> notes() const override {
    std::string names;
    for (const std::string& name : target_names()) names += (names.empty() ? "'" : ", '") + name + "'";
    std::vector<std::string> all = notes_on((n_targets() > 1 ? "targets " : "target ") + names);
    for (std::string& note : linear_notes(*this, "ridge")) all.push_back(std::move(note));
    return all;
  }

 private:
  // Over all targets, and for each of several.
  std::map<std::string, double> metrics_of(std::span<const RegressErrors> errors) const {
    RegressErrors all;
    std::map<std::string, double> metrics;
    for (std::size_t k = 0; k < errors.size(); ++k) {
      if (errors.size() > 1) errors[k].put(metrics, "." + target_names()[k]);
      all += errors[k];
    }
    all.put(metrics, "");
    return metrics;
  }
  void fit() {
    const std::int64_t n = n_examples(Split::train);
    std::vector<ZScoreFit> fits(targets().size(), ZScoreFit(n));
    for (void (ZScoreFit::*see)(double) : {&ZScoreFit::first, &ZScoreFit::second})
      for_each_record(Split::train, [&](std::string_view record) {
        const std::vector<double> values = values_in(record);
        for (std::size_t k = 0; k < values.size(); ++k) (fits[k].*see)(values[k]);
      });
    for (const ZScoreFit& of_target : fits) scales_.push_back(of_target.score());
  }

  void use(const Metadata& fitted) {
    const std::vector<std::string> names = get_targets(fitted);
    const std::vector<double> mean = get_numbers(fitted, "target_mean", names.size()),
                              deviation = get_numbers(fitted, "target_deviation", names.size());
    for (std::size_t k = 0; k < names.size(); ++k) scales_.push_back({mean[k], deviation[k]});
  }

  // Returns the target values of a record.
  std::vector<double> values_in(std::string_view record) const {
    std::vector<double> values(targets().size());
    numbers_in(file(), reader(), record, targets(), values);
    return values;
  }

  // Adds metrics; absolute, square, target [B,K] are in standardized units. Evaluations also report each target.
  // Training reports would become too long with a hundred targets.
  void add_metrics(TaskGraph& t, const Scope& scope, Value absolute, Value square, Value target) const {
    const std::int64_t B = target.shape()[0], K = n_targets();
    const Value around_mean = reduce_sum(target * target, {0});  // [K]; the mean is 0
    t.metrics.push_back({"r2", around_mean - reduce_sum(square, {0}), around_mean});
    double largest = 0;  // largest scale, because its square may exceed f32
    for (const ZScore& scale : scales_) largest = std::max(largest, scale.deviation);
    Tensor units(DType::f32, {K});
    for (std::int64_t k = 0; k < K; ++k) units.set(k, scales_[k].deviation / largest);
    const Value unit = constant(scope.graph(), units);
    const Value absolutes = reduce_sum(absolute, {0}), squares = reduce_sum(square, {0});  // [K]
    t.metrics.push_back({"mae", sum(absolutes * unit), t.weight, MetricForm::ratio, largest});
    t.metrics.push_back({"rmse", sum(squares * unit * unit), t.weight, MetricForm::root, largest});
    if (K == 1 || scope.training()) return;
    const Value count = scalar_like(t.weight, static_cast<double>(B));
    for (std::int64_t k = 0; k < K; ++k) {
      const std::string name = target_names()[k];
      const double scale = scales_[k].deviation;
      t.metrics.push_back({"mae." + name, row(absolutes, k), count, MetricForm::ratio, scale});
      t.metrics.push_back({"rmse." + name, row(squares, k), count, MetricForm::root, scale});
    }
  }

  std::int64_t n_targets() const { return std::ssize(targets()); }

  RegressOptions options_;
  std::vector<ZScore> scales_;  // by target
};

}  // namespace

std::shared_ptr<const Task> make_regress(const RegressOptions& options, DataSource data, const std::string& name,
                                         const Metadata& fitted) {
  return std::make_shared<Regress>(options, record_file(data, name, options), fitted);
}

DataCheck check_data(const RegressOptions& options, DataSource from, const std::string& name) {
  std::int64_t bad = 0;
  return check_table_rows(
      options, target_columns(options), from.file, name,
      [&](std::span<const std::string> targets, Split) {
        for (const std::string& cell : targets) {
          const std::optional<double> value = number_in(cell);
          bad += !value || !std::isfinite(*value);
        }
      },
      [&](DataChecker& checker) {
        checker.figure("invalid targets", static_cast<double>(bad));
        if (bad > 0) checker.error("numbers", counted_are(bad, "target") + " missing, infinite or not a number");
      });
}

}  // namespace unroll
