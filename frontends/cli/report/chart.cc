// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace unroll::cli {
namespace {

// Pixels of the SVG; the page scales it.
constexpr double k_width = 480, k_height = 300, k_left = 76, k_right = 22, k_top = 12, k_bottom = 58;
constexpr double k_logarithmic_above = 1000;  // ratio of the largest to the smallest value
constexpr std::size_t k_most_points = 2000;   // of a line, several to a pixel

// Returns multiples of 1, 2 or 5 times a power of ten, about `wanted` of them in the range.
std::vector<double> round_numbers(double from, double to, int wanted) {
  const double raw = (to - from) / wanted, power = std::pow(10, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0})
    if (raw <= factor * power) {
      step = factor * power;
      break;
    }
  std::vector<double> numbers;
  const double first = std::ceil(from / step - 1e-9);
  for (int i = 0; i <= 3 * wanted && (first + i) * step <= to + 1e-9 * step; ++i)
    numbers.push_back(first + i == 0 ? 0 : (first + i) * step);  // avoids -0
  return numbers;
}

Curve thinned(const Curve& points) {
  if (points.size() <= k_most_points) return points;
  const std::size_t stride = (2 * points.size() + k_most_points - 1) / k_most_points;
  const auto lower = [](const auto& a, const auto& b) {
    return std::isfinite(a.second) && (!std::isfinite(b.second) || a.second < b.second);
  };
  const auto higher = [](const auto& a, const auto& b) {
    return std::isfinite(b.second) && (!std::isfinite(a.second) || a.second < b.second);
  };
  Curve kept;
  for (std::size_t i = 0; i < points.size(); i += stride) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(i);
    const auto end = points.begin() + static_cast<std::ptrdiff_t>(std::min(points.size(), i + stride));
    const auto low = std::min_element(begin, end, lower), high = std::max_element(begin, end, higher);
    kept.push_back(std::min(low, high)[0]);
    if (low != high) kept.push_back(std::max(low, high)[0]);
  }
  return kept;
}

class Chart {
 public:
  Chart(std::vector<ChartLine> lines, const ChartAxes& axes) : lines_(std::move(lines)), axes_(axes) {
    constexpr double k_none = std::numeric_limits<double>::infinity();
    double first = k_none, last = -k_none, least = k_none, most = -k_none;
    for (ChartLine& line : lines_) {
      line.points = thinned(line.points);
      for (const auto& [x, y] : line.points) {
        first = std::min(first, x);
        last = std::max(last, x);
        if (!std::isfinite(y)) continue;
        least = std::min(least, y);
        most = std::max(most, y);
      }
    }
    if (first > last || least > most) return;  // no points
    logarithmic_ = axes.may_be_logarithmic && least > 0 && most / least > k_logarithmic_above;
    if (logarithmic_) {
      least = std::log10(least);
      most = std::log10(most);
    }
    const double margin = most > least ? 0.04 * (most - least) : std::max(1e-9, 0.5 * std::abs(most));
    first_ = first;
    last_ = last > first ? last : first + 1;
    least_ = least - margin;
    most_ = most + margin;
  }

  std::string body() const {
    std::string svg = y_axis() + x_axis();
    for (const double mark : axes_.marks)
      svg += fmt::format("<line class=\"cursor\" x1=\"{0:.2f}\" x2=\"{0:.2f}\" y1=\"{1}\" y2=\"{2}\"/>", x(mark), k_top,
                         k_height - k_bottom);
    for (const ChartLine& line : lines_) svg += drawn(line);
    return svg;
  }

  std::string attributes() const {
    const std::string labels =
        axes_.labels.empty() ? ""
                             : fmt::format(" data-first-label=\"{}\" data-labels=\"{}\"", axes_.first_label,
                                           escaped(fmt::format("{}", fmt::join(axes_.labels, "|"))));
    return fmt::format("data-left=\"{}\" data-right=\"{}\" data-bottom=\"{}\" data-first=\"{:.10g}\" "
                       "data-last=\"{:.10g}\" data-x=\"{}\"{}",
                       k_left, k_width - k_right, k_height - k_bottom, first_, last_, escaped(axes_.x), labels);
  }

