// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/predict/test_result.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/support/text/shell_word.h"
#include "frontends/cli/predict/pair_scores.h"
#include "frontends/cli/report/pictures.h"
#include "frontends/cli/terminal/activity.h"
#include "frontends/cli/terminal/report.h"
#include "frontends/cli/terminal/words.h"
#include "frontends/config/run/job.h"
#include "frontends/config/text_file.h"
#include "unroll/support/error.h"
#include "unroll/tasks/examples.h"

namespace unroll::cli {
namespace {

// Maximum test batches that a report evaluates, and maximum for a confusion matrix.
constexpr std::int64_t k_most_batches = 200, k_most_confusion_batches = 1000;
// Maximum test pairs that a report decodes.
constexpr std::int64_t k_most_decoded = 200;

// A task with fewer test batches.
class FirstTestBatches : public Task {
 public:
  FirstTestBatches(std::shared_ptr<const Task> task, std::int64_t most) : task_(std::move(task)), most_(most) {}
  TaskGraph build(Scope& scope, const Batch& like) const override { return task_->build(scope, like); }
  std::int64_t n_batches(Split split) const override { return std::min(task_->n_batches(split), most_); }
  std::int64_t evaluation_shards(Split split) const override { return task_->evaluation_shards(split); }
  Batch batch(Split split, std::uint64_t seed, std::int64_t epoch, std::int64_t index) const override {
    return task_->batch(split, seed, epoch, index);
  }
  Metadata metadata() const override { return task_->metadata(); }

 private:
  std::shared_ptr<const Task> task_;
  std::int64_t most_;
};

const TaskRow& row_of(const RunFolder& run) { return find_task_kind(run.config.uses())->row; }

Examples examples_of_run(const RunFolder& run, const Task& task, Backend& backend, Split split) {
  return examples_of(task, run.model.metadata, run.model.tensors, backend, split, row_of(run).n_examples);
}

void evaluate(const std::string& folder, TestResult& result, Activity& activity) {
  RunArguments options;
  options.config = folder;
  const RunFolder run = open_run(options);
  const auto task = make_task(run.config, run.folder, run.model.metadata);
  const std::int64_t n = task->n_batches(Split::test);
  if (n == 0) {
    result.problem = "The test set is empty.";
    return;
  }
  const auto backend = open_backend(run.config);
  activity.say(folder + ": evaluating the test set");
  Trainer trainer(std::make_shared<FirstTestBatches>(task, k_most_batches), *backend, trainer_options(run.config));
  trainer.set_parameters(run.model.tensors);
  result.metrics = trainer.evaluate(Split::test).metrics;
  result.baselines = task->baselines(Split::test);
  if (n > k_most_batches)
    result.note = fmt::format("Metrics of the model are of the first {} of {} batches; `unroll eval` takes all.",
                              k_most_batches, number_text(static_cast<double>(n)));
  if (const auto* pairs = dynamic_cast<const PairTask*>(task.get())) {
    activity.say(folder + ": scoring texts");
    PairScores scores = pair_scores(*pairs, run, *backend, Split::test, {}, k_most_decoded);
    result.metrics.merge(scores.model);
    result.baselines.merge(scores.baselines);
    if (!scores.all)
      result.note += fmt::format(" BLEU, ROUGE and exact match are of the first {} pairs; `unroll eval` takes all.",
                                 k_most_decoded);
  }
  if (row_of(run).counts_confusion && n > k_most_confusion_batches) {
    result.note += " The test set is too large for a confusion matrix here; `unroll eval` counts one.";
    return;
  }
  activity.say(folder + ": predicting examples");
  result.examples = examples_html(examples_of_run(run, *task, *backend, Split::test));
}

}  // namespace

TestResult test_result(const std::string& folder) {
  TestResult result;
  Activity activity(folder + ": reading the data");
  try {
    evaluate(folder, result, activity);
  } catch (const Error& e) {
    result.problem = fmt::format("The test set was not evaluated. {}", e.what());
  }
  return result;
}

void check_drawable(const RunFolder& run, const std::string& folder) {
  const TaskKind* kind = find_task_kind(run.config.uses());
  if (kind && !kind->row.draws_examples)
    throw Error(ErrorKind::usage, "--svg", kind->row.undrawn,
                fmt::format(fmt::runtime(kind->row.undrawn_hint), shell_word(folder)));
}

void draw_examples(const RunFolder& run, const Task& task, Backend& backend, Split split, const std::string& path) {
  const Examples examples = examples_of_run(run, task, backend, split);
  const std::vector<Panel> panels = panels_of(examples);
  if (panels.empty())
    throw Error(ErrorKind::usage, "--svg", "the examples of this split give nothing to draw", "Choose another --split");
  constexpr const char* k_splits[] = {"training set", "validation set", "test set"};
  write_text_file(path, svg_file(fmt::format("{}, {}", task_name(run.config.text("task.kind")),
                                        k_splits[static_cast<int>(split)]),
                            panels));
}

}  // namespace unroll::cli
