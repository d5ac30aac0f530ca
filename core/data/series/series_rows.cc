// SPDX-License-Identifier: Apache-2.0
#include "core/data/series/series_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "core/data/dates/date_words.h"
#include "core/support/text/counted.h"
#include "core/support/text/in_quotes.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

constexpr std::int64_t k_block = 256;   // lines per record
constexpr std::int64_t k_ahead = 4096;  // rows per read of a cursor
constexpr double k_gap = std::numeric_limits<double>::quiet_NaN();

// Replaces the last values of the columns that have a value.
void keep_numbers(std::span<const double> values, std::vector<double>& last) {
  for (std::size_t k = 0; k < values.size(); ++k)
    if (!std::isnan(values[k])) last[k] = values[k];
}

std::int64_t n_missing(std::span<const double> values) {
  return std::ranges::count_if(values, [](double v) { return std::isnan(v); });
}

}  // namespace

void SeriesPiece::add(std::span<const double> values, std::span<const double> last) {
  levels.insert(levels.end(), last.begin(), last.begin() + static_cast<std::ptrdiff_t>(n_series));
  covariates.insert(covariates.end(), last.begin() + static_cast<std::ptrdiff_t>(n_series), last.end());
  for (const double v : values.first(n_series)) observed.push_back(std::isnan(v) ? 0 : 1);
}

void SeriesPiece::interpolate(std::int64_t until) {
  for (std::size_t s = 0; s < n_series; ++s)
    for (std::int64_t t = begin, before = -1; t < until; ++t) {
      if (!is_observed(t, s)) continue;
      for (std::int64_t gap = before + 1; before >= 0 && gap < t; ++gap)
        levels[at(gap, s)] = level(before, s) + (level(t, s) - level(before, s)) * static_cast<double>(gap - before) /
                                                    static_cast<double>(t - before);
      before = t;
    }
}

SeriesRows::SeriesRows(RecordFile file, const SeriesFormat& format, bool hold)
    : file_(std::move(file)), format_(format), reader_(file_.name(), CsvLimits{}.max_columns, format.csv),
      covariates_(format.covariates, format.is_trained), hold_(hold) {
  held_.n_series = n_series();
  SortedRows rows(file_, format_.csv);
  find_dates(rows);
  if (rows.is_reordered() && !hold_)
    throw Error(ErrorKind::usage, file_.name(),
                is_reversed_ ? "the rows are newest first, and the file is larger than data.memory_limit"
                             : "the rows of a series are not together, and the file is larger than data.memory_limit",
                "Sort it" + (id_column_ ? " by '" + id_column() + "'" : std::string()) +
                    " with the oldest rows first, or raise data.memory_limit");
  reader_ = CsvReader(file_.name(), CsvLimits{}.max_columns, format_.csv);
  read_rows(rows);
  if (hold_) file_ = RecordFile(std::string_view(), file_.name());
}

std::size_t SeriesRows::segment_at(std::int64_t row) const {
  const auto after = std::ranges::upper_bound(segments_, row, {}, &SeriesSegment::begin);
  return after - segments_.begin() - 1;
}

std::string SeriesRows::series_name(const SeriesSegment& segment, std::size_t series) const {
  if (!id_column_) return column_name(series);
  return n_series() == 1 ? segment.id : segment.id + ", " + column_name(series);
}

SeriesFormat SeriesRows::format_of_others() const {
  SeriesFormat format = format_;
  for (std::size_t s = 0; s < n_series(); ++s) format.columns[s] = column_name(s);
  format.known = KnownTable::of(reader_);
  format.csv.decimal = reader_.marks().decimal;
  format.csv.thousands = reader_.marks().thousands;
  format.date = date_column();
  format.id = id_column();
  format.covariates = covariates();
  format.is_trained = true;
  if (dates_->exist()) format.step = step_text(dates_->step());
  return format;
}

void SeriesRows::find_id() {
  constexpr std::string_view k_usual[] = {"unique_id", "item_id", "series_id"};
  if (format_.id == "none") return;
  if (!format_.id.empty()) id_column_ = reader_.column(format_.id);
  for (std::size_t c = 0; c < reader_.header().size() && !id_column_; ++c)
    if (std::ranges::any_of(k_usual, [&](std::string_view name) { return same_word(reader_.header()[c], name); }))
      id_column_ = c;
  finds_id_ = format_.id.empty() && id_column_;
}

