// SPDX-License-Identifier: Apache-2.0
// What a run folder tells of a run that is over or going on, read for people: its curves and its config.
#pragma once

#include <cstddef>
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
  std::vector<std::string> order;  // names of the curves, in the order they first appear
  // "loss", "validation_loss", "lr", ...: the numbers of metrics.jsonl; "saturated LOOP", "dead LOOP" and
  // "update_ratio" (the largest) of watched updates; "updates_per_second" of log.txt.
  std::map<std::string, Curve> curves;
  std::size_t unreadable_lines = 0;  // of metrics.jsonl: cut off by a kill, or not of the trainer
};
// Throws Error(input_file) when the folder has no metrics.jsonl.
RunRecord read_run(const std::string& folder);
// The same from the text of metrics.jsonl and log.txt.
RunRecord record_of(const std::string& metrics, const std::string& log);
// "1 line of metrics.jsonl could not be read"
std::string unreadable_text(const RunRecord& run);

}  // namespace unroll::cli
