// SPDX-License-Identifier: Apache-2.0
// A kind of task is one row: its words, sample data, and functions. They make a task from a config, check its data and
// predict with it. The row is in frontends/cli/tasks/NAME.cc; UNROLL_TASKS (unroll/tasks/tasks.h) lists the kinds.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unroll/support/error.h"
#include "unroll/tasks/tasks.h"

namespace unroll::cli {

class Answers;
class Config;
class RowWriter;
struct Panel;
struct PredictArguments;
struct RunFolder;
struct TextScoring;

enum TaskIndex : unsigned {
#define UNROLL_TASK(name, Title, word) k_index_of_##name,
  UNROLL_TASKS(UNROLL_TASK)
#undef UNROLL_TASK
  k_n_tasks,
};

// Kinds of jobs that read a config key; `tensors` is `unroll run` on external tensors.
enum Uses : unsigned {
#define UNROLL_TASK(name, Title, word) k_##name = 1u << k_index_of_##name,
  UNROLL_TASKS(UNROLL_TASK)
#undef UNROLL_TASK
  k_tensors = 1u << k_n_tasks,
  k_trained = k_tensors - 1,
  k_every = k_trained | k_tensors,
};

// Location of a task's data.
struct DataPlace {
  std::string path;
  std::string folder;  // of the config: names of other files are relative to it
};

// The metric by which the task is usually scored.
struct MainMetric {
  std::string_view name, word;
  bool higher_is_better = false;
};

// A task-specific default of a key instead of the library's: sizes and learning rates for quick training on small
// files.
struct TaskDefault {
  std::string_view key;
  double value = 0;
};

// The sample that `unroll new` writes.
struct SampleData {
  const char* file;
  std::string (*make)();
  const char* sample_setting = nullptr;  // a setting that fits the sample data only
  const char* own_setting = nullptr;     // used instead with --data
};

struct FileAnswer {
  std::vector<Panel> panels;
  std::optional<Error> failure;  // reason for empty rows, thrown when they are written
};

struct TaskRow {
  const char* title;      // "Labels for tokens"
  const char* loss;       // title of an axis: "Loss (nats per token)"
  std::array<MainMetric, 2> metrics;  // the first one that a run has
  std::array<TaskDefault, 5> defaults;
  SampleData sample;
  std::shared_ptr<const Task> (*make)(const Config&, const DataPlace&, const Metadata& fitted);
  DataCheck (*check)(const Config&, const DataPlace&);
  // One of the two is set: `predict` answers each line, or the complete file.
  std::unique_ptr<Answers> (*answers)(const RunFolder&, Backend&, const PredictArguments&) = nullptr;
  FileAnswer (*answer_file)(const RunFolder&, Backend&, const PredictArguments&, RowWriter&) = nullptr;
  const TextScoring* scoring = nullptr;  // of generated texts, for `eval` and reports
  std::size_t n_examples = 10;    // in a report: examples, values of a series, tokens of a text
  bool counts_confusion = false;  // over the test set
  // Reason why `predict --svg` draws nothing, and the alternative, with {} for the run.
  const char *undrawn = nullptr, *undrawn_hint = nullptr;
  bool draws_examples = true;  // for `eval --svg`; otherwise `undrawn` applies
  const char* next = "unroll predict {} --input FILE";  // suggested by `eval`, with {} for the run
};

#define UNROLL_TASK(name, Title, word) extern const TaskRow name##_row;
UNROLL_TASKS(UNROLL_TASK)
#undef UNROLL_TASK

struct TaskKind {
  std::string_view word;  // of task.kind
  unsigned bit;           // in Uses
  const TaskRow& row;
};
std::span<const TaskKind> task_kinds();
// Return null if no kind has this word, or this bit.
const TaskKind* find_task_kind(std::string_view word);
const TaskKind* find_task_kind(unsigned bit);

}  // namespace unroll::cli