void SeriesRows::find_columns(std::span<const std::string> cells) {
  DateColumn date = format_.date;
  if (format_.known) {
    const bool has_dates = date.name != "none", has_ids = format_.id != "none";
    std::vector<std::string> names;  // in the usual order of tables
    if (has_ids) names.push_back(format_.id);
    if (has_dates) names.push_back(date.name);
    names.insert(names.end(), format_.columns.begin(), format_.columns.end());
    for (const CovariateColumn& covariate : covariates()) names.push_back(covariate.name);
    columns_ = places_in(reader_, names, *format_.known);
    const auto take_first = [&] {
      const std::size_t first = columns_.front();
      columns_.erase(columns_.begin());
      return first;
    };
    if (has_ids) id_column_ = take_first();
    if (has_dates) date.name = reader_.column_name(take_first());
  } else {
    find_id();
    columns_ = series_columns(reader_, format_, cells);
    for (const CovariateColumn& covariate : covariates()) columns_.push_back(reader_.column(covariate.name));
    takes_last_ = reader_.n_columns() > 1 && format_.columns[0].empty() && !format_.is_trained;
    if (id_column_ && std::ranges::find(columns_, *id_column_) != columns_.end())
      throw Error(ErrorKind::usage, file_.name(),
                  "column '" + id_column() + "' names the series and cannot be one (data.id)",
                  "Set data.column to the column of the values, or data.id = \"none\"");
  }
  const std::span<const std::size_t> of_series = std::span(columns_).first(n_series());
  for (std::size_t k = n_series(); k < columns_.size(); ++k)
    if (columns_[k] == id_column_ || std::ranges::find(of_series, columns_[k]) != of_series.end())
      throw Error(ErrorKind::usage, file_.name(),
                  "covariate '" + reader_.column_name(columns_[k]) + "' is also " +
                      (columns_[k] == id_column_ ? "the column that names the series" : "a series to forecast"),
                  "Leave it out of the covariates");
  dates_.emplace(reader_, date, columns_, id_column_);
}

std::vector<std::size_t> series_columns(const CsvReader& reader, const SeriesFormat& format,
                                        std::span<const std::string> cells) {
  std::vector<std::size_t> columns;
  for (const std::string& name : format.columns) {
    columns.push_back(reader.column(name));
    if (!name.empty() || format.is_trained) continue;
    const std::size_t last = columns.back();
    const auto is_date = [&](std::size_t c) {
      const std::string title = reader.header().empty() ? "" : reader.column_name(c);
      return looks_like_date(cells[c]) || is_date_name(title) || is_date_part_name(title);
    };
    std::size_t other = last;
    while (other > 0 && (is_date(other) || !reader.number_of(cells[other]))) --other;
    if (last == 0 || !is_date(last)) continue;
    throw Error(ErrorKind::usage, reader.name(),
                "the last column, '" + reader.column_name(last) + "', looks like dates (" + in_quotes(cells[last]) +
                    "), and data.column names no series",
                "Set data.column = \"" + reader.column_name(other) + "\", or the name of another column");
  }
  return columns;
}

// A first pass, because row numbers depend on the step of all dates. It assumes that the rows of each id are together,
// the oldest first. If they are not, they are sorted and read again.
void SeriesRows::find_dates(SortedRows& rows) {
  std::unordered_set<std::string> ids;
  std::string id;
  bool together = true;
  rows.for_each(reader_, [&](const Line& line, std::span<const std::string> cells) {
    if (!dates_) find_columns(cells);
    covariates_.see(reader_, cells, std::span(columns_).subspan(n_series()));
    if (id_column_ && (ids.empty() || cells[*id_column_] != id)) {
      id = cells[*id_column_];
      together = together && ids.insert(id).second;
      dates_->begin_series();
    }
    if (together && dates_->wants_rows()) dates_->see(reader_, cells, line.number);
  });
  if (!dates_) throw Error(ErrorKind::input_file, file_.name(), "has no data rows");
  const bool newest_first = together && !is_reversed_ && dates_->are_newest_first();
  if (!together || newest_first) {
    is_grouped_ = is_grouped_ || !together;
    is_reversed_ = newest_first;
    rows.sort(id_column_, is_reversed_);
    dates_.reset();
    covariates_ = CovariatesRead(format_.covariates, format_.is_trained);
    reader_ = CsvReader(file_.name(), CsvLimits{}.max_columns, format_.csv);
    return find_dates(rows);
  }
  covariates_.finish(file_.name());
  dates_->finish(reader_, file_.name());
  if (!dates_->exist()) return;
  const std::string step = step_text(dates_->step());
  if (!format_.step.empty() && step != format_.step && dates_->first() < dates_->last())
    throw Error(ErrorKind::input_file, file_.name(),
                "has a row every " + step + "; the model was trained on one every " + format_.step,
                "Give data of the same step");
}

