// SPDX-License-Identifier: Apache-2.0
// `unroll backtest`: forecasts of the test set with a rolling origin, beside those of the baselines.
#include "unroll/tasks/backtest.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "frontends/cli/commands.h"
#include "frontends/cli/predict/forecast_file.h"
#include "frontends/cli/predict/scores.h"
#include "frontends/cli/report/chart.h"
#include "frontends/cli/run/baseline_comparison.h"
#include "frontends/cli/run/progress.h"
#include "frontends/cli/tasks/task_row.h"
#include "frontends/cli/terminal/activity.h"
#include "frontends/cli/terminal/report.h"
#include "frontends/cli/terminal/signals.h"
#include "frontends/cli/terminal/terminal.h"
#include "frontends/config/run/job.h"
#include "frontends/config/run/run_folder.h"
#include "frontends/config/run/split_size.h"
#include "frontends/config/text_file.h"
#include "unroll/support/error.h"

namespace unroll::cli {
namespace {

struct BacktestArguments : ConfigArguments {
  std::int64_t folds = 5;
  bool refit = true;
  std::vector<std::string> levels;  // of intervals, in percent
  std::string forecasts, svg;
  bool json = false;
};

void add_options(CLI::App& app, BacktestArguments& o) {
  add_operand(app, "config", o.config, "Config file of a forecast.");
  group(app, "Training");
  add_integer(app, "--folds", o.folds, "Parts into which the forecasts of the test set are cut, in time order.",
              {1, 10000, 5});
  add_flag(app, "--refit,!--no-refit", o.refit,
           "Train anew on the rows before each fold (default), or once on the rows before the test set.");
  add_texts(app, "--level", o.levels, "PERCENT",
            "Score prediction intervals too, such as 80,95: their coverage and width, and CRPS.", "the forecast alone");
  add_seed(app, o);
  add_set(app, o);
  group(app, "Output");
  add_text(app, "--forecasts", o.forecasts, "FILE",
           "Write every forecast to this CSV file, a row for each step ahead: the fold, where it starts, the date, the "
           "value, the forecast, its intervals, and the forecasts of the baselines.");
  add_text(app, "--svg", o.svg, "FILE", "Draw the errors by step ahead and by fold to this SVG file.");
  add_json(app, o.json);
  add_config_device(app, o);
  add_examples(app,
               "  unroll backtest docs/examples/co2-year.toml --folds 3\n"
               "  unroll backtest sales.toml --no-refit --forecasts forecasts.csv");
}

// The errors of the model, then of each baseline, over the forecasts of a fold, a distance or a series.
struct Scores {
  std::string name;
  IntervalScores intervals;
  std::vector<ForecastErrors> errors = {};

  void add(const PastForecast& f) {
    intervals.add(f);
    errors.resize(1 + f.baselines.size());
    if (std::isnan(f.value)) return;
    errors[0].add(f.forecast, f.value, f.unit);
    for (std::size_t b = 0; b < f.baselines.size(); ++b) errors[b + 1].add(f.baselines[b], f.value, f.unit);
  }
  Metrics metrics(std::size_t method) const {
    Metrics values;
    errors[method].put(values, "");
    if (method == 0) intervals.put(values);
    return values;
  }
};

class BacktestScores {
 public:
  BacktestScores(std::vector<std::string> baselines, std::span<const double> levels)
      : baselines_(std::move(baselines)), none_(levels), all_{"", none_} {}

  void add(std::int64_t fold, const PastForecast& f) {
    all_.add(f);
    if (std::ssize(folds_) < fold) folds_.push_back({fmt::format("{}: after {}", fold, f.origin), none_});
    folds_.back().add(f);
    if (std::ssize(ahead_) < f.ahead) ahead_.push_back({fmt::format("{}", f.ahead), none_});
    ahead_[f.ahead - 1].add(f);
    const auto [place, is_new] = places_.emplace(f.series, series_.size());
    if (is_new) series_.push_back({f.series, none_});
    series_[place->second].add(f);
  }

  void add_text(Report& report) const {
    add_metric_tables(report, all_.metrics(0), of_baselines(all_));
    for (const auto& [of, scores] : groups()) {
      if (of == "series" && scores.size() < 2) continue;
      constexpr std::size_t k_most_rows = 12;
      const std::size_t every = (scores.size() + k_most_rows - 1) / k_most_rows;
      TextTable table{{words_of(of), "model"}, {}};
      for (const std::string& name : baselines_) table.head.push_back(words_of(name));
      for (std::size_t i = 0; i < scores.size(); i += every) {
        std::vector<std::string>& row = table.rows.emplace_back(std::vector{scores[i].name});
        for (std::size_t m = 0; m <= baselines_.size(); ++m) row.push_back(figure_text(value(scores[i], m)));
      }
      const std::string shown = every > 1 ? fmt::format(", one of {}", every) : "";
      report.add(fmt::format("{} by {}{}", metric(), words_of(of), shown), table);
    }
  }

