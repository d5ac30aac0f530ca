// SPDX-License-Identifier: Apache-2.0
// Runs of a page: a summary of all, then a section for each task with charts and configs.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "frontends/cli/report/chart.h"
#include "frontends/cli/report/page.h"
#include "frontends/cli/terminal/words.h"
#include "frontends/config/task_kinds.h"

namespace unroll::cli {
namespace {

constexpr std::string_view k_validation = "validation_";

struct Shown {
  const RunRecord* record;
  const TestResult* result;  // null: not requested
  const RunRecord* operator->() const { return record; }
};
using Runs = std::vector<Shown>;

// Losses are comparable only between runs of one task on one data file.
std::vector<Runs> by_task(const Runs& runs) {
  std::vector<Runs> groups;
  for (const Shown& run : runs) {
    const auto same = [&](const Runs& group) { return group[0]->kind == run->kind && group[0]->data == run->data; };
    const auto at = std::find_if(groups.begin(), groups.end(), same);
    (at == groups.end() ? groups.emplace_back() : *at).push_back(run);
  }
  return groups;
}

std::string_view loss_title(const std::string& word) {
  const TaskKind* kind = find_task_kind(word);
  return kind ? kind->row.loss : "Loss";
}

std::string section_title(const RunRecord& run) {
  return run.data.empty() ? task_name(run.kind) : task_name(run.kind) + ": " + run.data;
}

// A metric in training and validation shares a chart, and so do the statistics of all loops.
std::string chart_of(const std::string& curve) {
  if (curve.starts_with(k_validation)) return curve.substr(k_validation.size());
  for (const char* of_loops : {"saturated", "dead"})
    if (curve.starts_with(of_loops)) return of_loops;
  return curve;
}

bool all_zero(const Runs& runs, const std::string& chart) {  // "skipped" of runs without skipped updates
  for (const Shown& run : runs)
    for (const std::string& curve : run->order)
      if (chart_of(curve) == chart)
        for (const auto& point : run->curves.at(curve))
          if (point.second != 0) return false;
  return true;
}

// Losses and metrics first, then statistics of the optimization.
int rank_of(const std::string& chart) {
  static const std::set<std::string> last{"lr",        "gradient_norm", "loss_scale", "update_ratio",
                                          "saturated", "dead",          "skipped",    "updates_per_second",
                                          "rollback",  "rollback_to"};
  return chart == "loss" ? 0 : last.contains(chart) ? 2 : 1;
}

std::vector<std::string> charts_of(const Runs& runs) {
  std::vector<std::string> charts;
  for (const Shown& run : runs)
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
        lines.push_back({line_name(*runs[r].record, curve), static_cast<int>(r % k_colors),
                         curve.starts_with(k_validation), runs[r]->curves.at(curve)});
  return chart(heading_of(name), std::move(lines), {.x = "Update", .y = axis_of(name, loss_title(runs[0]->kind))});
}

std::string configs(const Runs& runs) {
  std::string html;
  for (const Shown& run : runs) {
    if (run->unreadable_lines > 0)
      html += fmt::format("<p class=\"note\">{}: {}.</p>", escaped(run->name), unreadable_text(*run.record));
    if (!run->config.empty())
      html += fmt::format("<details><summary>{}: config.toml</summary><pre tabindex=\"0\">{}</pre></details>\n",
                          escaped(run->name), escaped(run->config));
  }
  return html;
}

const MainMetric* main_metric(const Shown& run) {
  const TaskKind* kind = find_task_kind(run->kind);
  if (!kind || !run.result) return nullptr;
  for (const MainMetric& metric : kind->row.metrics)
    if (run.result->metrics.contains(std::string(metric.name))) return &metric;
  return nullptr;
}

std::string metric_text(const MainMetric& metric, double value) {
  return fmt::format("{} {}", metric.word, number_text(value));
}

std::string best_baseline(const Shown& run, const MainMetric& metric) {
  const std::string* best = nullptr;
  double value = 0;
  for (const auto& [method, metrics] : run.result->baselines) {
    const auto at = metrics.find(std::string(metric.name));
    if (at == metrics.end()) continue;
    if (best && (metric.higher_is_better ? at->second <= value : at->second >= value)) continue;
    best = &method;
    value = at->second;
  }
  return best ? fmt::format("{} ({})", number_text(value), heading_of(*best)) : "";
}

std::string summary(const Runs& runs) {
  std::vector<std::string> head{"Run", "Task", "Model", "Best validation loss"};
  const bool tested = std::any_of(runs.begin(), runs.end(), [](const Shown& run) { return run.result != nullptr; });
  if (tested) head.insert(head.end(), {"Test set", "Best baseline"});
  head.insert(head.end(), {"Time in updates", "Updates", "Status"});
  std::vector<std::vector<Cell>> rows;
  for (const Shown& run : runs) {
    const auto* best = best_validation(*run.record);
    std::vector<Cell> row{
        text_cell(run->name), text_cell(section_title(*run.record)), text_cell(run->model),
        text_cell(best ? fmt::format("{} at update {}", number_text(best->second), number_text(best->first)) : "")};
    if (const MainMetric* metric = main_metric(run)) {
      row.push_back(text_cell(metric_text(*metric, run.result->metrics.at(std::string(metric->name)))));
      row.push_back(text_cell(best_baseline(run, *metric)));
    } else if (tested) {
      row.insert(row.end(), {text_cell(run.result && !run.result->problem.empty() ? "not evaluated" : ""), Cell{}});
    }
    row.push_back(number_cell(run->seconds > 0 ? time_text(run->seconds) : ""));
    row.push_back(number_cell(number_text(run->updates)));
    row.push_back(text_cell(status_text(*run.record)));
    rows.push_back(std::move(row));
  }
  return "<section id=\"summary\"><h2>Summary</h2>" + html_table(head, rows, {.as_cards = true}) + "</section>\n";
}

// Metrics of runs and baselines as columns.
std::string test_table(const Runs& runs) {
  std::vector<std::string> keys, head{"Method"};
  std::vector<std::pair<std::string, const std::map<std::string, double>*>> methods;
  for (const Shown& run : runs)
    if (run.result && !run.result->metrics.empty()) methods.emplace_back(run->name, &run.result->metrics);
  if (methods.empty()) return "";
  std::set<std::string> seen;  // baselines are equal for all runs on this data
  for (const Shown& run : runs)
    if (run.result)
      for (const auto& [method, metrics] : run.result->baselines)
        if (seen.insert(method).second) methods.emplace_back("Baseline: " + heading_of(method), &metrics);
  for (const auto& method : methods)
    for (const auto& metric : *method.second)
      if (std::find(keys.begin(), keys.end(), metric.first) == keys.end()) keys.push_back(metric.first);
  for (const std::string& key : keys) head.push_back(heading_of(key));
  std::vector<std::vector<Cell>> rows;
  for (const auto& [name, metrics] : methods) {
    rows.push_back({text_cell(name)});
    for (const std::string& key : keys) {
      const auto at = metrics->find(key);
      rows.back().push_back(at == metrics->end() ? Cell{} : number_cell(value_text(key, at->second)));
    }
  }
  return "<h3>Test set</h3>\n" + html_table(head, rows, {.as_cards = true});
}

std::string test_results(const Runs& runs) {
  std::string html = test_table(runs);
  for (const Shown& run : runs) {
    if (!run.result) continue;
    if (!run.result->examples.empty())
      html += fmt::format("<h3>{}: test set</h3>\n{}", escaped(run->name), run.result->examples);
    for (const std::string& text : {run.result->problem, run.result->note})
      if (!text.empty()) html += fmt::format("<p class=\"note\">{}: {}</p>\n", escaped(run->name), escaped(text));
  }
  return html;
}

}  // namespace

std::string run_sections(const std::vector<RunRecord>& records, const std::vector<TestResult>& results) {
  if (records.empty()) return "";
  Runs runs;
  for (std::size_t i = 0; i < records.size(); ++i)
    runs.push_back({&records[i], i < results.size() ? &results[i] : nullptr});
  std::string html = summary(runs);
  int n = 0;
  for (const Runs& group : by_task(runs)) {
    std::vector<Panel> panels;
    for (const std::string& name : charts_of(group)) panels.push_back(panel_of(group, name));
    html += fmt::format("<section class=\"task\" id=\"task{}\"><h2>{}</h2>\n{}<h3>Training</h3>\n{}{}</section>\n", ++n,
                        escaped(section_title(*group[0].record)), test_results(group), figures(panels), configs(group));
  }
  return html;
}

}  // namespace unroll::cli
