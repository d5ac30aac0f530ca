// SPDX-License-Identifier: Apache-2.0
// The covariates in rows of tables.
#include <algorithm>
#include <cmath>
#include <map>

#include "core/support/text/in_quotes.h"
#include "core/tasks/forecast/form/covariates.h"
#include "unroll/support/error.h"

namespace unroll {

std::vector<CovariateColumn> covariate_columns(const ForecastOptions& o) {
  std::vector<CovariateColumn> columns;
  const auto add = [&](const std::vector<std::string>& names, bool ahead) {
    for (const std::string& name : names) {
      if (std::ranges::any_of(columns, [&](const CovariateColumn& c) { return c.name == name; }))
        throw Error(ErrorKind::usage, "forecast", "covariate " + in_quotes(name) + " is listed twice",
                    "List it once: in past_covariates, future_covariates or static_covariates");
      columns.push_back({name, std::ranges::find(o.categories, name) != o.categories.end(), {}, ahead});
    }
  };
  add(o.future_covariates, true);
  add(o.static_covariates, true);
  add(o.past_covariates, false);
  for (const std::string& name : o.categories)
    if (std::ranges::none_of(columns, [&](const CovariateColumn& c) { return c.name == name; }))
      throw Error(ErrorKind::usage, "forecast", "data.categories has " + in_quotes(name) + ", which is no covariate",
                  "Add it to past_covariates, future_covariates or static_covariates");
  return columns;
}

void require_covariates_as_trained(const Metadata& fitted, const std::string& file, const ForecastOptions& o) {
  std::map<std::string, std::vector<std::string>> trained;  // by key of data
  const std::vector<CovariateColumn> of_table = covariate_columns(fitted);
  for (std::size_t k = 0; k < of_table.size(); ++k)
    trained[get_text(fitted, covariate_key(k, "known")) + "_covariates"].push_back(of_table[k].name);
  if (fitted.contains("calendar")) trained["calendar"] = get_list(fitted, "calendar");
  const auto joined = [](const std::vector<std::string>& names) {
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
    return all;
  };
  const auto require = [&](const std::string& key, const std::vector<std::string>& given) {
    if (!given.empty()) require_as_trained({{key, joined(trained[key])}}, file, key, joined(given));
  };
  require("past_covariates", o.past_covariates);
  require("future_covariates", o.future_covariates);
  require("static_covariates", o.static_covariates);
  require("calendar", o.calendar);
}

Covariates::Covariates(const ForecastOptions& o, const SeriesRows& rows, std::span<const RowRange> trained) {
  add_columns(rows.covariates(), o.static_covariates);
  add_calendar(o.calendar);
  if (!calendar_.empty() && !rows.dates().exist())
    throw Error(ErrorKind::usage, rows.reader().name(), "data.calendar needs a column of dates, and there is none",
                "Name it with data.date, or leave data.calendar out");
  fit(rows, trained);
}

void Covariates::fit(const SeriesRows& rows, std::span<const RowRange> trained) {
  if (n_of_table_ == 0) return;
  std::vector<double> counts(n_of_table_), means = counts, squares = counts, first;
  const auto for_each_row = [&](const auto& see) {
    SeriesCursor cursor(rows);
    for (const RowRange& range : trained)
      for (std::int64_t t = range.begin; t < range.end; ++t) {
        const std::span<const double> values = cursor.at(t, t + 1).covariates_at(t);
        if (t == range.begin) first.assign(values.begin(), values.end());
        for (std::size_t k = 0; k < n_of_table_; ++k)
          if (!std::isnan(values[k])) see(t, k, values[k]);
      }
  };
  for_each_row([&](std::int64_t t, std::size_t k, double value) {
    means[k] += (value - means[k]) / ++counts[k];
    if (columns_[k].is_static && value != first[k])
      throw Error(ErrorKind::usage, rows.reader().name(),
                  "static covariate " + in_quotes(columns_[k].name) + " changes at " +
                      rows.place(rows.segment_of(t), t),
                  "Move it to past_covariates or future_covariates");
  });
  for_each_row([&](std::int64_t, std::size_t k, double value) {
    squares[k] += (value - means[k]) * (value - means[k]) / counts[k];
  });
  for (std::size_t k = 0; k < n_of_table_; ++k)
    if (columns_[k].classes == 0) columns_[k].scale = {means[k], squares[k] > 0 ? std::sqrt(squares[k]) : 1};
}

void Covariates::append(const SeriesRows& rows, const SeriesSegment& segment, const SeriesPiece& piece,
                        std::int64_t begin, std::int64_t end, std::vector<double>& to) const {
  for (std::int64_t t = begin; t < end; ++t) {
    const std::int64_t row = std::max(t, piece.first);
    for (std::size_t k = 0; k < n_of_table_; ++k) {
      const bool is_there = row < piece.end;
      to.push_back(is_there || columns_[k].is_static ? piece.covariates_at(std::min(row, piece.end - 1))[k]
                                                     : std::nan(""));
    }
    if (calendar_.empty()) continue;
    const Timestamp at = rows.dates().on_clock(row - segment.begin + segment.first);
    for (const CalendarTerm& term : calendar_) term.append(at, rows.dates().step(), to);
  }
}

// A missing number is taken as the mean.
void Covariates::standardize(std::span<const double> row, float* to) const {
  for (std::size_t k = 0; k < columns_.size(); ++k)
    to[k] = std::isnan(row[k]) ? 0 : static_cast<float>(columns_[k].scale.apply(row[k]));
}

void Covariates::features(std::span<const double> row, std::span<double> to) const {
  std::ranges::fill(to, 0.0);
  std::size_t at = 0;
  for (std::size_t k = 0; k < columns_.size(); ++k) {
    const Column& c = columns_[k];
    if (!c.is_ahead) continue;
    if (c.classes == 0) to[at] = std::isnan(row[k]) ? 0 : c.scale.apply(row[k]);
    else if (row[k] < static_cast<double>(c.classes)) to[at + static_cast<std::size_t>(row[k])] = 1;
    at += c.width();
  }
}

CovariateBatch::CovariateBatch(const Covariates& covariates, std::int64_t n_rows, std::int64_t n_lanes)
    : covariates_(covariates),
      values_(DType::f32, covariates.empty() ? Shape() : Shape{n_rows, n_lanes, covariates.width()}) {}

void CovariateBatch::add(const SeriesRows& rows, const SeriesPiece& piece, std::int64_t begin, std::int64_t lane) {
  if (covariates_.empty()) return;
  rows_.clear();
  covariates_.append(rows, rows.segment_of(piece.end - 1), piece, begin, begin + values_.shape()[0], rows_);
  add(rows_, lane);
}

void CovariateBatch::add(std::span<const double> rows, std::int64_t lane) {
  const std::int64_t N = values_.shape()[0], B = values_.shape()[1], C = values_.shape()[2];
  const auto to = values_.values<float>();
  for (std::int64_t n = 0; n < N; ++n)
    covariates_.standardize(rows.subspan(n * C, C), &to[(n * B + lane) * C]);
}

std::vector<double> covariates_around(const Covariates& covariates, const SeriesRows& rows, std::int64_t begin,
                                      std::int64_t t, std::int64_t end) {
  std::vector<double> columns;
  if (covariates.empty()) return columns;
  const SeriesSegment& segment = rows.segment_of(t - 1);
  SeriesPiece piece;
  rows.read_window(begin, std::min(end, segment.end + segment.n_ahead), piece);
  covariates.append(rows, segment, piece, piece.begin, end, columns);
  return columns;
}

}  // namespace unroll
