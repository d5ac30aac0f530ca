// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/report/pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "frontends/cli/report/chart.h"
#include "frontends/cli/terminal/words.h"

namespace unroll::cli {
namespace {

// Pixels of the SVG.
constexpr double k_picture_width = 480, k_axis_title = 26, k_picture_letter = 7.6, k_most_height = 480;
constexpr std::size_t k_most_classes = 20, k_most_picture_tokens = 40, k_most_bars = 10, k_label_letters = 14;

double label_room(const std::vector<std::string>& labels) {
  std::size_t longest = 1;
  for (const std::string& label : labels) longest = std::max(longest, std::min(label.size(), k_label_letters));
  return 8 + k_picture_letter * static_cast<double>(longest);
}

// A grid of shaded cells: rows down, columns across, labels left and above.
struct Grid {
  std::vector<std::string> rows, columns;
  std::string row_title, column_title;
};

class GridDrawing {
 public:
  explicit GridDrawing(const Grid& grid) : grid_(grid) {
    left_ = k_axis_title + label_room(grid.rows);
    cell_ = std::min((k_picture_width - left_ - 8) / static_cast<double>(std::max<std::size_t>(grid.columns.size(), 1)),
                     72.0);
    height_ = std::min(cell_, 36.0);
    upright_ = label_room(grid.columns) < cell_;
    top_ = k_axis_title + (upright_ ? 22 : label_room(grid.columns));
  }
  double full_height() const { return top_ + height_ * static_cast<double>(grid_.rows.size()) + 8; }
  double cell() const { return cell_; }

  // Adds a cell with a strength from 0 to 1 and a hover text.
  void add(std::size_t row, std::size_t column, double strength, const char* kind, const std::string& text,
           const std::string& title) {
    const double x = left_ + cell_ * static_cast<double>(column), y = top_ + height_ * static_cast<double>(row);
    body_ += fmt::format("<g><title>{}</title><rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
                         "height=\"{:.1f}\" fill-opacity=\"{:.3f}\"/>",
                         escaped(title), kind, x, y, cell_ - 1, height_ - 1,
                         0.04 + 0.5 * std::clamp(strength, 0.0, 1.0));
    if (!text.empty())
      body_ += fmt::format("<text class=\"strong\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>",
                           x + cell_ / 2, y + height_ / 2 + 5, escaped(text));
    body_ += "</g>";
  }

  std::string body() const {
    std::string svg = fmt::format(
        "<text class=\"axis\" x=\"{:.1f}\" y=\"14\">{}</text>"
        "<text class=\"axis\" transform=\"translate(14 {:.1f}) rotate(-90)\" text-anchor=\"end\">{}</text>",
        left_, escaped(grid_.column_title), top_, escaped(grid_.row_title));
    for (std::size_t r = 0; r < grid_.rows.size(); ++r)
      svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>", left_ - 6,
                         top_ + height_ * (static_cast<double>(r) + 0.5) + 5,
                         escaped(shortened(grid_.rows[r], k_label_letters)));
    for (std::size_t c = 0; c < grid_.columns.size(); ++c)
      svg += fmt::format("<text transform=\"translate({:.1f} {:.1f}){}</text>",
                         left_ + cell_ * (static_cast<double>(c) + 0.5) + (upright_ ? 0 : 5), top_ - 6,
                         (upright_ ? "\" text-anchor=\"middle\">" : " rotate(-90)\">") +
                             escaped(shortened(grid_.columns[c], k_label_letters)));
    return svg + body_;
  }

 private:
  const Grid& grid_;
  double left_, top_, cell_, height_;
  bool upright_;  // column labels fit above their columns without rotation
  std::string body_;
};

std::string shade(const char* kind, double x, double y, double width, double opacity) {
  return fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"17\" "
                     "fill-opacity=\"{:.3f}\"/>",
                     kind, x, y, width, std::clamp(opacity, 0.0, 1.0));
}

// A blank is a token too.
std::vector<std::string> shown_tokens(const std::vector<std::string>& tokens) {
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < std::min(tokens.size(), k_most_picture_tokens); ++i)
    shown.push_back(tokens[i].empty() ? "(end)" : tokens[i] == " " ? "\u2423" : tokens[i]);
  return shown;
}

