// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/run/train_report.h"

#include <fmt/format.h>

#include "core/support/text/shell_word.h"
#include "frontends/cli/terminal/signals.h"

namespace unroll::cli {

namespace {

// Names as programs read them; people get words and units for them.
void add_communication(Report& report, const FinishedRun& run) {
  if (!run.ranks) return;
  const Communicator::Exchanged exchanged = run.ranks->exchanged();
  report.add("ranks", run.ranks->size()).add("communication_seconds", exchanged.seconds);
  report.add("communication_bytes", exchanged.sent_bytes);
  if (exchanged.seconds > 0)
    report.add("communication_gbps", static_cast<double>(exchanged.sent_bytes) / exchanged.seconds / 1e9);
}

}  // namespace

Report report_for_programs(const FinishedRun& run) {
  const TrainResult& result = run.result;
  Report report;
  report.add("folder", run.folder).add("updates", result.updates);
  if (!result.validation_metrics.empty()) {
    report.add("best_validation_loss", result.best_validation_loss);
    if (run.best_update) report.add("best_update", *run.best_update);
    report.add("last_validation_loss", result.last_validation_loss);
    Report metrics;
    for (const auto& [name, value] : result.validation_metrics) metrics.add(name, value);
    report.add("validation_metrics", metrics);
  }
  report.add("skipped_updates", result.skipped_updates).add("rollbacks", result.rollbacks);
  report.add("data_wait", result.data_wait);
  report.add("seconds", result.seconds);
  add_communication(report, run);
  if (result.estimated_seconds > 0) report.add("estimated_seconds", result.estimated_seconds);
  if (run.estimate.bytes > 0) report.add("estimated_bytes", run.estimate.bytes);
  if (run.peak > 0) report.add("peak_bytes", run.peak);
  report.add("diverged", run.diverged);
  report.add("interrupted", stop_signal() != 0);
  report.add("out_of_time", result.out_of_time);
  report.add("out_of_patience", result.out_of_patience);
  ReportList list;
  for (const Advice& a : run.advice) list.push_back(Report().add("symptom", a.symptom).add("text", a.text));
  report.add("advice", list);
  return report;
}

Report report_for_people(const FinishedRun& run) {
  const TrainResult& result = run.result;
  Report report;
  report.add("run", run.folder).add("updates", result.updates);
  if (!result.validation_metrics.empty()) {
    const std::string at = run.best_update ? fmt::format(" (update {})", *run.best_update) : "";
    report.add("best validation loss", figure_text(result.best_validation_loss) + at);
    report.add("last validation loss", result.last_validation_loss);
    for (const auto& [name, value] : result.validation_metrics) report.add("validation " + name, value);
  }
  if (result.skipped_updates > 0) report.add("skipped_updates", result.skipped_updates);
  if (result.rollbacks > 0) report.add("rollbacks", result.rollbacks);
  report.add("seconds", result.seconds).add("data_wait", result.data_wait);
  add_communication(report, run);
  if (run.peak > 0) report.add("peak memory", bytes_text(run.peak));
  const char* why = stop_signal() != 0       ? "yes, by a signal"
                    : result.out_of_time     ? "yes, by train.max_minutes"
                    : result.out_of_patience ? "yes, by train.patience"
                    : result.interrupted     ? "yes, by --max-updates"
                                             : "no";
  report.add("stopped early", why);
  if (run.diverged) report.add("diverged", "yes");
  const bool unfinished = stop_signal() != 0 || result.out_of_time;
  const std::string config = run.config.empty() ? run.folder + "/config.toml" : run.config;
  report.add("next", run.diverged ? fmt::format("unroll train {} --find-lr", shell_word(config))
                     : unfinished ? fmt::format("unroll train --resume --out {}", shell_word(run.folder))
                                : fmt::format("unroll eval {}", shell_word(run.folder)));
  return report;
}

}  // namespace unroll::cli
