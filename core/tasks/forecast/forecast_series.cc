// SPDX-License-Identifier: Apache-2.0
#include "core/tasks/forecast/forecast_series.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/support/text/in_quotes.h"
#include "core/tasks/table/table_form.h"
#include "unroll/support/error.h"

namespace unroll {

std::vector<std::string> columns_of(const ForecastOptions& o) {
  if (o.columns.empty()) return {o.column};
  if (!o.column.empty())
    throw Error(ErrorKind::usage, "forecast", "column and columns are both set", "Set only columns");
  std::set<std::string_view> seen;
  for (const std::string& name : o.columns) {
    if (name.empty()) throw Error(ErrorKind::usage, "forecast", "columns has an empty name", "Name each column");
    if (!seen.insert(name).second)
      throw Error(ErrorKind::usage, "forecast", "columns lists '" + name + "' twice", "List each column once");
  }
  return o.columns;
}

SeriesFormat series_format(const ForecastOptions& o) {
  constexpr std::string_view k_missing[] = {"error", "previous", "interpolate"};
  if (std::find(std::begin(k_missing), std::end(k_missing), o.missing) == std::end(k_missing))
    throw Error(ErrorKind::usage, "forecast",
                "missing must be error, previous or interpolate; got " + in_quotes(o.missing));
  SeriesFormat format;
  format.columns = columns_of(o);
  const std::string of_dates = !o.date_format.empty() ? "date_format" : !o.timezone.empty() ? "timezone" : "";
  if (o.date == "none" && !of_dates.empty())
    throw Error(ErrorKind::usage, "forecast", "date = none ignores dates, but " + of_dates + " is set",
                "Remove " + of_dates + ", or set data.date to the column of the dates");
  format.date = {.name = o.date, .form = o.date_format, .zone = o.timezone};
  format.csv = csv_format(o);
  format.gaps_refused = o.missing == "error";
  format.id = o.id;
  format.covariates = covariate_columns(o);
  return format;
}

SeriesOfSplits read_series(const ForecastOptions& o, const DataSource& data, const std::string& name,
                           const Metadata& fitted) {
  SeriesFormat format = series_format(o);  // throws on incompatible options
  if (!fitted.empty()) format = series_format(fitted);
  const auto read = [&](std::shared_ptr<const Vfs::Reader> from, const std::string& of) {
    const std::size_t limit = data.memory_limit(o.memory_limit);
    const bool hold = limit == 0 || from->size() <= limit;
    constexpr std::size_t k_no_text = 1;  // keep only numbers in memory, never the text
    return std::make_shared<const SeriesRows>(RecordFile(std::move(from), of, k_no_text), format, hold);
  };
  SeriesOfSplits rows;
  rows.fill(read(data.file, name));
  format = rows[0]->format_of_others();
  if (o.validation.file) rows[1] = read(o.validation.file, o.validation.name);
  if (o.test.file) rows[2] = read(o.test.file, o.test.name);
  return rows;
}

std::vector<std::string> lines_of(const SeriesOfSplits& rows, std::vector<std::string> (SeriesRows::*lines)() const) {
  std::vector<std::string> all;
  for (std::size_t split = 0; split < rows.size(); ++split)
    if (split == 0 || rows[split] != rows[0])
      for (std::string& line : (*rows[split].*lines)()) all.push_back(std::move(line));
  return all;
}

// Metadata of older models lack the date keys if training used no dates.
SeriesFormat series_format(const Metadata& m) {
  const auto text_or = [&](const char* key, const char* otherwise) {
    return m.contains(key) ? get_text(m, key) : std::string(otherwise);
  };
  SeriesFormat format;
  for (const SeriesScales& of_series : get_scales(m)) format.columns.push_back(of_series.column);
  format.date = {text_or("date", "none"), text_or("date_form", ""),
                 text_or("date_calendar", m.contains("date_step") ? "127 0 0" : ""), text_or("timezone", ""),
                 text_or("date_steps", "")};
  format.id = text_or("id", "none");
  format.covariates = covariate_columns(m);
  format.csv = format_as_trained(m, format.columns);
  format.gaps_refused = text_or("missing", "previous") == "error";
  format.is_trained = true;
  if (!format.columns[0].empty()) format.known = known_table(m);
  format.step = text_or("date_step", "");
  return format;
}

namespace {

// Returns the number of training rows that have a difference.
std::int64_t differenced_rows(std::span<const SegmentSplit> splits, std::int64_t depth) {
  std::int64_t n = 0;
  for (const SegmentSplit& split : splits) n += std::max<std::int64_t>(split.validation - split.begin - depth, 0);
  return n;
}

}  // namespace

std::vector<SegmentSplit> split_segments(const SeriesRows& rows, const ForecastOptions& o) {
  const bool is_one = rows.id_column() == "none";
  std::vector<SegmentSplit> splits;
  for (const SeriesSegment& segment : rows.segments()) {
    const auto part = [&](const SplitSource& source, const char* key) {
      if (source.file) return std::int64_t{0};
      const std::int64_t share = part_of(segment.size(), source.share, key);
      return is_one || source.share == 0 ? share : std::max(share, o.horizon);
    };
    std::int64_t test = part(o.test, "test"), validation = part(o.validation, "validation");
    if (!is_one && 2 * (test + validation) > segment.size()) validation = 0;
    if (!is_one && 2 * test > segment.size()) test = 0;
    splits.push_back({segment.begin, segment.end - test - validation, segment.end - test, segment.end});
  }
  return splits;
}

std::vector<std::vector<ZScore>> fit_common_scales(const SeriesRows& rows, std::span<const SegmentSplit> splits,
                                                   const Differencing& differencing, std::int64_t horizon) {
  const std::size_t S = rows.n_series();
  const std::int64_t depth = differencing.depth();
  const auto n = static_cast<double>(std::max<std::int64_t>(differenced_rows(splits, depth), 1));
  std::vector<double> means(S, 0.0);  // of absolute differences, which overflow later than squares
  SeriesCursor cursor(rows);
  for (const SegmentSplit& split : splits)
    for (std::int64_t t = split.begin + depth; t < split.validation; ++t) {
      const SeriesPiece& piece = cursor.at(t - depth, t + 1);
      for (std::size_t s = 0; s < S; ++s) means[s] += std::fabs(value_at(piece, t, s, differencing)) / n;
    }
  std::vector<std::vector<ZScore>> scales;
  for (const double mean : means) scales.emplace_back(horizon, ZScore{0, mean > 0 ? mean : 1});
  return scales;
}

std::vector<std::vector<ZScore>> fit_scales(const SeriesRows& rows, const Runs& windows,
                                            std::span<const SegmentSplit> splits, const Differencing& differencing,
                                            std::int64_t horizon) {
  const std::size_t S = rows.n_series();
  const std::int64_t depth = differencing.depth(), n = differenced_rows(splits, depth);
  // Levels have one scale at every distance; the scale of differences grows with the distance.
  const std::int64_t fitted = differencing.empty() ? 1 : horizon;
  std::vector<std::vector<ZScoreFit>> fits(S, {ZScoreFit(n)});
  for (auto& of_series : fits) of_series.resize(fitted, ZScoreFit(windows.size()));
  std::vector<double> base(horizon);
  for (const auto show : {&ZScoreFit::first, &ZScoreFit::second}) {
    SeriesCursor cursor(rows), ahead(rows);
    for (const SegmentSplit& split : splits)
      for (std::int64_t t = split.begin + depth; t < split.validation; ++t) {
        const SeriesPiece& piece = cursor.at(t - depth, t + 1);
        for (std::size_t s = 0; s < S; ++s) (fits[s][0].*show)(value_at(piece, t, s, differencing));
      }
    if (fitted == 1) continue;
    windows.for_each([&](std::int64_t t) {
      const SeriesPiece& piece = ahead.at(t - depth, t + horizon);
      for (std::size_t s = 0; s < S; ++s) {
        continue_at(piece, t, s, differencing, base);
        for (std::int64_t h = 1; h < fitted; ++h) (fits[s][h].*show)(piece.level(t + h, s) - base[h]);
      }
    });
  }
  std::vector<std::vector<ZScore>> scales;
  for (const auto& of_series : fits) {
    scales.emplace_back();
    for (std::int64_t h = 0; h < horizon; ++h)
      scales.back().push_back(of_series[std::min(h, fitted - 1)].score());
  }
  return scales;
}

std::vector<double> seasonal_errors(const SeriesRows& rows, std::span<const SegmentSplit> splits,
                                    std::int64_t period) {
  const std::size_t S = rows.n_series();
  std::vector<double> errors;
  SeriesCursor cursor(rows), before(rows);
  for (const SegmentSplit& split : splits) {
    std::vector<double> sums(S, 0.0), counts = sums;
    for (std::int64_t t = split.begin + period; t < split.validation; ++t) {
      const SeriesPiece &now = cursor.at(t, t + 1), &then = before.at(t - period, t - period + 1);
      for (std::size_t s = 0; s < S; ++s) {
        if (!now.is_observed(t, s)) continue;
        sums[s] += std::fabs(now.level(t, s) - then.level(t - period, s));
        ++counts[s];
      }
    }
    for (std::size_t s = 0; s < S; ++s) errors.push_back(counts[s] > 0 ? sums[s] / counts[s] : 0);
  }
  return errors;
}

}  // namespace unroll
