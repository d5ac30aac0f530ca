// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace unroll::cli {
namespace {

constexpr double k_logarithmic_above = 1000;  // the largest value by the smallest
constexpr std::size_t k_most_points = 2000;   // of a line, several to a pixel

// 1, 2 or 5 times a power of ten, about `wanted` of them between the ends.
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
    numbers.push_back(first + i == 0 ? 0 : (first + i) * step);  // no -0
  return numbers;
}

// Of every so many points the lowest and the highest, in order: no peak is lost.
Curve thinned(const Curve& points) {
  if (points.size() <= k_most_points) return points;
  const std::size_t stride = (2 * points.size() + k_most_points - 1) / k_most_points;
  const auto lower = [](const auto& a, const auto& b) { return a.second < b.second; };
  Curve kept;
  for (std::size_t i = 0; i < points.size(); i += stride) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(i);
    const auto end = points.begin() + static_cast<std::ptrdiff_t>(std::min(points.size(), i + stride));
    const auto [low, high] = std::minmax_element(begin, end, lower);
    kept.push_back(std::min(low, high)[0]);
    if (low != high) kept.push_back(std::max(low, high)[0]);
  }
  return kept;
}

}  // namespace

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
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

Chart::Chart(std::vector<ChartLine> lines) : lines_(std::move(lines)) {
  constexpr double k_none = std::numeric_limits<double>::infinity();
  double first = k_none, last = -k_none, least = k_none, most = -k_none;
  for (ChartLine& line : lines_) {
    line.points = thinned(line.points);
    for (const auto& [update, value] : line.points) {
      first = std::min(first, update);
      last = std::max(last, update);
      least = std::min(least, value);
      most = std::max(most, value);
    }
  }
  if (first > last) return;  // no points
  logarithmic_ = least > 0 && most / least > k_logarithmic_above;
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

double Chart::x(double update) const {
  return k_left + (update - first_) / (last_ - first_) * (k_width - k_left - k_right);
}
double Chart::y(double value) const {
  const double at = logarithmic_ ? std::log10(value) : value;
  return k_height - k_bottom - (at - least_) / (most_ - least_) * (k_height - k_top - k_bottom);
}

std::string Chart::polyline(const ChartLine& line) const {
  std::string points, values;
  for (const auto& [update, value] : line.points) {
    points += fmt::format("{:.2f},{:.2f} ", x(update), y(value));
    values += fmt::format("{:.10g},{:.6g} ", update, value);
  }
  const std::string classes = fmt::format("c{}{}", line.colour, line.dashed ? " dashed" : "");
  const std::string about = fmt::format("data-name=\"{}\" data-values=\"{}\"", escaped(line.name), values);
  if (line.points.size() == 1)
    return fmt::format("<circle class=\"{}\" {} cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"3\"/>", classes, about,
                       x(line.points[0].first), y(line.points[0].second));
  return fmt::format("<polyline class=\"{}\" {} points=\"{}\"/>", classes, about, points);
}

std::string Chart::svg(const std::string& title) const {
  std::string body;
  for (const double tick : round_numbers(least_, most_, 5)) {
    const double value = logarithmic_ ? std::pow(10, tick) : tick;
    body += fmt::format("<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.2f}\" y2=\"{2:.2f}\"/>"
                        "<text x=\"{3}\" y=\"{4:.2f}\" text-anchor=\"end\">{5:.4g}</text>",
                        k_left, k_width - k_right, y(value), k_left - 6, y(value) + 4, value);
  }
  for (const double tick : round_numbers(first_, last_, 6))
    body +=
        fmt::format("<text x=\"{:.2f}\" y=\"{}\" text-anchor=\"middle\">{:.6g}</text>", x(tick), k_height - 8, tick);
  for (const ChartLine& line : lines_) body += polyline(line);
  return fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\" data-left=\"{}\" data-right=\"{}\" "
                     "data-first=\"{:.10g}\" data-last=\"{:.10g}\">{}</svg>",
                     k_width, k_height, escaped(title), k_left, k_width - k_right, first_, last_, body);
}

}  // namespace unroll::cli
