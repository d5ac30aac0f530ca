// SPDX-License-Identifier: Apache-2.0
// The covariates in metadata and in graphs.
#include "core/tasks/forecast/form/covariates.h"

#include <algorithm>
#include <cmath>

#include "core/data/text/entry_lines.h"
#include "unroll/ir/ops.h"

namespace unroll {

std::string covariate_key(std::size_t k, const char* what) { return "covariate." + std::to_string(k) + "." + what; }

std::vector<CovariateColumn> covariate_columns(const Metadata& m) {
  std::vector<CovariateColumn> columns;
  const std::int64_t n = m.contains("covariates") ? get_integer(m, "covariates") : 0;
  for (std::size_t k = 0; std::cmp_less(k, n); ++k) {
    const std::string categories = covariate_key(k, "categories");
    const bool is_category = m.contains(categories);
    columns.push_back({get_text(m, covariate_key(k, "column")), is_category,
                       is_category ? get_list(m, categories) : std::vector<std::string>(),
                       get_text(m, covariate_key(k, "known")) != "past"});
  }
  return columns;
}

Covariates::Covariates(const Metadata& m) {
  const std::vector<CovariateColumn> of_table = covariate_columns(m);
  std::vector<std::string> fixed;
  for (std::size_t k = 0; k < of_table.size(); ++k)
    if (get_text(m, covariate_key(k, "known")) == "static") fixed.push_back(of_table[k].name);
  add_columns(of_table, fixed);
  for (std::size_t k = 0; k < of_table.size(); ++k)
    if (!of_table[k].is_category)
      columns_[k].scale = {get_double(m, covariate_key(k, "mean")), get_double(m, covariate_key(k, "deviation"))};
  if (m.contains("calendar")) add_calendar(get_list(m, "calendar"));
}

void Covariates::put(Metadata& m) const {
  if (n_of_table_ > 0) m["covariates"] = std::to_string(n_of_table_);
  for (std::size_t k = 0; k < n_of_table_; ++k) {
    const Column& c = columns_[k];
    m[covariate_key(k, "column")] = c.name;
    m[covariate_key(k, "known")] = c.is_static ? "static" : c.is_ahead ? "future" : "past";
    if (c.classes > 0) {
      m[covariate_key(k, "categories")] = entry_lines(c.categories);
      continue;
    }
    m[covariate_key(k, "mean")] = exact_text(c.scale.mean);
    m[covariate_key(k, "deviation")] = exact_text(c.scale.deviation);
  }
  if (!terms_.empty()) m["calendar"] = entry_lines(terms_);
}

// A column without any text has one category, which no row has.
void Covariates::add_columns(std::span<const CovariateColumn> of_table, std::span<const std::string> fixed) {
  for (const CovariateColumn& c : of_table)
    columns_.push_back({c.name, c.is_ahead, std::ranges::find(fixed, c.name) != fixed.end(), c.categories,
                        c.is_category ? std::max<std::int64_t>(std::ssize(c.categories), 1) : 0});
  n_of_table_ = columns_.size();
}

void Covariates::add_calendar(std::span<const std::string> terms) {
  for (const std::string& text : terms) {
    const CalendarTerm& term = calendar_.emplace_back(calendar_term(text));
    terms_.push_back(text);
    for (std::int64_t k = 0; k < term.width(); ++k) {
      Column column{text};
      column.classes = term.classes;
      columns_.push_back(std::move(column));
    }
  }
}

std::int64_t Covariates::n_ahead() const {
  std::int64_t n = 0;
  for (const Column& c : columns_) n += c.is_ahead ? c.width() : 0;
  return n;
}

std::int64_t Covariates::n_features() const {
  std::int64_t n = 0;
  for (const Column& c : columns_) n += c.width();
  return n;
}

std::vector<std::string> Covariates::names() const {
  std::vector<std::string> names;
  for (const Column& c : columns_) names.push_back(c.name);
  return names;
}

bool Covariates::has_past() const {
  return std::ranges::any_of(columns_, [](const Column& c) { return !c.is_ahead; });
}

std::vector<std::string> Covariates::given_ahead() const {
  std::vector<std::string> names;
  for (std::size_t k = 0; k < n_of_table_; ++k)
    if (columns_[k].is_ahead && !columns_[k].is_static) names.push_back(columns_[k].name);
  return names;
}

Value Covariates::standardize(Value x) const {
  Tensor means(DType::f32, {width()}), deviations = means;
  for (std::int64_t k = 0; k < width(); ++k) {
    means.set(k, columns_[k].scale.mean);
    deviations.set(k, columns_[k].scale.deviation);
  }
  return (x - constant(x.graph(), means)) / constant(x.graph(), deviations);
}

// The features of the columns that are known ahead, or of the others: [N,B,...].
Value Covariates::features(Value columns, bool ahead) const {
  const std::int64_t N = columns.shape()[0], B = columns.shape()[1];
  std::vector<Value> parts;
  for (std::size_t k = 0; k < columns_.size(); ++k) {
    if (columns_[k].is_ahead != ahead) continue;
    const Value column = slice(columns, 2, static_cast<std::int64_t>(k), 1);
    parts.push_back(columns_[k].classes == 0
                        ? column
                        : one_hot(cast(reshape(column, {N, B}), DType::i32), columns_[k].classes));
  }
  return parts.size() == 1 ? parts[0] : concat(parts, 2);
}

CovariateValues Covariates::values(Value columns, const Differencing& differencing, std::int64_t horizon) const {
  const std::int64_t D = differencing.depth(), known = columns.shape()[0] - horizon, W = known - D;
  CovariateValues v;
  std::vector<Value> in_window;
  if (n_ahead() > 0) {
    const Value features_ahead = features(columns, true);
    const Value past = slice(features_ahead, 0, 0, known);
    v.ahead = transpose(slice(features_ahead, 0, known, horizon), {1, 0, 2});
    v.changes = differencing.differences(past);
    v.changes_ahead = v.ahead;
    if (!differencing.empty()) {
      const Value base = differencing.continuation(past, 1, horizon);
      v.changes_ahead = v.ahead - reshape(base, {base.shape()[1], base.shape()[2], base.shape()[3]});
    }
    in_window.push_back(slice(past, 0, D, W));
  }
  if (has_past()) in_window.push_back(slice(features(columns, false), 0, D, W));
  v.window = in_window.size() == 1 ? in_window[0] : concat(in_window, 2);
  return v;
}

}  // namespace unroll
