// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "frontends/cli/chart.h"
#include "frontends/cli/plan_picture.h"

namespace unroll::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t k_colours = 8;
constexpr std::string_view k_validation = "validation_";

std::string cell(const std::string& text, bool number) {
  return fmt::format("<td{}>{}</td>", number ? " class=\"n\"" : "", escaped(text));
}
std::string cell(double value) { return cell(fmt::format("{:.5g}", value), true); }

std::string table(const std::vector<std::string>& head, const std::string& rows) {
  std::string cells;
  for (const std::string& name : head) cells += "<th>" + escaped(name) + "</th>";
  return "<div class=\"wide\"><table><thead><tr>" + cells + "</tr></thead><tbody>" + rows + "</tbody></table></div>";
}

// ---- runs

// The curves that share a chart: a metric in training and in validation, what is watched of all loops.
std::string chart_of(const std::string& curve) {
  if (curve.starts_with(k_validation)) return curve.substr(k_validation.size());
  for (const char* of_loops : {"saturated", "dead"})
    if (curve.starts_with(of_loops)) return of_loops;
  return curve;
}

std::vector<std::string> charts_of(const std::vector<RunRecord>& runs) {
  std::vector<std::string> charts;
  for (const RunRecord& run : runs)
    for (const std::string& curve : run.order)
      if (std::find(charts.begin(), charts.end(), chart_of(curve)) == charts.end()) charts.push_back(chart_of(curve));
  const auto constant_zero = [&](const std::string& chart) {  // "skipped" of runs that skipped nothing
    return std::all_of(runs.begin(), runs.end(), [&](const RunRecord& run) {
      return std::all_of(run.order.begin(), run.order.end(), [&](const std::string& curve) {
        const Curve& points = run.curves.at(curve);
        return chart_of(curve) != chart ||
               std::all_of(points.begin(), points.end(), [](const auto& p) { return p.second == 0; });
      });
    });
  };
  std::erase_if(charts, constant_zero);
  std::stable_partition(charts.begin(), charts.end(), [](const std::string& chart) { return chart == "loss"; });
  return charts;
}

std::string charts(const std::vector<RunRecord>& runs) {
  std::string html;
  for (const std::string& chart : charts_of(runs)) {
    std::vector<ChartLine> lines;
    for (std::size_t r = 0; r < runs.size(); ++r)
      for (const std::string& curve : runs[r].order) {
        if (chart_of(curve) != chart) continue;
        const std::string which = curve == chart ? runs[r].name : runs[r].name + ": " + curve;
        lines.push_back({which, static_cast<int>(r % k_colours), curve.starts_with(k_validation),
                         runs[r].curves.at(curve)});
      }
    html += fmt::format("<figure><figcaption>{}</figcaption>{}</figure>\n", escaped(chart), Chart(lines).svg(chart));
  }
  return html;
}

// The last value of each curve, and of losses in validation the lowest.
std::string summary(const std::vector<RunRecord>& runs) {
  std::vector<std::string> columns;
  for (const RunRecord& run : runs)
    for (const std::string& curve : run.order)
      if ((curve == "loss" || curve.starts_with(k_validation) || curve == "updates_per_second") &&
          std::find(columns.begin(), columns.end(), curve) == columns.end())
        columns.push_back(curve);
  std::vector<std::string> head{"run", "updates"};
  for (const std::string& column : columns)
    head.push_back(column == "validation_loss" ? "lowest validation_loss" : "last " + column);
  std::string rows;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    double updates = 0;
    for (const auto& [name, points] : runs[r].curves) updates = std::max(updates, points.back().first);
    rows += fmt::format("<tr><td><span class=\"key c{}\"></span>{}</td>", r % k_colours, escaped(runs[r].name)) +
            cell(updates);
    for (const std::string& column : columns) {
      const auto at = runs[r].curves.find(column);
      if (at == runs[r].curves.end()) {
        rows += "<td></td>";
        continue;
      }
      const auto lower = [](const auto& a, const auto& b) { return a.second < b.second; };
      const Curve& points = at->second;
      rows += cell(column == "validation_loss" ? std::min_element(points.begin(), points.end(), lower)->second
                                               : points.back().second);
    }
    rows += "</tr>";
  }
  return table(head, rows);
}

std::string configs(const std::vector<RunRecord>& runs) {
  std::string html;
  for (const RunRecord& run : runs) {
    if (run.unreadable_lines > 0)
      html += fmt::format("<p class=\"note\">{}: {}</p>", escaped(run.name), unreadable_text(run));
    if (!run.config.empty())
      html += fmt::format("<details><summary>{}: config.toml</summary><pre>{}</pre></details>\n", escaped(run.name),
                          escaped(run.config));
  }
  return html;
}

// ---- attachments

