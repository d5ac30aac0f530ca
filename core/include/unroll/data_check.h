// SPDX-License-Identifier: Apache-2.0
// Check a dataset for common problems before training. `name` is the file name for messages; `options` are those of the
// task and determine the splits. docs/training.md lists the checks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "unroll/tasks.h"

namespace unroll {

struct DataFinding {
  bool error = false;  // true: training refuses the file; false: a warning
  std::string check;   // "empty lines", "lengths", "duplicates", "vocabulary", "labels", "numbers", "file"
  std::string what;    // description with line numbers and shares
};
struct DataCheck {
  std::vector<std::pair<std::string, double>> figures;  // "rows", "longest", "unknown in validation" (a share) ...
  std::vector<DataFinding> findings;
};
UNROLL_API DataCheck check_data(const LanguageModelOptions& options, std::shared_ptr<const Vfs::Reader> file,
                                const std::string& name);
UNROLL_API DataCheck check_data(const ForecastOptions& options, std::shared_ptr<const Vfs::Reader> file,
                                const std::string& name);
UNROLL_API DataCheck check_data(const ClassifyOptions& options, std::shared_ptr<const Vfs::Reader> file,
                                const std::string& name);
UNROLL_API DataCheck check_data(const LabelOptions& options, std::shared_ptr<const Vfs::Reader> file,
                                const std::string& name);
UNROLL_API DataCheck check_data(const TranslateOptions& options, std::shared_ptr<const Vfs::Reader> file,
                                const std::string& name);
UNROLL_API DataCheck check_data(const SummarizeOptions& options, std::shared_ptr<const Vfs::Reader> file,
                                const std::string& name);
UNROLL_API DataCheck check_data(const DocumentOptions& options, std::shared_ptr<const Vfs::Reader> file,
                                const std::string& name);
// Of a text in memory.
template <class TaskOptions>
DataCheck check_data(const TaskOptions& options, std::string_view text, const std::string& name) {
  return check_data(options, split_from_text(std::string(text), name).file, name);
}

}  // namespace unroll
