// SPDX-License-Identifier: Apache-2.0
// `unroll ablation`: runs an ablation: a config, each change of it alone, and all changes together.
#include "unroll/train/ablation.h"

#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/support/text/counted.h"
#include "core/support/text/nearest_name.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/terminal/activity.h"
#include "frontends/cli/terminal/report.h"
#include "frontends/cli/terminal/signals.h"
#include "frontends/cli/terminal/terminal.h"
#include "frontends/config/run/job.h"
#include "frontends/config/run/run_folder.h"
#include "frontends/config/run/split_size.h"
#include "frontends/config/text_file.h"
#include "unroll/support/error.h"
#include "unroll/support/vfs.h"

namespace unroll::cli {
namespace {

struct AblationArguments : ConfigArguments {
  std::vector<std::string> variants;  // "batch=64", "batch=64,lr=0.01"
  AblationOptions ablation;
  std::string out;
  bool json = false;
};

void add_options(CLI::App& app, AblationArguments& o) {
  add_operand(app, "config", o.config, "Config file of the baseline.");
  add_operands(app, "changes", o.variants,
               "Changes of config keys, such as hidden=512. Join changes that belong together with a comma: "
               "batch=64,lr=0.008.");
  group(app, "Training");
  add_integer(app, "--seeds", o.ablation.seeds, "Runs per change, from train.seed on.", {1, 1000, 5});
  add_number(app, "--minutes", o.ablation.minutes, "Time limit for all runs together; each has an update at least.",
             {0.001, 1e6, 10});
  add_seed(app, o);
  add_set(app, o);
  group(app, "Output");
  add_text(app, "--out", o.out, "FOLDER", "Write ablation.json and a run folder per run to this folder.");
  add_json(app, o.json);
  add_config_device(app, o);
  add_examples(app,
               "  unroll ablation docs/examples/char-lm.toml cell=gru hidden=512 dropout=0.2\n"
               "  unroll ablation docs/examples/digits.toml batch=64,lr=0.006 layers=2 --seeds 5\n"
               "\n"
               "`unroll ablate` and `unroll lever` are other names of this command.");
}

// Returns the key that a kind of task reads under this name.
std::string_view key_of(std::string_view name, unsigned uses, const std::string& variant) {
  std::vector<std::string_view> known;
  for (const KeySpec& key : config_schema()) {
    if (!(key.uses & uses)) continue;
    const std::string_view last = key.path.substr(key.path.find('.') + 1);
    if (key.path == name || last == name) return key.path;
    known.push_back(last);
  }
  if (name == "window") return "data.steps";  // for tasks without data.window
  if (const std::string_view key = key_named(name); !key.empty() && find_key(key)->uses & uses) return key;
  throw Error(ErrorKind::usage, variant, fmt::format("this task has no key '{}'", name), known_names(name, known));
}

// Keys that a comparison sets itself.
constexpr std::pair<std::string_view, std::string_view> k_fixed_keys[] = {
    {"train.schedule", "the rate stays as it is after its warm-up"},
    {"train.max_updates", "--minutes bounds the runs"},
    {"train.epochs", "--minutes bounds the runs"},
    {"train.max_minutes", "--minutes bounds the runs"},
    {"train.patience", "--minutes bounds the runs, and the lowest validation loss counts"},
    {"train.validate_every", "every run is validated as often"},
    {"train.seed", "--seeds and --seed choose them"},
};

using Settings = std::vector<std::string>;  // "train.batch=64"

bool sets_key(const Settings& settings, std::string_view key) {
  return std::ranges::any_of(settings, [&](const std::string& s) { return s.starts_with(std::string(key) + "="); });
}

// Changes that alter the meaning of a metric, or of several, separated by blanks. Empty: any metric.
struct OtherMeasure {
  std::string_view key, metrics, why;
  bool covers(const std::string& metric) const {
    return metrics.empty() || fmt::format(" {} ", metrics).find(" " + metric + " ") != std::string::npos;
  }
};
constexpr std::string_view k_what_is_predicted = "changes what is predicted", k_tokens = "changes what a token is";
constexpr std::string_view k_set = "changes the validation set", k_by_token = "loss perplexity token_accuracy";
constexpr OtherMeasure k_other_measures[] = {
    {"data.horizon", "", k_what_is_predicted},
    {"data.column", "", k_what_is_predicted},
    {"data.targets", "", k_what_is_predicted},
    {"data.label", "", k_what_is_predicted},
    {"data.outside", "f1_macro", "changes the labels that F1 counts"},
    {"data.path", "", k_set},
    {"data.validation", "", k_set},
    {"data.test", "", k_set},
    {"data.split", "", k_set},
    {"data.split_seed", "", k_set},
    {"data.tokens", k_by_token, k_tokens},
    {"data.vocabulary", k_by_token, k_tokens},
    {"data.min_count", k_by_token, k_tokens},
    {"data.lowercase", "perplexity", k_tokens},
};

// Refuses a run without any change: the comparison would only show noise.
void refuse_no_change(const std::string& variant, const std::string& setting, const Config& baseline) {
  Config changed = baseline;
  changed.apply_setting(setting);
  if (changed.toml(baseline.uses()) == baseline.toml(baseline.uses()))
    throw Error(ErrorKind::usage, variant, setting + " is what the config says already",
                "Leave it out, or take another value");
}

Settings settings_of(const std::string& variant, const Config& baseline) {
  Settings settings;
  for (std::size_t from = 0; from <= variant.size();) {
    const std::size_t end = std::min(variant.find(',', from), variant.size());
    const std::string part = variant.substr(from, end - from);
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos) throw Error(ErrorKind::usage, variant, "no = in '" + part + "'", "Write batch=64");
    const std::string_view key = key_of(part.substr(0, equals), baseline.uses(), variant);
    for (const auto& [path, why] : k_fixed_keys)
      if (key == path) throw Error(ErrorKind::usage, variant, fmt::format("{} cannot be an ablation: {}", path, why));
    if (sets_key(settings, key))
      throw Error(ErrorKind::usage, variant, fmt::format("{} is set twice", key),
                  "Make each value a change of its own");
    settings.push_back(fmt::format("{}{}", key, part.substr(equals)));
    refuse_no_change(variant, settings.back(), baseline);
    from = end + 1;
  }
  return settings;
}

struct Change {
  std::string name;
  Settings settings;
};

// Returns the unchanged config, each variant, and all of them together if they do not conflict.
std::vector<Change> changes_of(const std::vector<std::string>& variants, const Config& baseline) {
  std::vector<Change> changes{{"baseline", {}}};
  Change all{"all", {}};
  std::set<std::string> keys, names{"baseline", "all"};
  bool contradict = false;
  for (const std::string& variant : variants) {
    if (!names.insert(variant).second) throw Error(ErrorKind::usage, variant, "is given twice");
    changes.push_back({variant, settings_of(variant, baseline)});
    for (const std::string& setting : changes.back().settings) {
      contradict |= !keys.insert(setting.substr(0, setting.find('='))).second;
      all.settings.push_back(setting);
    }
  }
  if (variants.size() > 1 && !contradict) changes.push_back(std::move(all));
  return changes;
}

bool sets_key(std::span<const Change> changes, std::string_view key) {
  return std::ranges::any_of(changes, [&](const Change& change) { return sets_key(change.settings, key); });
}

// Returns the main metrics of the task. MASE has a separate scale for each period. The loss of a language model, in
// nats per token, counts as a metric unless a change alters the tokens.
std::vector<AblationMetric> metrics_for(unsigned uses, std::span<const Change> changes) {
  constexpr std::string_view k_token_keys[] = {"data.tokens", "data.vocabulary", "data.min_count"};
  const bool same_tokens = std::ranges::none_of(k_token_keys, [&](auto key) { return sets_key(changes, key); });
  std::vector<AblationMetric> metrics;
  for (const MainMetric& metric : find_task_kind(uses)->row.metrics) {
    const bool has_other_scale = metric.name == "mase" && sets_key(changes, "data.period");
    const bool is_loss = uses == k_language_model && (same_tokens || metric.name == "perplexity");
    if (!metric.name.empty() && !has_other_scale && !is_loss)
      metrics.push_back({std::string(metric.name), metric.higher_is_better});
  }
  return metrics;
}

std::string folder_name(std::string variant) {
  std::replace(variant.begin(), variant.end(), '/', '-');
  return variant;
}

// State that the runs share: backends, which keep their tuning, and warnings about data.
class Shared {
 public:
  std::shared_ptr<Backend> open(const Config& config) {
    std::shared_ptr<Backend>& backend = open_[{config.text("run.backend"), config.integer("run.threads")}];
    if (!backend) backend = open_backend(config);
    return backend;
  }
  void warn(const std::string& text) {  // each text once
    if (warned_.insert(text).second) print_line("warning: " + text);
  }

