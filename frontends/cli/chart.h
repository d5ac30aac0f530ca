// SPDX-License-Identifier: Apache-2.0
// A chart of curves as SVG, in the colours and fonts of the page around it.
#pragma once

#include <string>
#include <vector>

#include "frontends/cli/run_record.h"

namespace unroll::cli {

struct ChartLine {
  std::string name;
  int colour = 0;       // of the page's style: class c0 ... c7
  bool dashed = false;
  Curve points;
};

// Pixels of the SVG's own; the page scales it. x is the update. y is logarithmic where all values are above 0 and the
// largest is a thousand times the smallest.
class Chart {
 public:
  static constexpr double k_width = 640, k_height = 280, k_left = 64, k_right = 12, k_top = 10, k_bottom = 28;

  explicit Chart(std::vector<ChartLine> lines);
  double x(double update) const;
  double y(double value) const;
  std::string svg(const std::string& title) const;

 private:
  std::string polyline(const ChartLine& line) const;

  std::vector<ChartLine> lines_;
  bool logarithmic_ = false;
  double first_ = 0, last_ = 1, least_ = 0, most_ = 1;  // of updates and values; of their logarithms
};

// & < > " and ' for HTML.
std::string escaped(const std::string& text);

}  // namespace unroll::cli
