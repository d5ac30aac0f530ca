// SPDX-License-Identifier: Apache-2.0
// `unroll data check`: check the dataset of a config for common problems.
#include <fmt/format.h>
#include <unistd.h>

#include "frontends/cli/commands.h"
#include "frontends/cli/terminal/activity.h"
#include "frontends/cli/terminal/report.h"
#include "frontends/cli/terminal/terminal.h"
#include "frontends/config/run/job.h"
#include "frontends/config/run/split_size.h"
#include "unroll/support/error.h"

namespace unroll::cli {
namespace {

struct DataArguments : ConfigArguments {
  std::string what;  // "check"
  bool strict = false;
  bool json = false;
};

void add_options(CLI::App& app, DataArguments& o) {
  allow_only(add_operand(app, "what", o.what, "What to do with the data."), {"check"});
  add_operand(app, "config", o.config, "Config file.");
  group(app, "Data");
  add_flag(app, "--strict", o.strict, "Exit with code 3 for warnings too.");
  add_set(app, o);
  group(app, "Output");
  add_json(app, o.json);
  add_examples(app,
               "  unroll data check docs/examples/char-lm.toml\n"
               "  unroll data check docs/examples/digits.toml --strict --json\n"
               "\n"
               "docs/data.md describes the data file of each task.");
}

// Fails for data that training would refuse, regardless of the checks.
void try_task(const Config& config, const std::string& folder, DataCheck& check) {
  try {
    const auto task = make_task(config, folder);
    for (const std::string& note : task->notes())
      print_line(wrapped("data: " + without_folder(note), terminal_width(STDERR_FILENO), 2));
    const std::pair<const char*, Split> splits[] = {
        {"training", Split::train}, {"validation", Split::validation}, {"test", Split::test}};
    for (const auto& row : splits)
      check.figures.emplace_back(fmt::format("batches in {}", row.first),
                                 static_cast<double>(task->n_batches(row.second)));
    for (const auto& row : splits)
      if (const EmptySplit empty = empty_split(*task, config, row.second); !empty.none())
        check.findings.push_back({row.second == Split::train, "splits", empty.sentence()});
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::input_file && e.kind() != ErrorKind::usage) throw;
    for (const DataFinding& finding : check.findings)
      if (finding.error) return;  // already reported
    check.findings.push_back({true, "file", e.what()});
  }
}

int execute(const DataArguments& options) {
  const Config config = load_config(options, options.config);
  const std::string folder = folder_of(options.config);
  Activity busy("checking the data");
  DataCheck check = check_task_data(config, folder);
  busy.say("loading the data as training does");
  try_task(config, folder, check);
  busy.finish();
  Report report, figures;
  ReportList findings;
  std::int64_t errors = 0;
  for (const auto& [name, value] : check.figures) figures.add(name, value);
  for (const DataFinding& f : check.findings) {
    errors += f.error;
    findings.push_back(Report().add("level", f.error ? "error" : "warning").add("check", f.check).add("what", f.what));
  }
  const auto warnings = static_cast<std::int64_t>(check.findings.size()) - errors;
  report.add("kind", config.text("task.kind")).add("path", config.text("data.path"));
  report.add("errors", errors).add("warnings", warnings).add("figures", figures).add("findings", findings);
  report.print(options.json);
  return errors > 0 || (options.strict && warnings > 0) ? exit_code(ErrorKind::input_file) : 0;
}

}  // namespace

const Command data_command =
    command<DataArguments>(k_begin, "data", "Check a dataset for common problems.", add_options, execute);

}  // namespace unroll::cli
