// SPDX-License-Identifier: Apache-2.0
// `unroll explain`: compiles and briefly runs the plans of training, and shows their time.
#include <fmt/format.h>

#include <chrono>
#include <map>

#include "core/support/elapsed.h"
#include "core/support/files/paths.h"
#include "core/train/device/options.h"
#include "core/train/device/plan_training.h"
#include "core/train/update/update_graph.h"
#include "frontends/cli/bench/compare_model.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/explain/explain_report.h"
#include "frontends/cli/report/plan_picture.h"
#include "frontends/cli/terminal/activity.h"
#include "frontends/config/run/job.h"
#include "frontends/config/text_file.h"
#include "unroll/support/error.h"
#include "unroll/support/vfs.h"

namespace unroll::cli {
namespace {

struct ExplainArguments : ComparedArguments {
  double seconds = 1;
  bool full = false;
  std::string svg;
  std::string out;
  bool json = false;
};

void add_options(CLI::App& app, ExplainArguments& o) {
  add_operand(app, "model", o.config, "Run folder or config file.");
  group(app, "Model");
  add_weights(app, o);
  add_set(app, o);
  add_seed(app, o);
  group(app, "Measurement");
  add_number(app, "--seconds", o.seconds, "Seconds to time each plan, after 20 warm-up runs.",
             {0, 3600, 1});
  group(app, "Output");
  add_flag(app, "--full", o.full, "Print every change that a pass made and every call too.");
  add_text(app, "--svg", o.svg, "FILE", "Draw the plans to this SVG file.");
  add_text(app, "--out", o.out, "FOLDER",
           "Write explain.json and plan.svg to this folder, such as the run's own: `report` shows them.");
  add_json(app, o.json);
  add_config_device(app, o);
  add_memory_limit(app, o);
  add_examples(app,
               "  unroll explain runs/char-lm --svg plan.svg\n"
               "  unroll explain docs/examples/cells/slstm.toml --threads 1 --json");
}

using Clock = std::chrono::steady_clock;

// Skips the first runs, which tune schedules, unless they take very long.
class Stopwatch {
 public:
  Stopwatch(ProfilingBackend& backend, double seconds) : backend_(backend), seconds_(seconds) {}

  // Call before each run, and after the last one.
  bool is_over() {
    constexpr int k_warm_runs = 20, k_warm_least = 2, k_fewest_runs = 3;
    constexpr double k_warm_seconds = 5;
    const int done = n_++;
    if (warm_ > 0) return done - warm_ >= k_fewest_runs && seconds_since(start_) >= seconds_;
    if (done < k_warm_least || (done < k_warm_runs && seconds_since(start_) < k_warm_seconds)) return false;
    backend_.wait();
    backend_.mark();
    warm_ = done;
    start_ = Clock::now();
    return false;
  }

 private:
  ProfilingBackend& backend_;
  double seconds_;
  int n_ = 0;
  int warm_ = 0;  // runs that are not counted; 0: not known yet
  Clock::time_point start_ = Clock::now();
};

// Repeats the same first batches, so that few plans are compiled and each runs often. They are built in advance, so
// that no batch is built during a run.
class FirstBatches final : public Task {
 public:
  FirstBatches(std::shared_ptr<const Task> task, std::int64_t train) : task_(std::move(task)), train_(train) {}
  TaskGraph build(Scope& scope, const Batch& like) const override { return task_->build(scope, like); }
  std::int64_t shards() const override { return task_->shards(); }
  std::int64_t evaluation_shards(Split split) const override { return task_->evaluation_shards(split); }
  std::int64_t n_batches(Split split) const override {
    return std::min(task_->n_batches(split), split == Split::train ? train_ : 1);
  }
  Batch batch(Split split, std::uint64_t seed, std::int64_t, std::int64_t index) const override {
    const auto [at, is_new] = made_.try_emplace({split, index});
    if (is_new) at->second = task_->batch(split, seed, 0, index);
    return at->second;
  }

 private:
  std::shared_ptr<const Task> task_;
  std::int64_t train_;
  mutable std::map<std::pair<Split, std::int64_t>, Batch> made_;  // accessed from one thread
};

// Returns training options without those that do not affect plans.
TrainerOptions plain_training(TrainerOptions o) {
  o = updates_alone(std::move(o));
  o.schedule = {};
  o.max_updates = (std::int64_t{1} << 30) / o.accumulate;
  o.epochs = o.stop_at = o.log_every = 0;
  o.prefetch = 0;
  o.on_bad = OnBad::skip;
  o.max_bad_updates = 0;
  o.warn = [](const std::string&) {};
  return o;
}

// Names a plan by its outputs (core/train/update/update_graph.h).
std::string name_of(const Plan& plan, std::int64_t accumulate) {
  const auto gives = [&](std::string_view name) {
    const auto outputs = plan.graph->outputs();
    return std::any_of(outputs.begin(), outputs.end(), [&](const NamedValue& o) { return o.name == name; });
  };
  const bool gives_leaf = gives(accumulated_name(0, k_sums_part));
  return gives("report")     ? "evaluation"
         : !gives(k_totals)  ? (gives_leaf ? "gradient of a batch" : "sum of gradients")
         : accumulate > 1    ? "update from the gradients"
                             : "update";
}

// For a backend without a device: returns the plans that the trainer would compile for the first batch.
std::vector<NamedPlan> planned(const CompareModel& model, ProfilingBackend& backend) {
  plan_training(*model.task, backend, plain_training(model.training));
  std::vector<NamedPlan> plans;
  for (ProfiledPlan& explained : backend.plans()) {
    PlanTable table = plan_table(explained);
    const std::string name = name_of(*explained.plan, model.training.accumulate);
    plans.push_back({name, std::move(explained), std::move(table)});
  }
  return plans;
}

class Explaining {
 public:
  Explaining(const CompareModel& model, ProfilingBackend& backend, double seconds)
      : backend_(backend), seconds_(seconds), accumulate_(model.training.accumulate),
        task_(std::make_shared<FirstBatches>(model.task, accumulate_)),
        trainer_(task_, backend, plain_training(model.training)) {
    if (!model.parameters.empty()) trainer_.set_parameters(model.parameters);
  }

