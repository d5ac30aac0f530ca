// SPDX-License-Identifier: Apache-2.0
// Tables from the output of other commands, with headings in words and values with units.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/support/text/counted.h"
#include "frontends/cli/report/page.h"
#include "frontends/cli/report/panel.h"
#include "frontends/cli/report/plan_picture.h"
#include "frontends/cli/terminal/words.h"

namespace unroll::cli {
namespace {

using Json = nlohmann::ordered_json;

bool is_rows(const Json& value) {
  return value.is_array() && !value.empty() &&
         std::all_of(value.begin(), value.end(), [](const Json& row) { return row.is_object(); });
}

std::string text_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_null()) return "";
  const auto is_string = [](const Json& item) { return item.is_string(); };
  if (value.is_array() && std::all_of(value.begin(), value.end(), is_string)) {
    std::string words;
    for (const Json& word : value) words += (words.empty() ? "" : ", ") + word.get<std::string>();
    return words;
  }
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string shown(const std::string& key, const Json& value) {
  return value.is_number() ? value_text(key, value.get<double>()) : text_of(value);
}

using NamedCells = std::vector<std::pair<std::string, Json>>;

// Converts objects in a table row to columns "outer inner".
void flatten(const Json& object, const std::string& prefix, NamedCells& cells) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object()) flatten(value, prefix + key + " ", cells);
    else cells.emplace_back(prefix + key, value);
  }
}

std::string rows_table(const Json& rows) {
  std::vector<std::string> keys, head;
  std::vector<NamedCells> all;
  for (const Json& row : rows) {
    flatten(row, "", all.emplace_back());
    for (const auto& [name, value] : all.back())
      if (std::find(keys.begin(), keys.end(), name) == keys.end()) keys.push_back(name);
  }
  for (const std::string& key : keys) head.push_back(heading_of(key));
  std::vector<std::vector<Cell>> cells;
  for (const NamedCells& row : all) {
    cells.emplace_back();
    for (const std::string& key : keys) {
      const auto at = std::find_if(row.begin(), row.end(), [&](const auto& c) { return c.first == key; });
      if (at == row.end()) cells.back().emplace_back();
      else cells.back().push_back({escaped(shown(key, at->second)), at->second.is_number()});
    }
  }
  return html_table(head, cells);
}

// Shows values of one key each as rows of two columns; lists of objects follow.
std::string json_tables(const Json& json) {
  if (is_rows(json)) return rows_table(json);
  std::vector<std::vector<Cell>> plain;
  std::string lists;
  for (const auto& [key, value] : json.items()) {
    if (is_rows(value)) {
      lists += "<h3>" + escaped(heading_of(key)) + "</h3>" + rows_table(value);
    } else if (value.is_object()) {
      lists += "<h3>" + escaped(heading_of(key)) + "</h3>" + json_tables(value);
    } else {
      plain.push_back({text_cell(heading_of(key)), text_cell(shown(key, value))});
    }
  }
  return (plain.empty() ? "" : html_table({"Item", "Value"}, plain)) + lists;
}

bool is_plan(const Json& json) { return json.is_object() && json.contains("calls"); }

// Shows output of `explain`, each plan as a picture and as tables, with long ones folded. Returns "" for other text.
std::string plan_sections(const std::string& text, int& n_pictures) {
  struct Table {
    const char *key, *title;
    bool is_long;
  };
  constexpr Table k_tables[] = {{"places", "Time by phase and layer", false},
                                {"left", "Optimizations that were not applied, and why", false},
                                {"passes", "Optimization passes", true},
                                {"calls", "Calls", true}};
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
    html += fmt::format("<div class=\"wide\" tabindex=\"0\">{}</div>\n",
                        picture_svg(picture, fmt::format("head{}", n_pictures++)));
    for (const Table& t : k_tables) {
      const Json rows = plan.value(t.key, Json());
      if (!is_rows(rows)) continue;
      html += t.is_long ? fmt::format("<details><summary>{}</summary>{}</details>\n", t.title, rows_table(rows))
                        : fmt::format("<h4>{}</h4>{}\n", t.title, rows_table(rows));
    }
  }
  if (plans.size() == n) return html;
  return html + fmt::format("<p class=\"note\">{}</p>\n", counted(plans.size() - n, "more plan"));
}

}  // namespace

std::string attached_section(const Attachment& attachment, int& n_pictures) {
  if (const std::string html = ablation_section(attachment); !html.empty()) return html;
  const Json json = Json::parse(attachment.text, nullptr, /*allow_exceptions=*/false);
  std::string body = plan_sections(attachment.text, n_pictures);
  if (body.empty())
    body = json.is_object() || is_rows(json) ? json_tables(json)
                                             : "<pre tabindex=\"0\">" + escaped(attachment.text) + "</pre>";
  return "<section><h2>" + escaped(attachment.name) + "</h2>" + body + "</section>\n";
}

}  // namespace unroll::cli
