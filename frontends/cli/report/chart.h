// SPDX-License-Identifier: Apache-2.0
// A line chart with titled axes, in the page's colors and fonts.
#pragma once

#include <string>
#include <vector>

#include "frontends/cli/report/panel.h"
#include "frontends/cli/run/run_record.h"

namespace unroll::cli {

struct ChartLine {
  std::string name;
  int color = 0;
  bool dashed = false;
  Curve points;          // in order of x; a non-finite value breaks the line
  bool in_legend = true;
};

struct ChartAxes {
  std::string x, y;  // titles, with units
  // y is logarithmic if all values are above 0 and the largest is a thousand times the smallest.
  bool may_be_logarithmic = true;
  // Texts of x = first_label, first_label + 1, ...: dates. Empty: numbers.
  std::vector<std::string> labels = {};
  double first_label = 0;
  std::vector<double> marks = {};  // vertical lines
};

// Long lines show the lowest and the highest of each group of points, so that no peak is lost.
Panel chart(const std::string& title, std::vector<ChartLine> lines, const ChartAxes& axes);

}  // namespace unroll::cli