// Returns values from `from` on. A forecast does not continue the previous one.
Curve curve_of(const std::vector<double>& values, std::size_t from, const std::vector<std::int64_t>& ahead) {
  Curve curve;
  const bool apart = std::any_of(ahead.begin(), ahead.end(), [](std::int64_t step) { return step > 1; });
  for (std::size_t i = from; i < values.size(); ++i) {
    const auto x = static_cast<double>(i);
    if (apart && i > from && ahead[i] == 1) curve.emplace_back(x, std::nan(""));
    curve.emplace_back(x, values[i]);
  }
  return curve;
}

// A chart over positions in the data, numbered 0, 1, ...: dates or row numbers.
Panel series_chart(const std::string& title, std::vector<ChartLine> lines, const std::string& series,
                   const std::vector<std::string>& at, std::vector<double> marks = {}) {
  const bool counted = std::all_of(at.begin(), at.end(), [](const std::string& text) {
    return text.size() < 16 && text.find_first_not_of("0123456789") == std::string::npos;
  });
  ChartAxes axes{.x = counted ? "Row of the data" : "Date",
                 .y = series.empty() ? "Value" : shortened(series, 30) + " (data units)",
                 .may_be_logarithmic = false,
                 .labels = at,
                 .marks = std::move(marks)};
  const auto number = [](const std::string& digits) { return static_cast<double>(std::stoll(digits)); };
  const double first = counted && !at.empty() ? number(at.front()) : 0;
  // Without gaps the axis has round numbers.
  if (counted && !at.empty() && number(at.back()) - first == static_cast<double>(at.size() - 1)) {
    axes.labels.clear();
    for (double& mark : axes.marks) mark += first;
    for (ChartLine& line : lines)
      for (auto& point : line.points) point.first += first;
  }
  return chart(title, std::move(lines), axes);
}
std::string series_title(const char* what, const std::string& series) {
  return series.empty() ? what : fmt::format("{}: {}", what, shortened(series, 30));
}

Panel forecast_panel(const ForecastExample& example, std::size_t from, bool baselines) {
  std::vector<ChartLine> lines;
  int color = 1;
  if (baselines)
    for (const auto& [method, values] : example.baselines)
      lines.push_back({heading_of(method), color++, true, curve_of(values, from, example.ahead)});
  lines.push_back({"Observed", k_ink, false, curve_of(example.actual, from, {})});
  lines.push_back({"Model", 0, false, curve_of(example.predicted, from, example.ahead)});
  return series_chart(series_title(baselines ? "Last forecasts and baselines" : "Forecasts", example.series),
                      std::move(lines), example.series, example.at);
}

}  // namespace

std::vector<Panel> forecast_panels(const ForecastExample& example) {
  constexpr std::size_t k_close_values = 60;
  std::vector<Panel> panels{forecast_panel(example, 0, /*baselines=*/false)};
  const std::size_t n = example.actual.size();
  if (n == 0 || (n <= k_close_values && example.baselines.empty())) return panels;
  std::size_t from = n - std::min(n, k_close_values);
  while (from > 0 && example.ahead[from] != 1) --from;  // complete windows
  panels.push_back(forecast_panel(example, from, /*baselines=*/true));
  return panels;
}

