// SPDX-License-Identifier: Apache-2.0
#include "core/data/table/series_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/data/dates/date_words.h"
#include "core/support/text/counted.h"
#include "core/support/text/in_quotes.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

constexpr std::int64_t k_block = 256;   // lines per record
constexpr std::int64_t k_ahead = 4096;  // rows per read of a cursor
constexpr double k_gap = std::numeric_limits<double>::quiet_NaN();

// Replaces the last values of the series that have a value. Returns false if none has.
bool keep_numbers(std::span<const double> values, std::vector<double>& last) {
  bool any = false;
  for (std::size_t s = 0; s < values.size(); ++s) {
    if (std::isnan(values[s])) continue;
    last[s] = values[s];
    any = true;
  }
  return any;
}

}  // namespace

void Runs::add(std::int64_t number) {
  if (runs_.empty() || number - runs_.back().first != (size_ - runs_.back().before) * step_)
    runs_.push_back({number, size_});
  ++size_;
}

std::int64_t Runs::operator[](std::int64_t index) const {
  const auto after = std::upper_bound(runs_.begin(), runs_.end(), index,
                                      [](std::int64_t i, const Run& run) { return i < run.before; });
  const Run& run = *(after - 1);
  return run.first + (index - run.before) * step_;
}

void SeriesPiece::add(std::span<const double> values, std::span<const double> last) {
  levels.insert(levels.end(), last.begin(), last.end());
  for (const double v : values) observed.push_back(std::isnan(v) ? 0 : 1);
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
    : file_(std::move(file)), format_(format), reader_(file_.name(), CsvLimits{}.max_columns, format.csv), hold_(hold) {
  find_dates();
  reader_ = CsvReader(file_.name(), CsvLimits{}.max_columns, format_.csv);
  read_rows();
}

SeriesFormat SeriesRows::format_of_others() const {
  SeriesFormat format = format_;
  for (std::size_t s = 0; s < n_series(); ++s) format.columns[s] = column_name(s);
  format.known = KnownTable::of(reader_);
  format.date = date_column();
  format.is_trained = true;
  if (dates_->exist()) format.step = step_text(dates_->step());
  return format;
}

void SeriesRows::find_columns(std::span<const std::string> cells) {
  DateColumn date = format_.date;
  if (format_.known) {
    std::vector<std::string> names = format_.columns;
    const bool has_dates = date.name != "none";
    if (has_dates) names.insert(names.begin(), date.name);  // the usual place in tables
    columns_ = places_in(reader_, names, *format_.known);
    if (has_dates) {
      date.name = reader_.column_name(columns_[0]);
      columns_.erase(columns_.begin());
    }
  } else {
    columns_ = series_columns(reader_, format_, cells);
    takes_last_ = reader_.n_columns() > 1 && format_.columns[0].empty() && !format_.is_trained;
  }
  dates_.emplace(reader_, date, columns_);
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
    while (other > 0 && (is_date(other) || !number_in(cells[other]))) --other;
    if (last == 0 || !is_date(last)) continue;
    throw Error(ErrorKind::usage, reader.name(),
                "the last column, '" + reader.column_name(last) + "', looks like dates (" + in_quotes(cells[last]) +
                    "), and data.column names no series",
                "Set data.column = \"" + reader.column_name(other) + "\", or the name of another column");
  }
  return columns;
}

// A first pass, because row numbers depend on the step of all dates.
void SeriesRows::find_dates() {
  std::vector<std::string> cells;
  reader_.look_at(file_.head());
  csv_rows(file_.lines())([&](const Line& line) {
    if (dates_ && !dates_->wants_rows()) return;
    if (!reader_.read(line, cells)) return;
    if (!dates_) find_columns(cells);
    dates_->see(reader_, cells, line.number);
  });
  if (!dates_) throw Error(ErrorKind::input_file, file_.name(), "has no data rows");
  dates_->finish(reader_, file_.name());
  if (!dates_->exist()) return;
  const std::string step = step_text(dates_->step());
  if (!format_.step.empty() && step != format_.step && dates_->first() < dates_->last())
    throw Error(ErrorKind::input_file, file_.name(),
                "has a row every " + step + "; the model was trained on one every " + format_.step,
                "Give data of the same step");
}

void SeriesRows::read_rows() {
  const auto missing = format_.gaps_refused ? CsvReader::Missing::refused : CsvReader::Missing::as_nan;
  std::vector<std::string> cells;
  const std::vector<double> gap(n_series(), k_gap);
  std::vector<double> last(gap), now(gap), before;
  std::int64_t number = 0, block_lines = 0;  // of the next row, begun or not
  bool begun = false;
  reader_.look_at(file_.head());
  csv_rows(file_.lines())([&](const Line& line) {
    if (!reader_.read(line, cells)) return;
    ++n_lines_;
    for (std::size_t s = 0; s < columns_.size(); ++s) {
      now[s] = reader_.number(cells[columns_[s]], line.number, columns_[s], missing);
      n_missing_ += std::isnan(now[s]);
    }
    if (dates_->exist()) {
      const std::int64_t here = dates_->number(reader_, cells[dates_->column()], line.number);
      if (here > number) add_gap(number, here, line.number, format_.gaps_refused);
      for (; number < here; ++number)
        if (begun) add_row(gap, last);
    }
    ++number;
    before = last;
    keep_numbers(now, last);
    if (!begun) dropped_ = number - 1;
    begun = begun || std::none_of(last.begin(), last.end(), [](double v) { return std::isnan(v); });
    if (!begun) return;
    if (!hold_ && block_lines++ % k_block == 0) {
      file_.add(line.at);
      block_rows_.push_back(n_);
      before_.insert(before_.end(), before.begin(), before.end());
    }
    add_row(now, last);
  });
  for (std::size_t s = 0; s < last.size(); ++s)
    if (std::isnan(last[s]))
      throw Error(ErrorKind::input_file, file_.name(),
                  "column '" + reader_.column_name(columns_[s]) + "' has no numbers");
  if (hold_) file_ = RecordFile(std::string_view(), file_.name());
}

