// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/report/panel.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/support/text/utf8.h"

namespace unroll::cli {
namespace {

constexpr double k_margin = 20, k_title = 30, k_panel_title = 24, k_legend_row = 20, k_note_row = 20;
constexpr double k_letter = 7.2;  // width of a letter at 13 px
constexpr std::size_t k_most_name = 48;

// Returns the bytes of the UTF-8 character at `at`; 0 if it is invalid UTF-8 or not allowed in XML.
std::size_t character_at(const std::string& text, std::size_t at) {
  std::size_t end = at;
  char32_t code = 0;
  if (!next_character(text, end, code)) return 0;
  const bool is_control = code < 0x20 && code != '\t' && code != '\n' && code != '\r';
  return is_control || code == 0xFFFE || code == 0xFFFF ? 0 : end - at;
}

// Distributes legend items over rows that fit a width.
std::vector<std::vector<LegendItem>> legend_rows(const Panel& panel) {
  std::vector<std::vector<LegendItem>> rows;
  double x = 0;
  for (const LegendItem& item : panel.legend) {
    const double width = 40 + k_letter * static_cast<double>(shortened(item.name, k_most_name).size());
    if (rows.empty() || x + width > panel.width) {
      rows.emplace_back();
      x = 0;
    }
    rows.back().push_back(item);
    x += width;
  }
  return rows;
}

std::string legend_svg(const Panel& panel, double top) {
  std::string body;
  double y = top;
  for (const auto& row : legend_rows(panel)) {
    double x = 0;
    for (const LegendItem& item : row) {
      const std::string name = shortened(item.name, k_most_name);
      body += fmt::format("<line class=\"{}{}\" x1=\"{:.0f}\" x2=\"{:.0f}\" y1=\"{:.0f}\" y2=\"{:.0f}\"/>"
                          "<text x=\"{:.0f}\" y=\"{:.0f}\">{}</text>",
                          color_class(item.color), item.dashed ? " dashed" : "", x, x + 20, y + 8, y + 8, x + 26,
                          y + 12, escaped(name));
      x += 40 + k_letter * static_cast<double>(name.size());
    }
    y += k_legend_row;
  }
  return body;
}

double head_height(const Panel& panel) {
  return k_panel_title + k_legend_row * static_cast<double>(legend_rows(panel).size());
}
double full_height(const Panel& panel) {
  return head_height(panel) + panel.height + (panel.note.empty() ? 0 : k_note_row);
}

}  // namespace

const char* const k_panel_style = R"css(
.panel text { font: 13px system-ui, sans-serif; fill: var(--soft); }
.panel .title { font-size: 18px; font-weight: 600; fill: var(--ink); }
.panel .name { font-size: 15px; font-weight: 600; fill: var(--ink); } .panel .strong { fill: var(--ink); }
.panel .axis { fill: var(--ink); } .panel .ground { fill: var(--ground); }
.panel line, .panel polyline { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
.panel .grid { stroke: var(--faint); stroke-width: 1; } .panel .frame { fill: none; stroke: var(--faint); }
.panel .cursor { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 2 3; }
.panel .dashed { stroke-dasharray: 6 4; } .panel rect.shade { fill: var(--c0); } .panel rect.off { fill: var(--c1); }
.panel .c0 { stroke: var(--c0); } .panel .c1 { stroke: var(--c1); } .panel .c2 { stroke: var(--c2); }
.panel .c3 { stroke: var(--c3); } .panel .c4 { stroke: var(--c4); } .panel .c5 { stroke: var(--c5); }
.panel .c6 { stroke: var(--c6); } .panel .c7 { stroke: var(--c7); } .panel .ink { stroke: var(--ink); }
.panel circle.c0 { fill: var(--c0); } .panel circle.c1 { fill: var(--c1); } .panel circle.c2 { fill: var(--c2); }
.panel circle.c3 { fill: var(--c3); } .panel circle.c4 { fill: var(--c4); } .panel circle.c5 { fill: var(--c5); }
.panel circle.c6 { fill: var(--c6); } .panel circle.c7 { fill: var(--c7); } .panel circle.ink { fill: var(--ink); }
)css";

std::string color_class(int color) { return color == k_ink ? "ink" : fmt::format("c{}", color % k_colors); }

std::string escaped(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t n = character_at(text, at);
    if (n != 1) {
      out += n == 0 ? "\uFFFD" : text.substr(at, n);
      at += std::max<std::size_t>(n, 1);
      continue;
    }
    switch (const char c = text[at++]) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string shortened(const std::string& text, std::size_t most) {
  std::size_t n = 0, cut = text.size();
  for (std::size_t at = 0; at < text.size(); ++n) {
    if (n + 1 == most) cut = at;
    at += std::max<std::size_t>(character_at(text, at), 1);
  }
  return n <= most ? text : text.substr(0, cut) + "\u2026";
}

std::string figure(const Panel& panel) {
  std::string legend;
  for (const LegendItem& item : panel.legend)
    legend += fmt::format("<li><svg viewBox=\"0 0 20 8\" class=\"panel sample\" aria-hidden=\"true\"><line "
                          "class=\"{}{}\" x1=\"0\" x2=\"20\" y1=\"4\" y2=\"4\"/></svg>{}</li>",
                          color_class(item.color), item.dashed ? " dashed" : "", escaped(item.name));
  return fmt::format("<figure><figcaption>{0}</figcaption>{1}<svg class=\"panel\" viewBox=\"0 0 {2:.0f} {3:.0f}\" "
                     "role=\"img\" aria-label=\"{0}\" {4}>{5}</svg>{6}</figure>\n",
                     escaped(panel.title), legend.empty() ? "" : "<ul class=\"legend\">" + legend + "</ul>",
                     panel.width, panel.height, panel.attributes, panel.body,
                     panel.note.empty() ? "" : "<p class=\"note\">" + escaped(panel.note) + "</p>");
}

std::string figures(const std::vector<Panel>& panels) {
  std::string html;
  for (const Panel& panel : panels) html += figure(panel);
  return html.empty() ? "" : "<div class=\"charts\">\n" + html + "</div>\n";
}

std::string svg_file(const std::string& title, const std::vector<Panel>& panels) {
  const std::size_t columns = panels.size() > 1 ? 2 : 1;
  double width = 0, y = k_margin + k_title;
  for (const Panel& panel : panels) width = std::max(width, panel.width);
  std::string body = fmt::format("<text class=\"title\" x=\"{}\" y=\"{}\">{}</text>\n", k_margin, k_margin + 16,
                                 escaped(shortened(title, columns == 1 ? 54 : 110)));
  for (std::size_t i = 0; i < panels.size(); i += columns) {
    double height = 0;
    for (std::size_t k = i; k < std::min(panels.size(), i + columns); ++k) {
      const Panel& panel = panels[k];
      const double x = k_margin + static_cast<double>(k - i) * (width + k_margin), head = head_height(panel);
      body += fmt::format("<g transform=\"translate({:.0f} {:.0f})\"><text class=\"name\" x=\"0\" y=\"14\">{}</text>{}"
                          "<g transform=\"translate(0 {:.0f})\">{}</g>",
                          x, y, escaped(shortened(panel.title, 50)), legend_svg(panel, k_panel_title), head,
                          panel.body);
      if (!panel.note.empty())
        body += fmt::format("<text x=\"0\" y=\"{:.0f}\">{}</text>", head + panel.height + 14,
                            escaped(shortened(panel.note, 66)));
      body += "</g>\n";
      height = std::max(height, full_height(panel));
    }
    y += height + k_margin;
  }
  const double full_width = static_cast<double>(columns) * (width + k_margin) + k_margin;
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"panel\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" role=\"img\" aria-label=\"{2}\"><style>{3}{4}</style>"
      "<rect class=\"ground\" width=\"{0:.0f}\" height=\"{1:.0f}\"/>\n{5}</svg>\n",
      full_width, y, escaped(title), k_page_palette, k_panel_style, body);
}

}  // namespace unroll::cli
