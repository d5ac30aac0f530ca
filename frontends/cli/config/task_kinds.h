// SPDX-License-Identifier: Apache-2.0
// A kind of task is one row: its words, sample data, and the functions that make a task of a config, check its data and
// predict with it. The row stands in frontends/cli/tasks/NAME.cc; tasks.def lists the kinds.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unroll/data_check.h"
#include "unroll/tasks.h"

namespace unroll::cli {

class Answers;
class Config;
class RowWriter;
struct Panel;
struct PredictArguments;
struct RunFolder;

enum TaskIndex : unsigned {
#define UNROLL_TASK(name, word) k_index_of_##name,
#include "frontends/cli/config/tasks.def"
#undef UNROLL_TASK
  k_n_tasks,
};

// Which kinds of job read a config key; `tensors` is `unroll run` on tensors from outside.
enum Uses : unsigned {
#define UNROLL_TASK(name, word) k_##name = 1u << k_index_of_##name,
#include "frontends/cli/config/tasks.def"
#undef UNROLL_TASK
  k_tensors = 1u << k_n_tasks,
  k_pairs = k_translate | k_summarize,  // which write texts for texts
  k_tokens = k_language_model | k_label | k_pairs,
  k_words = k_tokens | k_document,  // whose input are numbers of tokens
  k_drawn = k_label | k_pairs | k_document,  // whose rows are drawn into train, validation and test
  k_table = k_classify | k_forecast,  // whose data are a table of numbers
  k_trained = k_tensors - 1,
  k_every = k_trained | k_tensors,
};

// Where the data of a task are.
struct DataPlace {
  std::string path;
  std::string folder;  // of the config: other files' names count from it
};

// A metric by which the task is usually judged.
struct MainMetric {
  std::string_view name, word;
  bool higher_is_better = false;
};

// What `unroll new` writes.
struct SampleData {
  const char* file;
  std::string (*make)();
  std::array<const char*, 6> settings;  // settings that differ from the defaults
  std::array<const char*, 2> own = {};  // replace the first of them with --data: they fit the sample data only
};

struct TaskRow {
  const char* title;      // "Labels for tokens"
  const char* loss;       // title of an axis: "Loss (nats per token)"
  std::array<MainMetric, 2> metrics;  // the first one that a run has
  SampleData sample;
  std::shared_ptr<const Task> (*make)(const Config&, const DataPlace&, const Metadata& fitted);
  DataCheck (*check)(const Config&, const DataPlace&);
  // One of the two: `predict` answers each line, or the file as a whole. The latter returns its pictures.
  std::unique_ptr<Answers> (*answers)(const RunFolder&, Backend&, const PredictArguments&) = nullptr;
  std::vector<Panel> (*answer_file)(const RunFolder&, Backend&, const PredictArguments&, RowWriter&) = nullptr;
  std::size_t n_examples = 10;    // that a report shows: examples, values of a series, tokens of a text
  bool counts_confusion = false;  // over the test set
  // Why `predict --svg` draws nothing, and what to do instead, with {} for the run.
  const char *undrawn = nullptr, *undrawn_hint = nullptr;
};

#define UNROLL_TASK(name, word) extern const TaskRow name##_row;
#include "frontends/cli/config/tasks.def"
#undef UNROLL_TASK

struct TaskKind {
  std::string_view word;  // of task.kind
  unsigned bit;           // in Uses
  const TaskRow& row;
};
std::span<const TaskKind> task_kinds();
// Null where no kind has this word, or this bit.
const TaskKind* find_task_kind(std::string_view word);
const TaskKind* find_task_kind(unsigned bit);

}  // namespace unroll::cli