 private:
  std::map<std::pair<std::string, std::int64_t>, std::shared_ptr<Backend>> open_;
  std::set<std::string> warned_;
};

AblationVariant variant_of(const Change& change, const Config& baseline, Shared& shared, const std::string& out,
               const StageReport& stage) {
  Config config = baseline;
  for (const std::string& setting : change.settings) config.apply_setting(setting);
  return {change.name, [=, &shared] {
            AblationSetup setup{shared.open(config), make_task(config, ""), trainer_options(config)};
            for (const std::string& warning : data_warnings(*setup.task, config)) shared.warn(warning);
            setup.options.stage = stage;
            if (out.empty()) return setup;
            setup.options.folder = out + "/" + folder_name(change.name);
            disk().make_folder(setup.options.folder);
            save_config(config, setup.options.folder + "/config.toml");
            setup.starts = [config](const TrainerOptions& run) {
              Config own = config;
              own.take(run.schedule);
              own.take(run);
              disk().make_folder(run.folder);
              save_config(own, run.folder + "/config.toml");
            };
            return setup;
          }};
}

// Empty: the metric of the change is comparable with the baseline's.
std::string other_measure(const Change& change, const AblationMetric& metric) {
  for (const std::string& setting : change.settings)
    for (const OtherMeasure& row : k_other_measures)
      if (sets_key({setting}, row.key) && row.covers(metric.name))
        return fmt::format("not compared: {} {}", row.key, row.why);
  return {};
}

// Returns the verdict of a row, in the order of the table of words.
std::string verdict_of(const AblationResult& row, const Change& change, const AblationMetric& metric) {
  if (!row.failure.empty()) return row.failure;
  if (std::string other = other_measure(change, metric); !other.empty()) return other;
  struct Word {
    Shift AblationResult::*shift;
    Shift value;
    std::string_view text;
  };
  const Shift better = metric.higher_is_better ? Shift::higher : Shift::lower;
  const Shift worse = metric.higher_is_better ? Shift::lower : Shift::higher;
  const Word words[] = {
      {&AblationResult::at_seconds, better, "better at equal time"},
      {&AblationResult::at_seconds, worse, "worse at equal time"},
      {&AblationResult::speed, Shift::higher, "faster"},
      {&AblationResult::speed, Shift::lower, "slower"},
      {&AblationResult::at_items, better, "better per item"},
      {&AblationResult::at_items, worse, "worse per item"},
  };
  std::string text;
  for (const Word& word : words)
    if (row.*word.shift == word.value) text += fmt::format("{}{}", text.empty() ? "" : ", ", word.text);
  return text.empty() ? "within the spread" : text;
}

std::string_view shift_word(Shift shift) {
  constexpr std::string_view k_words[] = {"within", "lower", "higher"};
  return k_words[static_cast<int>(shift)];
}

Report json_of(const Spread& s) { return Report().add("mean", s.mean).add("low", s.low).add("high", s.high); }

Report json_of(const AblationRun& run) {
  ReportList points;
  for (const AblationRun::Point& p : run.points)
    points.push_back(
        Report().add("items", p.items).add("seconds", p.seconds).add("loss", p.loss).add("metric", p.metric));
  return Report()
      .add("seed", run.seed)
      .add("items_per_second", run.items_per_second)
      .add("points", points);
}

Report json_of(const AblationTable& table, std::span<const Change> changes, const std::string& config) {
  ReportList rows;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const AblationResult& row = table.rows[i];
    Report r;
    const bool is_baseline = i == 0;
    r.add("name", row.name).add("settings", changes[i].settings);
    r.add("verdict", is_baseline ? "baseline" : verdict_of(row, changes[i], table.metric));
    r.add("bytes", row.bytes).add("failed", !row.failure.empty());
    ReportList runs;
    for (const AblationRun& run : row.runs) runs.push_back(json_of(run));
    if (row.failure.empty()) {
      r.add("items_per_second", json_of(row.items_per_second)).add("epoch_seconds", json_of(row.epoch_seconds));
      r.add("loss_at_items", json_of(row.loss_at_items)).add("loss_at_seconds", json_of(row.loss_at_seconds));
      r.add("metric_at_items", json_of(row.metric_at_items)).add("metric_at_seconds", json_of(row.metric_at_seconds));
    }
    if (row.failure.empty() && !is_baseline) {
      r.add("speed", std::string(shift_word(row.speed))).add("at_items", std::string(shift_word(row.at_items)));
      r.add("at_seconds", std::string(shift_word(row.at_seconds)));
    }
    r.add("runs", runs);
    rows.push_back(std::move(r));
  }
  Report report;
  report.add("config", config).add("items", table.items).add("seconds", table.seconds);
  report.add("metric", table.metric.name).add("higher_is_better", table.metric.higher_is_better).add("variants", rows);
  return report;
}

