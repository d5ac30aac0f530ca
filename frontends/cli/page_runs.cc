// SPDX-License-Identifier: Apache-2.0
// The runs of a page: a summary of all, then a section for each task with its charts and configs.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "frontends/cli/chart.h"
#include "frontends/cli/page.h"
#include "frontends/cli/words.h"

namespace unroll::cli {
namespace {

constexpr std::string_view k_validation = "validation_";

using Runs = std::vector<const RunRecord*>;

// Losses compare only between runs of one task on one data file.
std::vector<Runs> by_task(const std::vector<RunRecord>& runs) {
  std::vector<Runs> groups;
  for (const RunRecord& run : runs) {
    const auto same = [&](const Runs& group) { return group[0]->kind == run.kind && group[0]->data == run.data; };
    const auto at = std::find_if(groups.begin(), groups.end(), same);
    (at == groups.end() ? groups.emplace_back() : *at).push_back(&run);
  }
  return groups;
}

std::string section_title(const RunRecord& run) {
  return run.data.empty() ? task_name(run.kind) : task_name(run.kind) + ": " + run.data;
}

// A metric in training and validation share a chart, and so do the statistics of all loops.
std::string chart_of(const std::string& curve) {
  if (curve.starts_with(k_validation)) return curve.substr(k_validation.size());
  for (const char* of_loops : {"saturated", "dead"})
    if (curve.starts_with(of_loops)) return of_loops;
  return curve;
}

bool all_zero(const Runs& runs, const std::string& chart) {  // "skipped" of runs that skipped nothing
  for (const RunRecord* run : runs)
    for (const std::string& curve : run->order)
      if (chart_of(curve) == chart)
        for (const auto& point : run->curves.at(curve))
          if (point.second != 0) return false;
  return true;
}

// Losses and metrics first, then how the optimization went.
int rank_of(const std::string& chart) {
  static const std::set<std::string> last{"lr",        "gradient_norm", "loss_scale", "update_ratio",
                                          "saturated", "dead",          "skipped",    "updates_per_second",
                                          "rollback",  "rollback_to"};
  return chart == "loss" ? 0 : last.contains(chart) ? 2 : 1;
}

std::vector<std::string> charts_of(const Runs& runs) {
  std::vector<std::string> charts;
  for (const RunRecord* run : runs)
    for (const std::string& curve : run->order)
      if (std::find(charts.begin(), charts.end(), chart_of(curve)) == charts.end()) charts.push_back(chart_of(curve));
  std::erase_if(charts, [&](const std::string& chart) { return all_zero(runs, chart); });
  std::stable_sort(charts.begin(), charts.end(),
                   [](const auto& a, const auto& b) { return rank_of(a) < rank_of(b); });
  return charts;
}

std::string line_name(const RunRecord& run, const std::string& curve) {
  if (curve.starts_with(k_validation)) return run.name + ", validation";
  const std::size_t blank = curve.find(' ');  // "saturated recurrent.l0"
  return blank == std::string::npos ? run.name : run.name + ", " + curve.substr(blank + 1);
}

Panel panel_of(const Runs& runs, const std::string& name) {
  std::vector<ChartLine> lines;
  for (std::size_t r = 0; r < runs.size(); ++r)
    for (const std::string& curve : runs[r]->order)
      if (chart_of(curve) == name)
        lines.push_back({line_name(*runs[r], curve), static_cast<int>(r % k_colors), curve.starts_with(k_validation),
                         runs[r]->curves.at(curve)});
  return chart(heading_of(name), std::move(lines), {.x = "Update", .y = axis_of(name, runs[0]->kind)});
}

std::string configs(const Runs& runs) {
  std::string html;
  for (const RunRecord* run : runs) {
    if (run->unreadable_lines > 0)
      html += fmt::format("<p class=\"note\">{}: {}.</p>", escaped(run->name), unreadable_text(*run));
    if (!run->config.empty())
      html += fmt::format("<details><summary>{}: config.toml</summary><pre tabindex=\"0\">{}</pre></details>\n",
                          escaped(run->name), escaped(run->config));
  }
  return html;
}

std::vector<Cell> summary_row(const RunRecord& run) {
  const auto* best = best_validation(run);
  return {text_cell(run.name),
          text_cell(section_title(run)),
          text_cell(run.model),
          number_cell(best ? fmt::format("{} at update {}", number_text(best->second), number_text(best->first)) : ""),
          number_cell(run.seconds > 0 ? time_text(run.seconds) : ""),
          number_cell(number_text(run.updates)),
          text_cell(status_text(run))};
}

std::string summary(const std::vector<RunRecord>& runs) {
  std::vector<std::vector<Cell>> rows;
  for (const RunRecord& run : runs) rows.push_back(summary_row(run));
  return "<section id=\"summary\"><h2>Summary</h2>" +
         html_table({"Run", "Task", "Model", "Best validation loss", "Time in updates", "Updates", "Status"}, rows,
                    {.as_cards = true}) +
         "</section>\n";
}

}  // namespace

std::string run_sections(const std::vector<RunRecord>& runs) {
  if (runs.empty()) return "";
  std::string html = summary(runs);
  int n = 0;
  for (const Runs& group : by_task(runs)) {
    std::vector<Panel> panels;
    for (const std::string& name : charts_of(group)) panels.push_back(panel_of(group, name));
    html += fmt::format("<section class=\"task\" id=\"task{}\"><h2>{}</h2>\n<h3>Training</h3>\n{}{}</section>\n", ++n,
                        escaped(section_title(*group[0])), figures(panels), configs(group));
  }
  return html;
}

}  // namespace unroll::cli