std::vector<Panel> end_panels(const std::vector<std::string>& columns, const SeriesEnd& end,
                              const std::vector<double>& predicted, const std::vector<ForecastBounds>& bounds) {
  std::vector<Panel> panels;
  const std::size_t S = columns.size(), n = end.values.size() / S;
  for (std::size_t s = 0; s < std::min(S, k_most_series); ++s) {
    Curve observed, model;
    for (std::size_t i = 0; i < n; ++i) observed.emplace_back(static_cast<double>(i), end.values[i * S + s]);
    const auto add = [&](const std::vector<double>& values, Curve& curve) {
      for (std::size_t i = 0; i < values.size() / S; ++i)
        curve.emplace_back(static_cast<double>(n + i), values[i * S + s]);
    };
    add(predicted, model);
    std::vector<ChartLine> lines{{"Observed", k_ink, false, observed}, {"Model", 0, false, model}};
    int color = 1;
    for (const ForecastBounds& of_level : bounds) {
      if (std::ranges::all_of(of_level.low, [](double bound) { return std::isnan(bound); })) continue;
      add(of_level.low, lines.emplace_back(ChartLine{of_level.name, color, true, {}}).points);
      add(of_level.high, lines.emplace_back(ChartLine{of_level.name, color, true, {}, /*in_legend=*/false}).points);
      ++color;
    }
    const std::string series = end.id.empty() ? columns[s] : S == 1 ? end.id : end.id + ", " + columns[s];
    panels.push_back(series_chart(series_title("Forecast", series), std::move(lines), series, end.at,
                                  {static_cast<double>(n) - 0.5}));
  }
  if (S > k_most_series) panels.back().note = fmt::format("The first {} of {} series.", k_most_series, S);
  return panels;
}

Panel confusion_panel(const Confusion& matrix, const std::string& title) {
  const std::size_t n = matrix.labels.size();
  std::vector<std::int64_t> support(n);
  for (std::size_t t = 0; t < n; ++t)
    for (std::size_t p = 0; p < n; ++p) support[t] += matrix.at(t, p);
  std::vector<std::size_t> shown(n);
  std::iota(shown.begin(), shown.end(), std::size_t{0});
  if (n > k_most_classes) {
    std::stable_sort(shown.begin(), shown.end(), [&](std::size_t a, std::size_t b) { return support[a] > support[b]; });
    shown.resize(k_most_classes);
    std::sort(shown.begin(), shown.end());
  }
  Grid grid{.rows = {}, .columns = {}, .row_title = "True label", .column_title = "Predicted label"};
  for (const std::size_t i : shown) grid.rows.push_back(matrix.labels[i]);
  grid.columns = grid.rows;
  GridDrawing drawing(grid);
  for (std::size_t r = 0; r < shown.size(); ++r)
    for (std::size_t c = 0; c < shown.size(); ++c) {
      const std::int64_t count = matrix.at(shown[r], shown[c]), all = support[shown[r]];
      const double share = all > 0 ? static_cast<double>(count) / static_cast<double>(all) : 0;
      const std::string text = number_text(static_cast<double>(count));
      const bool fits = k_picture_letter * static_cast<double>(text.size()) < drawing.cell() - 2;
      drawing.add(r, c, share, r == c ? "shade" : "off", count > 0 && fits ? text : "",
                  fmt::format("{} examples of {} predicted as {}: {}", text, matrix.labels[shown[r]],
                              matrix.labels[shown[c]], share_text(share)));
    }
  Panel panel{.title = title, .body = drawing.body(), .width = k_picture_width, .height = drawing.full_height()};
  panel.attributes = fmt::format("data-kind=\"confusion\" data-counts=\"{}\"", fmt::join(matrix.counts, " "));
  if (n > shown.size())
    panel.note = fmt::format("The {} labels with most examples of {}.", shown.size(), n);
  return panel;
}

Panel attention_panel(WrittenAttention map, const std::string& title) {
  for (std::size_t t = 0; t < map.p_gen.size(); ++t) map.target[t] += fmt::format(" {:.2f}", map.p_gen[t]);
  const Grid grid{.rows = shown_tokens(map.target),
                  .columns = shown_tokens(map.source),
                  .row_title = "Target token",
                  .column_title = "Source token"};
  GridDrawing drawing(grid);
  for (std::size_t t = 0; t < grid.rows.size(); ++t)
    for (std::size_t s = 0; s < grid.columns.size(); ++s) {
      const double weight = map.weights[t * map.source.size() + s];
      drawing.add(t, s, weight, "shade", "",
                  fmt::format("{} attends to {}: {}", grid.rows[t], grid.columns[s], share_text(weight)));
    }
  Panel panel{.title = title, .body = drawing.body(), .width = k_picture_width, .height = drawing.full_height()};
  if (grid.rows.size() < map.target.size() || grid.columns.size() < map.source.size())
    panel.note = fmt::format("The first {} of {} target and {} of {} source tokens.", grid.rows.size(),
                             map.target.size(), grid.columns.size(), map.source.size());
  if (!map.p_gen.empty())
    panel.note += fmt::format("{}Behind each target token: the probability p_gen that it was not copied.",
                              panel.note.empty() ? "" : " ");
  return panel;
}

