// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/table/features.h"

#include <algorithm>
#include <cmath>

#include "core/data/text/entry_lines.h"
#include "core/tasks/common/task_parts.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

// Column names of models that predate column names: their numbers.
std::vector<std::string> numbered_columns(std::int64_t n) {
  constexpr std::int64_t k_most = 65536;
  if (n < 1 || n > k_most)
    throw Error(ErrorKind::input_file, "model", "metadata 'steps' and 'width' do not give a number of columns");
  std::vector<std::string> columns;
  for (std::int64_t c = 1; c <= n; ++c) columns.push_back(std::to_string(c));
  return columns;
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
  if (std::ssize(f.columns) != f.steps * width)
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
  if (!normalize && missing == "error") return;  // the statistics are not used
  put_numbers(m, "mean", mean);
  put_numbers(m, "deviation", deviation);
}

void put_numbers(Metadata& m, const std::string& key, std::span<const double> values) {
  std::vector<std::string> texts;
  for (const double v : values) texts.push_back(exact_text(v));
  m[key] = entry_lines(texts);
}

std::vector<double> get_numbers(const Metadata& m, const std::string& key, std::size_t n) {
  std::vector<double> values;
  for (const std::string& text : get_list(m, key)) values.push_back(number_in(text).value_or(std::nan("")));
  const bool finite = std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
  if (values.size() != n || !finite)
    throw Error(ErrorKind::input_file, "model", "metadata '" + key + "' must hold " + std::to_string(n) + " numbers");
  return values;
}

std::vector<std::string> class_names_of(const Metadata& metadata) {
  std::vector<std::string> labels;
  if (metadata.contains("labels")) {
    labels = get_list(metadata, "labels");
    if (labels.empty()) throw Error(ErrorKind::input_file, "model", "metadata 'labels' is empty");
    return labels;
  }
  const std::int64_t classes = get_integer(metadata, "classes");
  if (classes < 1 || classes > k_max_classes)
    throw Error(ErrorKind::input_file, "model", "metadata 'classes' is " + std::to_string(classes));
  for (std::int64_t k = 0; k < classes; ++k) labels.push_back(std::to_string(k));
  return labels;
}

std::vector<std::string> get_targets(const Metadata& m) {
  if (m.contains("targets")) return get_list(m, "targets");
  return m.contains("label") ? std::vector{get_text(m, "label")} : std::vector<std::string>();
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

}  // namespace unroll