void SeriesRows::read_values(const Line& line, std::span<const std::string> cells, std::span<double> values) const {
  const auto missing = format_.gaps_refused ? CsvReader::Missing::refused : CsvReader::Missing::as_nan;
  for (std::size_t k = 0; k < columns_.size(); ++k) {
    const std::size_t c = columns_[k];
    values[k] = k < n_series() ? reader_.number(cells[c], line.number, c, missing)
                               : covariates_.value(reader_, cells[c], line.number, c, k - n_series(), missing);
  }
}

// `known_end`: the row behind the last value; `n_unknown`: missing values from there on.
void SeriesRows::end_segment(SeriesSegment segment, bool begun, std::int64_t known_end, std::int64_t n_unknown) {
  n_empty_ += !begun;
  if (!begun) return;
  segment.end = covariates().empty() ? n_ : known_end;
  segment.n_ahead = n_ - segment.end;
  if (segment.n_ahead > 0) n_missing_ -= n_unknown;
  segments_.push_back(std::move(segment));
}

void SeriesRows::read_rows(const SortedRows& rows) {
  const std::size_t S = n_series();
  const std::vector<double> gap(columns_.size(), k_gap);
  std::vector<double> last, now(gap), before;
  std::int64_t number = 0, block_lines = 0;  // of the next row, begun or not
  std::int64_t known_end = 0, n_unknown = 0;  // the row behind the last value, and missing values from there on
  std::optional<SeriesSegment> open;
  bool begun = false;  // each series of the segment has a value
  rows.for_each(reader_, [&](const Line& line, std::span<const std::string> cells) {
    const std::string id = id_column_ ? cells[*id_column_] : "";
    const bool begins = !open || open->id != id;
    const std::int64_t here = dates_->exist() ? dates_->number(reader_, cells, line, begins ? 0 : number) : number;
    if (begins) {
      if (id_column_ && reader_.is_missing(id))
        reader_.refuse(line.number, *id_column_, "the name of the series is missing", "Name the series of each row");
      if (open) end_segment(std::move(*open), begun, known_end, n_unknown);
      open = SeriesSegment{id, n_, n_, 0};
      last = gap;
      begun = false;
      block_lines = 0;
      number = id_column_ ? here : 0;
    }
    ++n_lines_;
    read_values(line, cells, now);
    const std::int64_t n_gaps = n_missing(std::span(now).first(S));
    n_missing_ += n_gaps;
    if (here > number) add_gap(number, here, line.number, format_.gaps_refused);
    for (; number < here; ++number)
      if (begun) add_row(gap, last);
    ++number;
    before = last;
    keep_numbers(now, last);
    if (!begun) open->first = number - 1;
    begun = begun || n_missing(std::span(last).first(S)) == 0;
    if (!begun) return;
    if (!hold_ && block_lines++ % k_block == 0) {
      file_.add(line.at);
      block_rows_.push_back(n_);
      before_.insert(before_.end(), before.begin(), before.end());
    }
    add_row(now, last);
    n_unknown = std::cmp_less(n_gaps, S) ? 0 : n_unknown + n_gaps;
    if (n_unknown == 0) known_end = n_;
  });
  if (open) end_segment(std::move(*open), begun, known_end, n_unknown);
  for (std::size_t s = 0; s < S && segments_.empty(); ++s)
    if (std::isnan(last[s]))
      throw Error(ErrorKind::input_file, file_.name(),
                  "column '" + reader_.column_name(columns_[s]) + "' has no numbers");
}