Panel attention_panel(const TextAttention& attention, const std::string& title) {
  constexpr double k_line = 24, k_bar = 56, k_space = 6;
  Panel panel{.title = title, .body = {}, .width = k_picture_width, .height = 0};
  panel.attributes = "data-kind=\"document-attention\"";
  panel.body = "<text class=\"axis\" x=\"0\" y=\"14\">Bars: sentence weights; shades: word weights</text>";
  double y = 22;
  std::size_t shown = 0;
  const auto& sentences = attention.sentences;
  for (; shown < sentences.size() && y < k_most_height; ++shown, y += k_line) {
    const TextAttention::Sentence& s = sentences[shown];
    panel.body += fmt::format("<g data-weight=\"{0:.6g}\"><title>Sentence {1}: {2}</title>", s.weight, shown + 1,
                              share_text(s.weight)) +
                  shade("off", 0, y, std::max((k_bar - 8) * static_cast<double>(s.weight), 1.0), 0.6) + "</g>";
    const float most = *std::max_element(s.weights.begin(), s.weights.end());
    double x = k_bar;
    for (std::size_t w = 0; w < s.words.size(); ++w) {
      const std::string word = shortened(s.words[w], k_label_letters);
      const double width = k_picture_letter * static_cast<double>(word.size()) + k_space;
      if (x > k_bar && x + width > k_picture_width) {
        x = k_bar;
        y += k_line;
      }
      panel.body += fmt::format("<g data-weight=\"{:.6g}\"><title>{}: {}</title>", s.weights[w], escaped(s.words[w]),
                                share_text(s.weights[w])) +
                    shade("shade", x, y, width - 1, 0.6 * static_cast<double>(s.weights[w] / most)) +
                    fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text></g>", x + k_space / 2, y + 13,
                                escaped(word));
      x += width;
    }
  }
  panel.height = y + 4;
  if (shown < sentences.size()) panel.note = fmt::format("The first {} of {} sentences.", shown, sentences.size());
  return panel;
}

Panel probability_panel(const std::string& title, const std::vector<ScoredLabel>& labels) {
  constexpr double k_row = 24, k_top = 6;
  const std::size_t n = std::min(labels.size(), k_most_bars);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < n; ++i) names.push_back(labels[i].label);
  const double left = label_room(names), room = k_picture_width - left - 70;
  Panel panel{
      .title = title, .body = {}, .width = k_picture_width, .height = k_top + k_row * static_cast<double>(n) + 30};
  panel.attributes = "data-kind=\"probabilities\"";
  for (std::size_t i = 0; i < n; ++i) {
    const double y = k_top + k_row * static_cast<double>(i), p = std::clamp(labels[i].probability, 0.0, 1.0);
    panel.body += fmt::format(
        "<g data-label=\"{0}\" data-probability=\"{1:.6g}\"><text x=\"{2:.1f}\" y=\"{3:.1f}\" text-anchor=\"end\">{4}"
        "</text><rect class=\"shade\" x=\"{5:.1f}\" y=\"{6:.1f}\" width=\"{7:.1f}\" height=\"16\"/>"
        "<text class=\"strong\" x=\"{8:.1f}\" y=\"{3:.1f}\">{9}</text></g>",
        escaped(names[i]), labels[i].probability, left - 6, y + 13, escaped(shortened(names[i], k_label_letters)), left,
        y, std::max(room * p, 1.0), left + room * p + 6, share_text(p));
  }
  panel.body += fmt::format("<text class=\"axis\" x=\"{:.1f}\" y=\"{:.1f}\">Probability</text>", left,
                            panel.height - 8);
  if (n < labels.size()) panel.note = fmt::format("The {} most probable of {} labels.", n, labels.size());
  return panel;
}

}  // namespace unroll::cli