// Adds a row of values, NaN at gaps, to those whose last values are `last`.
void SeriesRows::add_row(std::span<const double> values, std::vector<double>& last) {
  if (keep_numbers(values, last)) observed_.add(n_);
  if (hold_) held_.add(values, last);
  ++n_;
}

void SeriesRows::add_gap(std::int64_t from, std::int64_t to, std::size_t line, bool refused) {
  constexpr std::int64_t k_shown_gaps = 3;
  const std::string dates = dates_->text(from) + (to - from > 1 ? " to " + dates_->text(to - 1) : "");
  if (refused)
    reader_.refuse(line, dates_->column(), counted_are(to - from, "date") + " missing before this row: " + dates,
                   "Add these rows, or set data.missing = \"previous\" or \"interpolate\"");
  if (n_gaps_++ < k_shown_gaps) first_gaps_ += (first_gaps_.empty() ? "" : ", ") + dates;
  else if (n_gaps_ == k_shown_gaps + 1) first_gaps_ += ", ...";
}

std::vector<std::string> SeriesRows::notes() const {
  std::string found = file_.name() + ": " + reader_.found(n_lines_) + "; ";
  if (takes_last_) found += "series '" + column_name(0) + "' (the last column); ";
  if (dates_->exist())
    found += "dates in '" + reader_.column_name(dates_->column()) + "' read as " + dates_->format().text() + " from " +
             dates_->text(0) + ", a row every " + step_text(dates_->step());
  else if (format_.date.name == "none")
    found += format_.known ? "dates are not used, as in training" : "dates are not used";
  else found += "no date column";
  std::vector<std::string> notes{found};
  notes.insert(notes.end(), reader_.notes().begin(), reader_.notes().end());
  if (n_gaps_ > 0)
    notes.push_back(file_.name() + ": " + counted_are(dates_->n_missing(), "date") + " missing (" + first_gaps_ +
                    "); added as rows of missing values");
  if (n_missing_ > 0)
    notes.push_back(file_.name() + ": " + counted_are(n_missing_, "value") +
                    " missing: filled in as inputs, excluded as targets");
  return notes;
}

std::vector<std::string> SeriesRows::warnings() const {
  std::vector<std::string> all = reader_.warnings();
  for (const std::string& warning : dates_->warnings()) all.push_back(file_.name() + ": " + warning);
  return all;
}

void SeriesRows::read(std::int64_t begin, std::int64_t end, SeriesPiece& piece) const {
  const std::int64_t S = std::ssize(columns_), from = begin * S, to = end * S;
  piece.begin = begin;
  piece.end = end;
  piece.n_series = S;
  if (!hold_) return read_again(begin, end, piece);
  piece.levels.assign(held_.levels.begin() + from, held_.levels.begin() + to);
  piece.observed.assign(held_.observed.begin() + from, held_.observed.begin() + to);
}

void SeriesRows::read_again(std::int64_t begin, std::int64_t end, SeriesPiece& piece) const {
  const std::size_t S = n_series();
  piece.levels.clear();
  piece.observed.clear();
  const auto after = std::upper_bound(block_rows_.begin(), block_rows_.end(), begin);
  std::size_t block = after - block_rows_.begin() - 1;
  const double* const first = before_.data() + block * S;
  std::vector<double> last(first, first + S), now(S);
  const std::vector<double> gap(S, k_gap);
  std::int64_t t = block_rows_[block];
  const auto take = [&](const std::vector<double>& values) {
    keep_numbers(values, last);
    if (t >= begin && t < end) piece.add(values, last);
    ++t;
  };
  for (; t < end && block < block_rows_.size(); ++block) {
    const std::string text = file_.text(static_cast<std::int64_t>(block));
    csv_rows(lines_of(text))([&](const Line& line) {
      if (t >= end || trimmed(line.text).empty()) return;
      numbers_in(file_, reader_, line.text, columns_, now);
      if (dates_->exist()) {
        const std::int64_t here =
            dates_->number(reader_, cells_in(file_, reader_, line.text)[dates_->column()], line.number) - dropped_;
        if (here < t) file_.refuse_changed();
        while (t < std::min(here, end)) take(gap);
      }
      if (t < end) take(now);
    });
  }
  if (piece.levels.size() != (end - begin) * S) file_.refuse_changed();
}

const SeriesPiece& SeriesCursor::at(std::int64_t begin, std::int64_t end) {
  if (begin < piece_.begin || end > piece_.end)
    rows_.read(begin, std::min(end + k_ahead, rows_.size()), piece_);
  return piece_;
}

Runs targets_between(const Runs& observed, std::int64_t begin, std::int64_t end, const TargetOptions& o) {
  Runs targets(o.stride);
  std::int64_t next = std::max(begin, o.first + o.window);
  observed.for_each([&](std::int64_t t) {  // t is a target of the positions t - horizon + 1 to t
    for (next = std::max(next, t - o.horizon + 1); next <= t && next + o.horizon <= end; ++next)
      if (targets.empty() || next - targets.last() >= o.stride) targets.add(next);
  });
  return targets;
}

}  // namespace unroll