 private:
  double x(double at) const { return k_left + (at - first_) / (last_ - first_) * (k_width - k_left - k_right); }
  double y(double value) const {
    const double at = logarithmic_ ? std::log10(value) : value;
    return k_height - k_bottom - (at - least_) / (most_ - least_) * (k_height - k_top - k_bottom);
  }

  std::string y_axis() const {
    std::string svg;
    for (const double tick : round_numbers(least_, most_, 5)) {
      const double value = logarithmic_ ? std::pow(10, tick) : tick;
      svg += fmt::format("<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.2f}\" y2=\"{2:.2f}\"/>"
                         "<text class=\"tick\" x=\"{3}\" y=\"{4:.2f}\" text-anchor=\"end\">{5:.4g}</text>",
                         k_left, k_width - k_right, y(value), k_left - 6, y(value) + 4, value);
    }
    const double middle = (k_top + k_height - k_bottom) / 2;
    return svg + fmt::format("<text class=\"axis\" transform=\"translate(14 {:.0f}) rotate(-90)\" "
                             "text-anchor=\"middle\">{}{}</text>",
                             middle, escaped(axes_.y), logarithmic_ ? ", logarithmic" : "");
  }

  std::string label_of(double at) const {
    const double index = at - axes_.first_label;
    if (axes_.labels.empty()) return fmt::format("{:.6g}", at);
    if (index < 0 || index >= static_cast<double>(axes_.labels.size()) || index != std::floor(index)) return "";
    return shortened(axes_.labels[static_cast<std::size_t>(index)], 12);
  }

  std::string x_axis() const {
    std::string svg;
    // Dates are wider than numbers. A label near the end is placed to its left.
    const int wanted = axes_.labels.empty() ? 5 : 3;
    for (const double tick : round_numbers(first_, last_, wanted))
      svg += fmt::format("<text class=\"tick\" x=\"{:.2f}\" y=\"{}\" text-anchor=\"{}\">{}</text>", x(tick),
                         k_height - k_bottom + 20, x(tick) > k_width - k_right - 30 ? "end" : "middle",
                         escaped(label_of(tick)));
    return svg + fmt::format("<text class=\"axis\" x=\"{:.0f}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                             (k_left + k_width - k_right) / 2, k_height - 12, escaped(axes_.x));
  }

  // Draws a polyline for each part without a gap, and a dot for a single point.
  std::string drawn(const ChartLine& line) const {
    const std::string classes = color_class(line.color) + (line.dashed ? " dashed" : "");
    std::string values, svg;
    for (const auto& [at, value] : line.points)
      if (std::isfinite(value)) values += fmt::format("{:.10g},{:.6g} ", at, value);
    std::string about = fmt::format("data-name=\"{}\" data-values=\"{}\"", escaped(line.name), values);
    for (std::size_t i = 0; i < line.points.size();) {
      std::string points;
      std::size_t n = 0;
      for (; i + n < line.points.size() && std::isfinite(line.points[i + n].second); ++n)
        points += fmt::format("{:.2f},{:.2f} ", x(line.points[i + n].first), y(line.points[i + n].second));
      if (n == 1)
        svg += fmt::format("<circle class=\"{}\" {} cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"3\"/>", classes, about,
                           x(line.points[i].first), y(line.points[i].second));
      else if (n > 1) svg += fmt::format("<polyline class=\"{}\" {} points=\"{}\"/>", classes, about, points);
      if (n > 0) about.clear();  // print the values once
      i += n + 1;
    }
    return svg;
  }

  std::vector<ChartLine> lines_;
  const ChartAxes& axes_;
  bool logarithmic_ = false;
  double first_ = 0, last_ = 1, least_ = 0, most_ = 1;  // ranges of x and y; logarithms if the axis is logarithmic
};

}  // namespace

Panel chart(const std::string& title, std::vector<ChartLine> lines, const ChartAxes& axes) {
  Panel panel{.title = title, .body = {}, .width = k_width, .height = k_height};
  for (const ChartLine& line : lines)
    if (line.in_legend) panel.legend.push_back({line.name, line.color, line.dashed});
  const Chart drawing(std::move(lines), axes);
  panel.body = drawing.body();
  panel.attributes = drawing.attributes();
  return panel;
}

}  // namespace unroll::cli