bool is_rows(const Json& value) {
  return value.is_array() && !value.empty() &&
         std::all_of(value.begin(), value.end(), [](const Json& row) { return row.is_object(); });
}
std::string text_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  const auto is_string = [](const Json& item) { return item.is_string(); };
  if (value.is_array() && std::all_of(value.begin(), value.end(), is_string)) {
    std::string words;
    for (const Json& word : value) words += (words.empty() ? "" : ", ") + word.get<std::string>();
    return words;
  }
  if (value.is_number_float()) return fmt::format("{:.5g}", value.get<double>());
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}
std::string cell(const Json& value) { return cell(text_of(value), value.is_number()); }

// Objects in a row of a table become columns "outer inner".
void flatten(const Json& object, const std::string& prefix, std::vector<std::pair<std::string, Json>>& cells) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object()) flatten(value, prefix + key + " ", cells);
    else cells.emplace_back(prefix + key, value);
  }
}

std::string rows_table(const Json& rows) {
  std::vector<std::string> head;
  std::vector<std::vector<std::pair<std::string, Json>>> all;
  for (const Json& row : rows) {
    flatten(row, "", all.emplace_back());
    for (const auto& [name, value] : all.back())
      if (std::find(head.begin(), head.end(), name) == head.end()) head.push_back(name);
  }
  std::string html;
  for (const auto& row : all) {
    html += "<tr>";
    for (const std::string& name : head) {
      const auto at = std::find_if(row.begin(), row.end(), [&](const auto& c) { return c.first == name; });
      html += at == row.end() ? "<td></td>" : cell(at->second);
    }
    html += "</tr>";
  }
  return table(head, html);
}

// Plain members are one table, each list of objects is one of its own.
std::string json_tables(const Json& value) {
  if (is_rows(value)) return rows_table(value);
  std::vector<std::pair<std::string, Json>> members;
  flatten(value, "", members);
  std::string plain, lists;
  for (const auto& [name, member] : members) {
    if (is_rows(member)) lists += "<h3>" + escaped(name) + "</h3>" + rows_table(member);
    else plain += "<tr>" + cell(name, false) + cell(member) + "</tr>";
  }
  return (plain.empty() ? "" : table({"", ""}, plain)) + lists;
}

bool is_plan(const Json& json) { return json.is_object() && json.contains("calls"); }

// What `explain` printed, or nothing where it did not: each plan as a picture and as tables, the long ones folded.
std::string plan_sections(const std::string& text, int& n_pictures) {
  struct Table {
    const char *key, *title;
    bool is_long;
  };
  constexpr Table k_tables[] = {{"places", "where the time goes", false},
                                {"left", "what passes left as it was, and why", false},
                                {"passes", "what passes did, or left", true},
                                {"calls", "what runs", true}};
  const std::vector<PlanPicture> pictures = pictures_of(text);
  if (pictures.empty()) return "";
  Json about = Json::parse(text);
  const Json plans = about["plans"];
  about.erase("plans");
  std::string html = json_tables(about);
  std::size_t n = 0;
  for (const Json& plan : plans) {
    if (!is_plan(plan) || n == pictures.size()) continue;
    const PlanPicture& picture = pictures[n++];
    html += "<div class=\"wide\">" + picture_svg(picture, fmt::format("head{}", n_pictures++)) + "</div>\n";
    for (const Table& t : k_tables) {
      const Json rows = plan.value(t.key, Json());
      if (!is_rows(rows)) continue;
      html += t.is_long ? fmt::format("<details><summary>{}</summary>{}</details>\n", t.title, rows_table(rows))
                        : fmt::format("<h4>{}</h4>{}\n", t.title, rows_table(rows));
    }
  }
  return html + (plans.size() > n ? fmt::format("<p class=\"note\">{} more plans</p>\n", plans.size() - n) : "");
}

std::string attached(const Attachment& attachment, int& n_pictures) {
  const Json json = Json::parse(attachment.text, nullptr, /*allow_exceptions=*/false);
  const bool tables = json.is_object() || is_rows(json);
  const std::string plans = plan_sections(attachment.text, n_pictures);
  if (!plans.empty()) return "<section><h2>" + escaped(attachment.name) + "</h2>" + plans + "</section>\n";
  return "<section><h2>" + escaped(attachment.name) + "</h2>" +
         (tables ? json_tables(json) : "<pre>" + escaped(attachment.text) + "</pre>") + "</section>\n";
}

}  // namespace

std::string html_page(const std::vector<RunRecord>& runs, const std::vector<Attachment>& attachments) {
  std::string body;
  if (!runs.empty())
    body += "<section><h2>Runs</h2>" + summary(runs) +
            "<p class=\"note\">Over updates; dashed: in validation.</p></section>\n<section class=\"charts\">\n" +
            charts(runs) + "</section>\n<section>" + configs(runs) + "</section>\n";
  int n_pictures = 0;
  for (const Attachment& attachment : attachments) body += attached(attachment, n_pictures);
  return fmt::format("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                     "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                     "<title>unroll report</title>\n<style>{}{}{}</style></head>\n<body><h1>unroll report</h1>\n{}"
                     "<script>{}</script></body></html>\n",
                     k_page_palette, k_page_style, k_picture_style, body, k_page_script);
}

}  // namespace unroll::cli
