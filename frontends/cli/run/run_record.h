// SPDX-License-Identifier: Apache-2.0
// Reads a run folder for a report: the curves of a finished or current run, its config and a description.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace unroll::cli {

// (update, value), in the order of the file; finite numbers, up to 1e300.
using Curve = std::vector<std::pair<double, double>>;

struct RunRecord {
  std::string name;    // of its folder
  std::string config;  // TOML; empty when there is none
  std::vector<std::string> order;  // names of the curves, in order of first appearance
  // The numbers of metrics.jsonl: "loss", "validation_loss", "lr", ...; "saturated LOOP", "dead LOOP" and
  // "update_ratio" (the largest) of watched updates; "updates_per_second" of log.txt.
  std::map<std::string, Curve> curves;
  std::size_t unreadable_lines = 0;  // of metrics.jsonl: truncated by a kill, or not written by the trainer
  double updates = 0;                // done
  double planned = 0;                // from log.txt; 0: unknown
  double seconds = 0;                // of the updates in log.txt, without validations; 0: unknown
  bool not_finite = false;           // of the last loss

  // From the config; empty if it does not define them.
  std::string kind;   // task.kind: "forecast"
  std::string data;   // name of the data file
  std::string model;  // "LSTM, 1 layer, 256 units"
};
// Throws Error(input_file) if the folder has no metrics.jsonl.
RunRecord read_run(const std::string& folder);
// The same from the text of metrics.jsonl, log.txt and config.toml.
RunRecord record_of(const std::string& metrics, const std::string& log, const std::string& config);
// Returns the lowest validation loss and its update; null without a validation.
const std::pair<double, double>* best_validation(const RunRecord& run);
// "finished", "stopped at 60 of 300 updates", "diverged: the last loss is not finite".
std::string status_text(const RunRecord& run);
// Returns task.kind as a heading: "Forecast", "Language model"; "Run" without one.
std::string task_name(const std::string& word);
// "1 line of metrics.jsonl could not be read"
std::string unreadable_text(const RunRecord& run);

}  // namespace unroll::cli