// Adds a row of values, NaN at gaps, to those whose last values are `last`.
void SeriesRows::add_row(std::span<const double> values, std::vector<double>& last) {
  keep_numbers(values, last);
  if (std::cmp_less(n_missing(values.first(n_series())), n_series())) observed_.add(n_);
  if (hold_) held_.add(values, last);
  ++n_;
}

void SeriesRows::add_gap(std::int64_t from, std::int64_t to, std::size_t line, bool refused) {
  constexpr std::int64_t k_shown_gaps = 3;
  const std::string dates = dates_->text(from) + (to - from > 1 ? " to " + dates_->text(to - 1) : "");
  const std::string advice = dates_->advice_on_gap(from, to);
  if (gap_advice_.empty()) gap_advice_ = advice;
  if (refused)
    reader_.refuse(line, dates_->column(), counted_are(to - from, "date") + " missing before this row: " + dates,
                   "Add these rows, or set data.missing = \"previous\" or \"interpolate\"" +
                       (advice.empty() ? "" : "; " + advice));
  if (n_gaps_++ < k_shown_gaps) first_gaps_ += (first_gaps_.empty() ? "" : ", ") + dates;
  else if (n_gaps_ == k_shown_gaps + 1) first_gaps_ += ", ...";
}

void SeriesRows::read(std::int64_t begin, std::int64_t end, SeriesPiece& piece) const {
  piece.begin = begin;
  piece.end = end;
  piece.first = begin;
  piece.n_series = n_series();
  piece.n_covariates = covariates().size();
  if (!hold_) return read_again(begin, end, piece);
  const auto copy = [&]<class T>(const std::vector<T>& from, std::size_t width, std::vector<T>& to) {
    const auto w = static_cast<std::int64_t>(width);
    to.assign(from.begin() + begin * w, from.begin() + end * w);
  };
  copy(held_.levels, piece.n_series, piece.levels);
  copy(held_.observed, piece.n_series, piece.observed);
  copy(held_.covariates, piece.n_covariates, piece.covariates);
}

void SeriesRows::read_again(std::int64_t begin, std::int64_t end, SeriesPiece& piece) const {
  const std::size_t width = columns_.size();
  piece.levels.clear();
  piece.observed.clear();
  piece.covariates.clear();
  const auto after = std::upper_bound(block_rows_.begin(), block_rows_.end(), begin);
  std::size_t block = after - block_rows_.begin() - 1;
  std::vector<double> last, now(width);
  const std::vector<double> gap(width, k_gap);
  std::int64_t t = block_rows_[block];
  const auto take = [&](const std::vector<double>& values) {
    keep_numbers(values, last);
    if (t >= begin && t < end) piece.add(values, last);
    ++t;
  };
  for (; t < end && block < block_rows_.size(); ++block) {
    while (t < std::min(block_rows_[block], end)) take(gap);
    const double* const first = before_.data() + block * width;
    last.assign(first, first + width);
    const SeriesSegment& segment = segment_of(block_rows_[block]);
    const std::string text = file_.text(static_cast<std::int64_t>(block));
    csv_rows(lines_of(text))([&](const Line& line) {
      // The last block of a segment may end with rows of ids without values.
      if (t >= std::min(end, segment.end + segment.n_ahead) || trimmed(line.text).empty()) return;
      const std::vector<std::string> cells = cells_in(file_, reader_, line.text);
      read_values(line, cells, now);
      if (dates_->exist()) {
        const std::int64_t offset = segment.first - segment.begin;
        const std::int64_t here = dates_->number(reader_, cells, line, t + offset) - offset;
        if (here < t) file_.refuse_changed();
        while (t < std::min(here, end)) take(gap);
      }
      if (t < end) take(now);
    });
  }
  if (piece.levels.size() != (end - begin) * n_series()) file_.refuse_changed();
}

void SeriesRows::read_window(std::int64_t begin, std::int64_t end, SeriesPiece& piece) const {
  const std::int64_t first = segment_of(end - 1).begin;
  read(std::max(begin, first), end, piece);
  piece.first = first;
}

const SeriesPiece& SeriesCursor::at(std::int64_t begin, std::int64_t end) {
  const std::int64_t first = rows_.segment_of(end - 1).begin, from = std::max(begin, first);
  if (from < piece_.begin || end > piece_.end) rows_.read(from, std::min(end + k_ahead, rows_.size()), piece_);
  piece_.first = first;
  return piece_;
}

}  // namespace unroll