  std::vector<NamedPlan> run() {
    Stopwatch updates(backend_, seconds_);
    trainer_.fit({}, [&] { return updates.is_over(); });
    take();
    if (task_->n_batches(Split::validation) > 0) {
      Stopwatch evaluations(backend_, seconds_);
      while (!evaluations.is_over()) trainer_.evaluate(Split::validation);
      take();
    }
    return std::move(plans_);
  }

 private:
  // Takes the new plans, except one that the trainer compiles but does not run.
  void take() {
    std::vector<ProfiledPlan> all = backend_.plans();
    for (; n_seen_ < all.size(); ++n_seen_) {
      const std::size_t i = n_seen_;
      if (all[i].runs == 0) continue;
      PlanTable table = plan_table(all[i]);
      plans_.push_back({name_of(*all[i].plan), std::move(all[i]), std::move(table)});
    }
  }
  // A plan for batches of another shape gets another name.
  std::string name_of(const Plan& plan) {
    const std::string name = unroll::cli::name_of(plan, accumulate_);
    const int n = ++names_[name];
    return n == 1 ? name : fmt::format("{} {}", name, n);
  }

  ProfilingBackend& backend_;
  double seconds_;
  std::int64_t accumulate_;
  std::shared_ptr<const Task> task_;
  Trainer trainer_;
  std::vector<NamedPlan> plans_;
  std::size_t n_seen_ = 0;            // of the backend's plans
  std::map<std::string, int> names_;  // number of plans with each name
};

CompareModel model_of(const ExplainArguments& options) {
  if (kind_of_path(options.config) == PathKind::none)
    throw Error(ErrorKind::input_file, options.config, "there is no such file or folder",
                "Name a run folder or a config file");
  if (!is_folder(options.config) && !options.config.ends_with(".toml"))
    throw Error(ErrorKind::usage, options.config, "is neither a run folder nor a config file (.toml)",
                "Name what `unroll train` wrote or reads");
  return compare_model(options);
}

Report header_of(const ExplainArguments& options, const CompareModel& model, const Backend& backend) {
  std::vector<std::string> inputs;
  for (const auto& [name, tensor] : model.task->batch(Split::train, model.training.seed, 0, 0).inputs)
    inputs.push_back(name + " " + tensor.type().text());
  Report report;
  report.add("model", options.config).add("batch", inputs).add("backend", backend.describe().name);
  report.add("device", backend.describe().device);
  const Capabilities& can = backend.describe();
  if (can.runs) report.add("threads", can.threads);
  if (can.memory_bytes > 0) report.add("device memory", bytes_text(can.memory_bytes));
  report.add("precision", std::string(precision_name(model.training.precision)));
  return report;
}

int execute(const ExplainArguments& options) {
  Activity busy("loading the model");
  CompareModel model = model_of(options);
  busy.say("timing the plans");
  model.training.stage = [show = busy.stages()](WorkStage stage) {
    if (stage.doing == "training") stage.of = 0;  // ends by time, not by count
    show(stage);
  };
  ProfilingBackend backend(open_backend(model.backend, model.threads, /*predict=*/true));
  const std::vector<NamedPlan> plans = backend.describe().runs
                                           ? Explaining(model, backend, options.seconds).run()
                                           : planned(model, backend);
  busy.finish();
  Report report = header_of(options, model, backend), json = report;
  ReportList list;
  for (const NamedPlan& plan : plans) list.push_back(plan_json(plan));
  json.add("plans", list);
  const auto print = [&] {
    (options.json ? json : report).print(options.json);
    for (const NamedPlan& plan : plans)
      if (!options.json) {
        std::fputs("\n", stdout);
        plan_text(plan, options.full).print(false);
      }
  };
  const auto write = [&] {
    const std::string text = json.json() + "\n";
    if (!options.svg.empty()) write_text_file(options.svg, standalone_svg(pictures_of(text)));
    if (options.out.empty()) return;
    disk().make_folder(options.out);
    write_text_file(options.out + "/explain.json", text);
    write_text_file(options.out + "/plan.svg", standalone_svg(pictures_of(text)));
  };
  write_and_print(write, print);
  return 0;
}

}  // namespace

const Command explain_command =
    command<ExplainArguments>(k_understand, "explain",
            "Explain the execution plan: passes applied or skipped, kernels chosen, predicted and measured time.",
            add_options, execute);

}  // namespace unroll::cli
