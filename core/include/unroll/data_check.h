// SPDX-License-Identifier: Apache-2.0
// What is odd about a data file, before anything is trained on it. `name` is the file's name for messages; options are
// those of the task, whose splits are looked at. docs/training.md has the list of checks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "unroll/tasks.h"

namespace unroll {

struct DataFinding {
  bool error = false;  // training refuses the file; else it trains, and may mislead
  std::string check;   // "empty lines", "lengths", "duplicates", "vocabulary", "labels", "numbers", "file"
  std::string what;    // with lines and shares
};
struct DataCheck {
  std::vector<std::pair<std::string, double>> figures;  // "rows", "longest", "unknown in validation" (a share) ...
  std::vector<DataFinding> findings;
};
UNROLL_API DataCheck check_data(const LanguageModelOptions& options, std::string_view text, const std::string& name);
UNROLL_API DataCheck check_data(const ForecastOptions& options, std::string_view csv, const std::string& name);
UNROLL_API DataCheck check_data(const ClassifyOptions& options, std::string_view csv, const std::string& name);
UNROLL_API DataCheck check_data(const LabelOptions& options, std::string_view text, const std::string& name);
UNROLL_API DataCheck check_data(const TranslateOptions& options, std::string_view text, const std::string& name);
UNROLL_API DataCheck check_data(const DocumentOptions& options, std::string_view text, const std::string& name);

}  // namespace unroll
