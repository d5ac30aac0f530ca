// SPDX-License-Identifier: Apache-2.0
#include "frontends/tasks/classify/features.h"

#include <algorithm>
#include <cmath>

#include "frontends/data/text/entry_lines.h"
#include "frontends/tasks/common/task_parts.h"
#include "unroll/error.h"
#include "unroll/ops.h"

namespace unroll {

namespace {

std::string numbers_text(std::span<const double> values) {
  std::vector<std::string> texts;
  for (const double v : values) texts.push_back(exact_text(v));
  return entry_lines(texts);
}

std::vector<double> get_numbers(const Metadata& m, const std::string& key, std::size_t n) {
  std::vector<double> values;
  for (const std::string& text : get_list(m, key)) values.push_back(number_in(text).value_or(std::nan("")));
  const bool finite = std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
  if (values.size() != n || !finite)
    throw Error(ErrorKind::input_file, "model", "metadata '" + key + "' must hold " + std::to_string(n) + " numbers");
  return values;
}

// What models had before their columns had names.
std::vector<std::string> numbered_columns(std::int64_t n) {
  constexpr std::int64_t k_most = 65536;
  if (n < 1 || n > k_most)
    throw Error(ErrorKind::input_file, "model", "metadata 'steps' and 'width' do not give a number of columns");
  std::vector<std::string> columns;
  for (std::int64_t c = 1; c <= n; ++c) columns.push_back(std::to_string(c));
  return columns;
}

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

}  // namespace

Features Features::of(const Metadata& m) {
  Features f;
  f.steps = get_integer(m, "steps");
  const std::int64_t width = get_integer(m, "width");
  constexpr std::int64_t k_most = 65536;
  if (f.steps < 1 || width < 1 || f.steps > k_most || width > k_most)
    throw Error(ErrorKind::input_file, "model", "metadata 'steps' and 'width' must lie in 1 to 65536");
  f.columns = m.contains("columns") ? get_list(m, "columns") : numbered_columns(f.steps * width);
  if (static_cast<std::int64_t>(f.columns.size()) != f.steps * width)
    throw Error(ErrorKind::input_file, "model", "metadata 'columns' must hold steps * width names");
  f.divide = get_double(m, "divide");
  if (!(std::fabs(f.divide) > 0)) throw Error(ErrorKind::input_file, "model", "metadata 'divide' must not be 0");
  if (m.contains("missing")) f.missing = get_text(m, "missing");
  f.normalize = m.contains("normalize") && get_integer(m, "normalize") != 0;
  f.mean.assign(f.columns.size(), 0.0);
  f.deviation.assign(f.columns.size(), 1.0);
  if (!m.contains("mean")) return f;
  f.mean = get_numbers(m, "mean", f.columns.size());
  f.deviation = get_numbers(m, "deviation", f.columns.size());
  if (!std::all_of(f.deviation.begin(), f.deviation.end(), [](double v) { return v > 0; }))
    throw Error(ErrorKind::input_file, "model", "metadata 'deviation' must be positive");
  return f;
}

void Features::put(Metadata& m) const {
  m["steps"] = std::to_string(steps);
  m["width"] = std::to_string(width());
  m["columns"] = entry_lines(columns);
  m["missing"] = missing;
  m["divide"] = exact_text(divide);
  m["normalize"] = normalize ? "1" : "0";
  if (!normalize && missing == "error") return;  // nothing reads them
  m["mean"] = numbers_text(mean);
  m["deviation"] = numbers_text(deviation);
}

std::vector<std::size_t> Features::places(const CsvReader& reader, const std::string& label) const {
  std::vector<std::size_t> places;
  // Numbers count the label's column too: behind it they are one less in a file without it.
  const bool without_label = reader.header().empty() && reader.n_columns() == columns.size();
  const double label_number = without_label ? number_in(label).value_or(0) : 0;
  for (const std::string& column : columns) {
    const double number = number_in(column).value_or(0);
    if (without_label && label_number == 0) places.push_back(places.size());
    else if (label_number > 0 && number > label_number) places.push_back(static_cast<std::size_t>(number) - 2);
    else places.push_back(reader.column(column));
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

Value Features::scaled(Value x) const {
  if (!normalize) return x / divide;
  const auto row = [&](std::span<const double> values) {
    Tensor numbers(DType::f32, {steps, 1, width()});
    for (std::size_t f = 0; f < values.size(); ++f) numbers.set(static_cast<std::int64_t>(f), values[f]);
    return constant(x.graph(), std::move(numbers));
  };
  return (x - row(mean)) / row(deviation);
}

std::string class_name(std::string_view cell) {
  const std::optional<double> number = number_in(cell);
  return number ? exact_text(*number) : std::string(trimmed(cell));
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