std::string spread_text(const Spread& s) { return fmt::format("{:.4g} ({:.4g} - {:.4g})", s.mean, s.low, s.high); }

Report text_of(const AblationTable& table, std::span<const Change> changes) {
  const std::string& metric = table.metric.name;
  const bool is_loss = metric == AblationMetric{}.name;
  TextTable rows{{"change", "items/s", "speed", "epoch", "memory"}, {}};
  for (const std::string& column : {metric + " at equal items", metric + " at equal time"}) rows.head.push_back(column);
  if (!is_loss) rows.head.push_back("loss at equal time");
  rows.head.push_back("verdict");
  const double base = table.rows[0].items_per_second.mean;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const AblationResult& row = table.rows[i];
    std::vector<std::string> cells(rows.head.size(), "-");
    cells[0] = row.name;
    cells[4] = bytes_text(row.bytes);
    cells.back() = i == 0 ? "baseline" : verdict_of(row, changes[i], table.metric);
    if (row.failure.empty()) {
      cells[1] = figure_text(row.items_per_second.mean);
      cells[2] = fmt::format("x {:.2f}", row.items_per_second.mean / base);
      cells[3] = fmt::format("{:.3g} s", row.epoch_seconds.mean);
      cells[5] = spread_text(row.metric_at_items);
      cells[6] = spread_text(row.metric_at_seconds);
      if (!is_loss) cells[7] = spread_text(row.loss_at_seconds);
    }
    rows.rows.push_back(std::move(cells));
  }
  Report report;
  report.add("compared by", fmt::format("validation {} ({} is better)", metric,
                                        table.metric.higher_is_better ? "higher" : "lower"));
  report.add("compared after items", table.items);
  report.add("compared after time", fmt::format("{:.3g} s", table.seconds));
  report.add("changes: mean (lowest - highest of the seeds)", rows);
  return report;
}

