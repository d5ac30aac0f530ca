// SPDX-License-Identifier: Apache-2.0
// Keys of the command only, and the config schema from them and the library's options.
#include <algorithm>
#include <array>

#include "frontends/config/config_schema.h"
#include "unroll/tasks/tasks.h"
#include "unroll/train/trainer.h"

namespace unroll::cli {
namespace {

// "language-model|forecast|...|"
constexpr std::string_view k_task_words =
#define UNROLL_TASK(name, Title, word) word "|"
    UNROLL_TASKS(UNROLL_TASK)
#undef UNROLL_TASK
    ;

// Keys that the library's options lack, or have in another form: a size is text here.
std::vector<KeySpec> command_keys() {
  const std::string none;
  return {
      {{"task.kind", one_of(k_task_words), "task; empty for `unroll run`, which needs only [model]"},
       KeyType::text, none, k_every},
      {{"data.path", any_value, "data file; a relative path starts at the folder of this config", AtResume::free},
       KeyType::text, none, k_trained},
      {{"data.memory_limit", any_value, "maximum memory for the data; a larger file is streamed; empty: no limit",
        AtResume::free},
       KeyType::text, "1GiB", k_trained},
      {{"model.input", between(1, 1e6), "width I of the input x [T,B,I]"},
       KeyType::integer, std::int64_t{1}, k_tensors},
      {{"run.backend", any_value, "backend: cpu, reference, ... (see `unroll doctor`)", AtResume::free},
       KeyType::text, "cpu", k_every},
      {{"run.threads", between(0, 4096), "number of threads; 0: all available processors", AtResume::free},
       KeyType::integer, std::int64_t{0}, k_every},
      {{"run.tensorboard", any_value, "write a TensorBoard event file into the run folder", AtResume::free},
       KeyType::boolean, false, k_trained},
      {{"run.rank_timeout", between(1, 1e6), "seconds that a rank waits for another one (docs/scaling.md)",
        AtResume::free},
       KeyType::number, 300.0, k_trained},
      {{"run.memory_limit", any_value,
        "maximum memory of an update, such as 2GiB; larger updates use gradient checkpointing", AtResume::free},
       KeyType::text, none, k_trained},
  };
}

class Schema {
 public:
  Schema() : keys_(command_keys()) {
#define UNROLL_TASK(name, Title, word) add_task<Title##Options>(k_##name);
    UNROLL_TASKS(UNROLL_TASK)
#undef UNROLL_TASK
    add<RecurrentModelOptions>({}, k_tensors);
    add<OptimizerOptions>({}, k_trained);
    add<ScheduleOptions>({}, k_trained);
    add<ClipOptions>({}, k_trained);
    add<AverageOptions>({}, k_trained);
    add<LossScaleOptions>({}, k_trained);
    add<TrainerOptions>({}, k_trained);
    for (const TaskKind& kind : task_kinds())
      for (const TaskDefault& own : kind.row.defaults)
        if (!own.key.empty()) set_default(at(own.key), kind.bit, own.value);
    at("model.bidirectional").uses &= ~k_language_model;  // the second direction would read the targets
    at("run.estimate_seconds").fallback = 3.0;            // the library alone makes no estimate
    constexpr std::array<std::string_view, 5> k_sections = {"task", "data", "model", "train", "run"};
    std::ranges::stable_sort(keys_, {}, [&](const KeySpec& key) {
      return std::ranges::find(k_sections, key.path.substr(0, key.path.find('.')));
    });
  }
  std::span<const KeySpec> keys() const { return keys_; }

 private:
  KeySpec& at(std::string_view path) { return *std::ranges::find(keys_, path, &KeySpec::path); }

  static void set_default(KeySpec& key, unsigned task, double value) {
    if (key.type == KeyType::integer) key.own[task] = static_cast<std::int64_t>(value);
    else key.own[task] = value;
  }

  // The options of `uses` have the fields of Options, with these defaults. Structs may share keys.
  template <class Options>
  void add(const Options& defaults, unsigned uses) {
    for (const Option& option : k_options<Options>) {
      if (option.key.affects == Affects::training && uses == k_tensors) continue;
      const ConfigValue value = option.get(&defaults, option.key.allowed.words);
      auto key = std::ranges::find(keys_, option.key.path, &KeySpec::path);
      if (key == keys_.end()) key = keys_.insert(key, KeySpec{option.key, option.type, value});
      key->uses |= uses;
      if (value != key->fallback) key->own[uses] = value;
      if (std::ranges::find(key->fields, &option, &KeyField::option) == key->fields.end())
        key->fields.push_back({&k_owner<Options>, &option});
    }
  }
  template <class TaskOptions>
  void add_task(unsigned task) {
    const TaskOptions defaults;
    add<RecurrentModelOptions>(defaults.model, task);
    for_each_part<TaskOptions>([&]<class Part>() { add<Part>(defaults, task); });
  }

  std::vector<KeySpec> keys_;
};

constexpr TableKeySpec k_table_keys[] = {
    {"cells", "states", TableKeyType::texts, "names of the states, each of width `model.hidden`"},
    {"cells", "step", TableKeyType::text, "one assignment per line; each state is assigned its next value: `h' = ...`"},
    {"cells", "y", TableKeyType::text, "output of a step, an expression; default: the first state"},
    {"groups", "match", TableKeyType::text, "pattern for parameter names; `*` matches any characters: `embedding.*`"},
    {"groups", "lr_scale", TableKeyType::number, "factor for `train.lr`; default 1; 0 freezes the parameters"},
    {"groups", "weight_decay", TableKeyType::number, "replaces `train.weight_decay`"},
};

}  // namespace

std::span<const KeySpec> config_schema() {
  static const Schema schema;
  return schema.keys();
}
std::span<const TableKeySpec> table_schema() { return k_table_keys; }

}  // namespace unroll::cli