  void add_json(Report& report) const {
    add_metrics(report, all_.metrics(0), of_baselines(all_));
    for (const auto& [of, scores] : groups()) {
      ReportList list;
      for (const Scores& one : scores)
        add_metrics(list.emplace_back(Report().add("name", one.name)), one.metrics(0), of_baselines(one));
      report.add(of, list);
    }
  }

  std::vector<Panel> panels() const {
    std::vector<Panel> panels;
    for (const auto& [of, scores] : groups()) {
      if (of == "series") continue;
      std::vector<ChartLine> lines;
      for (std::size_t m = 0; m <= baselines_.size(); ++m) {
        lines.push_back({m == 0 ? "model" : words_of(baselines_[m - 1]), static_cast<int>(m), m > 0, {}});
        for (std::size_t i = 0; i < scores.size(); ++i)
          lines[m].points.emplace_back(static_cast<double>(i + 1), value(scores[i], m));
      }
      panels.push_back(chart("Errors by " + words_of(of), std::move(lines),
                             {.x = words_of(of), .y = metric(), .may_be_logarithmic = false}));
    }
    return panels;
  }

  std::optional<Advice> advice(const Task& task) const {
    return baseline_advice(task, all_.metrics(0), of_baselines(all_));
  }

 private:
  using Groups = std::array<std::pair<std::string, std::span<const Scores>>, 3>;
  Groups groups() const { return {{{"steps_ahead", ahead_}, {"fold", folds_}, {"series", series_}}}; }
  std::string metric() const { return all_.errors[0].n_scaled > 0 ? "mase" : "mae"; }
  double value(const Scores& scores, std::size_t method) const {
    const Metrics values = scores.metrics(method);
    const auto at = values.find(metric());
    return at == values.end() ? std::nan("") : at->second;
  }
  std::map<std::string, Metrics> of_baselines(const Scores& scores) const {
    std::map<std::string, Metrics> all;
    for (std::size_t b = 0; b < baselines_.size(); ++b) all[baselines_[b]] = scores.metrics(b + 1);
    return all;
  }

  std::vector<std::string> baselines_;
  IntervalScores none_;  // of no forecasts
  Scores all_;
  std::vector<Scores> folds_, ahead_, series_;
  std::map<std::string, std::size_t> places_;  // in series_
};

int execute(const BacktestArguments& options) {
  Config config = load_config(options, options.config);
  make_data_path_absolute(config, options.config);
  if (config.uses() != k_forecast)
    config.refuse("task.kind", "backtest is for forecasts", "Use `unroll train` and `unroll eval`");
  Activity busy("loading the data");
  const auto task = make_task(config, "");
  const auto backend = open_backend(config);
  for (const std::string& note : task->notes()) print_progress("data: " + without_folder(note));
  for (const std::string& warning : data_warnings(*task, config)) print_line("warning: " + warning);
  const std::vector<std::string> baselines = BaselineForecaster::names(*task);
  const std::vector<double> levels = shares_of(options.levels);
  ForecastFile file(options.forecasts, {{"fold"}, options.levels, baselines});
  catch_stop_signals();
  BacktestOptions how{.folds = options.folds, .refit = options.refit, .training = trainer_options(config)};
  if (!levels.empty()) how.levels = IntervalScores::levels(levels);
  how.stop = [] { return stop_signal() != 0; };
  const auto say = [&](std::int64_t fold, std::int64_t update) {
    const std::string of = options.refit ? fmt::format("training for fold {} of {}", fold, options.folds) : "training";
    busy.say(update > 0 ? fmt::format("{}, update {}", of, update) : of);
  };
  how.report = [&](std::int64_t fold, const Progress& p) { say(fold, p.update); };
  how.training.warn = [](const std::string& text) { print_line("warning: " + text); };
  say(1, 0);
  BacktestScores scores(baselines, levels);
  unroll::backtest(task, *backend, how, [&](std::int64_t fold, PastForecast f) {
    scores.add(fold, f);
    f.bounds.erase(f.bounds.begin(), f.bounds.end() - 2 * std::ssize(levels));
    file.add(f, {fmt::format("{}", fold)});
  });
  busy.finish();
  if (stop_signal() != 0) return 128 + stop_signal();
  file.finish();
  if (!options.svg.empty()) write_text_file(options.svg, svg_file("Backtest: " + options.config, scores.panels()));
  Report report;
  report.add("config", options.config).add("folds", options.folds);
  report.add("trained", options.refit ? "anew for each fold" : "once");
  if (options.json) scores.add_json(report);
  else scores.add_text(report);
  if (const std::optional<Advice> advice = scores.advice(*task); advice && !options.json)
    print_line(wrapped(advice_line(*advice), terminal_width(STDERR_FILENO), 2));
  report.print(options.json);
  return 0;
}

}  // namespace

const Command backtest_command =
    command<BacktestArguments>(k_begin, "backtest", "Forecast the test set with a rolling origin, beside baselines.",
                               add_options, execute);

}  // namespace unroll::cli