int execute(const AblationArguments& options) {
  Config config = load_config(options, options.config);
  make_data_path_absolute(config, options.config);
  config.refuse_unread();
  Activity busy("loading the data");
  const std::vector<Change> changes = changes_of(options.variants, config);
  if (!options.out.empty()) prepare_run_folder(options.out, /*resume=*/false);
  Shared shared;
  std::vector<AblationVariant> variants;
  const auto stage = [show = busy.stages()](WorkStage s) {
    if (s.doing == "training") s.of = 0;  // ends by time, not by count
    show(s);
  };
  AblationOptions ablation = options.ablation;
  ablation.metrics = metrics_for(config.uses(), changes);
  for (const Change& change : changes) variants.push_back(variant_of(change, config, shared, options.out, stage));
  catch_stop_signals();
  AblationTable table;
  const auto n_runs = static_cast<std::int64_t>(variants.size()) * options.ablation.seeds;
  std::int64_t n_done = 0;
  busy.say(counted(n_runs, "run"));
  try {
    table = run_ablation(variants, ablation, [&](const std::string& name, const AblationRun& run) {
      print_progress(wrapped(fmt::format("change={} seed={} loss={:.5g} items_per_second={:.4g} items={:.4g}", name,
                                         run.seed, run.points.back().loss, run.items_per_second,
                                         run.points.back().items),
                             terminal_width(STDERR_FILENO), 2));
      busy.say(fmt::format("{} of {} runs done", ++n_done, n_runs));
    }, [] { return stop_signal() != 0; });
  } catch (const Error&) {
    if (stop_signal() != 0) return 128 + stop_signal();
    throw;
  }
  busy.finish();
  const Report json = json_of(table, changes, options.config);
  const auto write = [&] {
    if (!options.out.empty()) write_text_file(options.out + "/ablation.json", json.json() + "\n");
  };
  write_and_print(write, [&] { (options.json ? json : text_of(table, changes)).print(options.json); });
  return 0;
}

}  // namespace

const Command ablation_command =
    command<AblationArguments>(k_understand, "ablation",
            "Run an ablation: change one option at a time and compare speed, memory and loss.",
            add_options, execute, {"lever", "ablate"});

}  // namespace unroll::cli
