// SPDX-License-Identifier: Apache-2.0
// Features of table rows, for training and for the prediction of raw rows.
#include <algorithm>
#include <cmath>

#include "core/tasks/common/task_parts.h"
#include "core/tasks/table/features.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

// Fills the gaps of values[first], values[first + stride], ... with the previous value, or by linear interpolation.
// Gaps before the first value are filled only by interpolation.
void fill_along(std::span<double> values, std::size_t first, std::size_t stride, bool interpolate) {
  double before = std::nan("");
  std::size_t open = first;  // the first gap after `before`
  for (std::size_t i = first; i < values.size(); i += stride) {
    if (std::isnan(values[i])) continue;
    for (std::size_t gap = open; gap < i; gap += stride) {
      const double share = static_cast<double>(gap + stride - open) / static_cast<double>(i + stride - open);
      if (std::isnan(before)) values[gap] = interpolate ? values[i] : before;
      else values[gap] = interpolate ? before + share * (values[i] - before) : before;
    }
    before = values[i];
    open = i + stride;
  }
  for (; open < values.size(); open += stride) values[open] = before;
}

}  // namespace

void Features::apply(std::span<double> values) const {
  const std::size_t stride = width();
  for (std::size_t f = 0; f < stride && missing != "error" && missing != "mean"; ++f)
    fill_along(values, f, stride, missing == "interpolate");
  for (std::size_t f = 0; f < values.size(); ++f) {
    if (std::isnan(values[f])) values[f] = mean[f];
    values[f] = normalize ? (values[f] - mean[f]) / deviation[f] : values[f] / divide;
  }
}

std::string target_text(std::string_view cell) {
  const std::optional<double> number = number_in(cell);
  return number && std::isfinite(*number) ? exact_text(*number) : std::string(trimmed(cell));
}

void put_sequence(std::span<const double> values, std::span<float> x, std::int64_t b, std::int64_t B, std::int64_t I) {
  const std::size_t width = I, row = b, rows = B;
  for (std::size_t i = 0; i < values.size(); ++i)
    x[(i / width * rows + row) * width + i % width] = static_cast<float>(values[i]);
}

// Adds a row by Welford's method, column by column.
void FeatureFit::add(std::span<const double> values) {
  for (std::size_t f = 0; f < values.size(); ++f) {
    if (std::isnan(values[f])) continue;
    const double before = values[f] - mean_[f];
    mean_[f] += before / ++count_[f];
    square_[f] += before * (values[f] - mean_[f]);
  }
}

void FeatureFit::put(Features& features) const {
  features.mean = mean_;
  features.deviation.clear();
  for (std::size_t f = 0; f < mean_.size(); ++f) {
    const double variance = count_[f] > 0 ? square_[f] / count_[f] : 0;
    features.deviation.push_back(variance > 0 ? std::sqrt(variance) : 1);
  }
}

}  // namespace unroll
