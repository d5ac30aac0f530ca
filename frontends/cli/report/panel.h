// SPDX-License-Identifier: Apache-2.0
// A panel: one drawing with a title and a legend, as a figure of a page or part of an SVG file.
#pragma once

#include <string>
#include <vector>

namespace unroll::cli {

struct LegendItem {
  std::string name;
  int color = 0;  // class c0 ... c7 of the page's style; k_ink: the color of text
  bool dashed = false;
};
inline constexpr int k_ink = -1;
inline constexpr int k_colors = 8;
std::string color_class(int color);  // "c3", "ink"

struct Panel {
  std::string title;
  std::string body;        // SVG elements
  double width = 480, height = 300;
  std::vector<LegendItem> legend = {};
  std::string attributes = {};  // of the svg element, for the page's script
  std::string note = {};        // a line of text below the drawing
};

// Escapes & < > " and ' for HTML and XML; characters that XML does not allow become U+FFFD.
std::string escaped(const std::string& text);
// Returns at most `most` UTF-8 characters; the last one is an ellipsis if text is cut.
std::string shortened(const std::string& text, std::size_t most);

// CSS and JavaScript of pages and pictures: page_style.cc.
extern const char* const k_page_palette;  // colors, light and dark
extern const char* const k_page_style;
extern const char* const k_page_script;

// For a page with k_page_palette, k_page_style and k_panel_style.
std::string figure(const Panel& panel);
std::string figures(const std::vector<Panel>& panels);  // in a grid
// Returns a self-contained file: title, panels in up to two columns, light or dark by the viewer's setting.
std::string svg_file(const std::string& title, const std::vector<Panel>& panels);

extern const char* const k_panel_style;  // CSS

}  // namespace unroll::cli
