// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/answers/predict_picture.h"

#include <fmt/format.h>

#include "frontends/cli/run/run_record.h"
#include "frontends/cli/terminal/report.h"
#include "unroll/error.h"

namespace unroll::cli {
void check_picture(const RunFolder& run, const PredictArguments& options) {
  if (options.svg.empty()) return;
  if (const TaskKind* kind = find_task_kind(run.config.uses()); kind && kind->row.undrawn)
    throw Error(ErrorKind::usage, "--svg", kind->row.undrawn,
                fmt::format(fmt::runtime(kind->row.undrawn_hint), options.config));
  if (options.svg == options.output)
    throw Error(ErrorKind::usage, "--svg", "names the same file as --output", "Name two files");
}

void write_picture(const RunFolder& run, const PredictArguments& options, const std::vector<Panel>& panels) {
  if (options.svg.empty()) return;
  const std::string input = options.input.empty() || options.input == "-" ? "stdin" : options.input;
  if (panels.empty()) throw Error(ErrorKind::usage, "--svg", input + " has no line to draw", "Give at least one");
  const std::string title = fmt::format("{}: predictions for {}", task_name(run.config.text("task.kind")),
                                        input.substr(input.rfind('/') + 1));
  write_file(options.svg, svg_file(title, panels));
}

}  // namespace unroll::cli
