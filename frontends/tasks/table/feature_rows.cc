// SPDX-License-Identifier: Apache-2.0
// Rows of a table as features: in training and where raw rows are predicted.
#include <algorithm>
#include <cmath>

#include "core/support/text/counted.h"
#include "frontends/tasks/table/features.h"
#include "frontends/tasks/common/task_parts.h"
#include "unroll/error.h"

namespace unroll {

namespace {

// Fills the gaps of values[first], values[first + stride], ... from what stands before them, or on a line between both
// sides. Gaps before the first value stay, but for `interpolate`.
void fill_along(std::span<double> values, std::size_t first, std::size_t stride, bool interpolate) {
  double before = std::nan("");
  std::size_t open = first;  // the first gap behind `before`
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

// Older models have the name "" for a column whose cell of the header is empty.
std::size_t column_of(const CsvReader& reader, const std::string& name) {
  if (!name.empty() || reader.header().empty()) return reader.column(name);
  const auto unnamed = std::ranges::find(reader.header(), name);
  if (unnamed == reader.header().end()) return reader.column("(no name)");  // refuses
  return static_cast<std::size_t>(unnamed - reader.header().begin());
}

}  // namespace

std::vector<std::size_t> Features::places(const CsvReader& reader, std::span<const std::string> targets) const {
  std::vector<std::size_t> places;
  // Numbers count the columns of the targets too: behind each they are one less in a file without them.
  const bool without_targets = reader.header().empty() && reader.n_columns() == columns.size();
  if (reader.header().empty() && reader.n_columns() < columns.size())
    reader.refuse(1, reader.n_columns() - 1,
                  counted(reader.n_columns(), "column") + "; the model reads " + counted(columns.size(), "feature"),
                  "Give every row all features of the training data");
  std::vector<double> left_out;
  for (const std::string& target : targets)
    if (const double number = number_in(target).value_or(0); number > 0) left_out.push_back(number);
  for (const std::string& column : columns) {
    const double number = number_in(column).value_or(0);
    const auto before = std::ranges::count_if(left_out, [&](double target) { return target < number; });
    const double place = number - 1 - static_cast<double>(before);
    const bool is_place = without_targets && place >= 0 && place < static_cast<double>(reader.n_columns());
    if (without_targets && left_out.empty()) places.push_back(places.size());
    else places.push_back(is_place ? static_cast<std::size_t>(place) : column_of(reader, column));
  }
  return places;
}

void Features::apply(std::span<double> values) const {
  const auto stride = static_cast<std::size_t>(width());
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
  const auto width = static_cast<std::size_t>(I), row = static_cast<std::size_t>(b), rows = static_cast<std::size_t>(B);
  for (std::size_t i = 0; i < values.size(); ++i)
    x[(i / width * rows + row) * width + i % width] = static_cast<float>(values[i]);
}

// Welford's method, by column.
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
