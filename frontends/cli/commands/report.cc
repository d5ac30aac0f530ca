// SPDX-License-Identifier: Apache-2.0
// `unroll report`: writes run folders and the outputs of other commands to one HTML file.
#include <fmt/format.h>

#include <cstdio>

#include "core/support/files/paths.h"
#include "frontends/cli/commands.h"
#include "frontends/cli/predict/test_result.h"
#include "frontends/cli/report/page.h"
#include "frontends/cli/terminal/activity.h"
#include "frontends/cli/terminal/report.h"
#include "frontends/config/text_file.h"
#include "unroll/support/error.h"
#include "unroll/support/vfs.h"

namespace unroll::cli {
namespace {

struct ReportArguments {
  std::vector<std::string> sources;  // run folders, folders of ablations, files
  std::string output;
  bool no_examples = false;
  bool json = false;
};

void add_options(CLI::App& app, ReportArguments& o) {
  add_operands(app, "sources", o.sources,
               "Run folders, --out folders of ablation, and saved output of compare, ablation, explain, bench or "
               "generate.");
  group(app, "Output");
  add_text(app, "--output", o.output, "FILE", "HTML file to write.", "report.html");
  add_flag(app, "--no-examples", o.no_examples, "Do not evaluate the runs: no predictions and no test metrics.");
  add_json(app, o.json);
  add_examples(app,
               "  unroll report runs/a runs/b\n"
               "  unroll report runs/a ablation --output report.html");
}

constexpr std::size_t k_most_attached = std::size_t{16} << 20;

std::string attached_text(const std::string& path) { return read_text_file(path, k_most_attached); }

int execute(const ReportArguments& options) {
  Activity busy("reading runs", static_cast<std::int64_t>(options.sources.size()));
  std::int64_t n_read = 0;
  std::vector<RunRecord> runs;
  std::vector<Attachment> attachments;
  std::vector<TestResult> results;
  for (const std::string& path : options.sources) {
    busy.at(n_read++);
    const bool is_run = disk().exists(path + "/metrics.jsonl"), is_ablation = disk().exists(path + "/ablation.json");
    if (is_run) runs.push_back(read_run(path));
    if (is_run && !options.no_examples) results.push_back(test_result(path));
    if (is_run && disk().exists(path + "/explain.json"))
      attachments.push_back({path + "/explain.json", attached_text(path + "/explain.json")});
    if (is_run) continue;
    if (is_ablation) attachments.push_back({path + "/ablation.json", attached_text(path + "/ablation.json")});
    else if (is_folder(path))
      throw Error(ErrorKind::input_file, path, "holds neither metrics.jsonl nor ablation.json",
                  "Name a run folder of `unroll train`, the --out folder of `unroll ablation`, or a file");
    else attachments.push_back({path, attached_text(path)});
  }
  for (const RunRecord& run : runs)
    if (run.unreadable_lines > 0)
      print_line(fmt::format("unroll: {}: {}", run.name, unreadable_text(run)));
  busy.say("writing the report");
  const std::string html = html_page(runs, attachments, results);
  const std::string to = options.output.empty() ? "report.html" : options.output;
  write_text_file(to, html);
  busy.finish();
  Report report;
  report.add("report", to).add("runs", runs.size());
  report.add("attachments", attachments.size());
  report.print(options.json);
  return 0;
}

}  // namespace

const Command report_command =
    command<ReportArguments>(k_understand, "report", "Write an HTML report that compares runs.", add_options, execute);

}  // namespace unroll::cli
