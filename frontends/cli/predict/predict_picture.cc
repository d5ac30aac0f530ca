// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/predict/predict_picture.h"

#include <fmt/format.h>

#include "core/support/text/shell_word.h"
#include "frontends/cli/report/page.h"
#include "frontends/cli/run/run_record.h"
#include "frontends/cli/terminal/report.h"
#include "frontends/config/text_file.h"
#include "unroll/support/error.h"

namespace unroll::cli {
namespace {

std::string title_of(const RunFolder& run, const PredictArguments& options) {
  const std::string input = options.input_name();
  return fmt::format("{}: predictions for {}", task_name(run.config.text("task.kind")),
                     input.substr(input.rfind('/') + 1));
}

[[noreturn]] void refuse_empty(const char* option, const PredictArguments& options) {
  throw Error(ErrorKind::usage, option, options.input_name() + " has no line to draw", "Give at least one");
}

}  // namespace

void check_picture(const RunFolder& run, const PredictArguments& options) {
  if (options.svg.empty()) return;
  if (const TaskKind* kind = find_task_kind(run.config.uses()); kind && kind->row.undrawn)
    throw Error(ErrorKind::usage, "--svg", kind->row.undrawn,
                fmt::format(fmt::runtime(kind->row.undrawn_hint), shell_word(options.config)));
  if (options.svg == options.output)
    throw Error(ErrorKind::usage, "--svg", "names the same file as --output", "Name two files");
}

void write_picture(const RunFolder& run, const PredictArguments& options, const std::vector<Panel>& panels) {
  if (options.svg.empty()) return;
  if (panels.empty()) refuse_empty("--svg", options);
  write_text_file(options.svg, svg_file(title_of(run, options), panels));
}

void check_attention(const Answers& answers, const PredictArguments& options) {
  if (options.attention.empty()) return;
  if (!answers.explains_attention())
    throw Error(ErrorKind::usage, "--explain-attention", "only translate and summarize models write words that attend",
                "Leave it out; --svg draws the answers of other tasks");
  if (options.attention == options.output || options.attention == options.svg)
    throw Error(ErrorKind::usage, "--explain-attention", "names the file of another option", "Name a file of its own");
}

void write_attention(const RunFolder& run, const PredictArguments& options, Answers& answers) {
  if (options.attention.empty()) return;
  const std::vector<WrittenAttention> maps = answers.attentions();
  if (maps.empty()) refuse_empty("--explain-attention", options);
  write_text_file(options.attention, attention_page(title_of(run, options), maps));
}

}  // namespace unroll::cli
