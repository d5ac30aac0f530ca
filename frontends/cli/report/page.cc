// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/report/page.h"

#include <fmt/format.h>

#include "frontends/cli/report/panel.h"
#include "frontends/cli/report/plan_picture.h"

namespace unroll::cli {

Cell text_cell(const std::string& text) { return {escaped(text)}; }
Cell number_cell(const std::string& text) { return {escaped(text), true}; }

std::string html_table(const std::vector<std::string>& head, const std::vector<std::vector<Cell>>& rows,
                       TableOptions options) {
  std::vector<bool> numbers(head.size(), !rows.empty());  // the heading of a numeric column is right-aligned
  for (const auto& row : rows)
    for (std::size_t c = 0; c < head.size() && c < row.size(); ++c)
      if (!row[c].is_number && !row[c].html.empty()) numbers[c] = false;
  const auto right = [](bool number) { return number ? " class=\"n\"" : ""; };
  std::string html;
  for (std::size_t c = 0; c < head.size(); ++c)
    html += fmt::format("<th scope=\"col\"{}>{}</th>", right(numbers[c]), escaped(head[c]));
  html = "<thead><tr>" + html + "</tr></thead><tbody>";
  for (const auto& row : rows) {
    html += "<tr>";
    for (std::size_t c = 0; c < row.size(); ++c)
      html += fmt::format("<td{}{}>{}</td>", right(row[c].is_number),
                          options.as_cards && c < head.size() ? " data-label=\"" + escaped(head[c]) + "\"" : "",
                          row[c].html);
    html += "</tr>\n";
  }
  return fmt::format("<div class=\"wide\" tabindex=\"0\"><table{}>{}</tbody></table></div>\n",
                     options.as_cards ? " class=\"cards\"" : "", html);
}

std::string page_head(const std::string& title, const std::string& style) {
  return fmt::format("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                     "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                     "<title>{0}</title>\n<style>{1}{2}{3}</style></head>\n<body><h1>{0}</h1>\n",
                     escaped(title), k_page_palette, k_page_style, style);
}

std::string html_page(const std::vector<RunRecord>& runs, const std::vector<Attachment>& attachments,
                      const std::vector<TestResult>& results) {
  std::string body = run_sections(runs, results);
  int n_pictures = 0;
  for (const Attachment& attachment : attachments) body += attached_section(attachment, n_pictures);
  return fmt::format("{}{}<script>{}</script></body></html>\n",
                     page_head("unroll report", std::string(k_panel_style) + k_picture_style), body, k_page_script);
}

}  // namespace unroll::cli
