// SPDX-License-Identifier: Apache-2.0
// The date column of a series: its detection, order, step and missing dates. Warns about unused columns that look like
// dates.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/data/dates/date_sequence.h"
#include "core/data/series/unread_columns.h"
#include "core/data/table/csv.h"

namespace unroll {

struct DateColumn {
  std::string name;       // as in ForecastOptions::date
  std::string form = {};  // ForecastOptions::date_format, or DateFormat::name() in training; "": any
  std::string calendar = {};  // calendar_code() in training; "": any
  std::string zone = {};      // as in ForecastOptions::timezone
  std::string steps = {};     // with a zone: "local" or "utc", as in training; "": any
};

// Processes the rows of a file once, in order, and then numbers the dates.
class SeriesDates {
 public:
  // `values` are the columns of the series, which hold no dates, and `id` is the one that names the series of a row.
  // Throws Error(usage) if the column does not exist.
  SeriesDates(const CsvReader& reader, DateColumn column, std::span<const std::size_t> values,
              std::optional<std::size_t> id = {});

  // False if further rows cannot change the result.
  bool wants_rows() const { return !undecided_.empty() || !candidates_.empty() || unread_.wants_rows(); }
  // Throws Error(input_file) on an invalid date in the column that the user names.
  void see(const CsvReader& reader, std::span<const std::string> cells, std::size_t line);
  // The next row begins another series.
  void begin_series();
  // True if the rows of each series are in order, but the newest ones come first. Call after the last row.
  bool are_newest_first() const;
  // Call after the last row. Throws Error(input_file) on invalid, repeated or unordered dates, and if more dates are
  // missing than present. Throws Error(usage) if a column that the user names is ambiguous.
  void finish(const CsvReader& reader, const std::string& file);

  // Valid after finish():
  bool exist() const { return !candidates_.empty(); }
  std::size_t column() const { return candidates_[0].column; }
  const DateFormat& format() const { return dates().format(); }
  DateStep step() const { return dates().step(); }
  std::int64_t n_missing() const { return dates().n_missing(); }
  Timestamp first() const { return dates().first(); }
  Timestamp last() const { return dates().last(); }
  // Returns the number of the date in a row, from 0. `least`: the number after that of the previous row, which decides
  // where the clock shows a time twice. Throws Error(input_file) if it is not a whole number of steps away.
  std::int64_t number(const CsvReader& reader, std::span<const std::string> cells, const Line& line,
                      std::int64_t least) const;
  std::string text(std::int64_t number) const { return dates().text(at(number)); }
  Timestamp on_clock(std::int64_t number) const { return dates().on_clock(at(number)); }
  std::string zone() const { return column_.zone; }
  std::string steps() const { return column_.zone.empty() ? "" : dates().is_in_utc() ? "utc" : "local"; }
  // Returns an advice if the dates [from, to) are missing as where a clock is put forward, without a zone; else "".
  std::string advice_on_gap(std::int64_t from, std::int64_t to) const;
  std::vector<std::string> notes() const;  // on the calendar
  std::vector<std::string> warnings() const { return warnings_; }

 private:
  struct Candidate {
    std::size_t column;
    std::string first;  // cell
    bool is_number, is_weak;         // weak: the cells may be no dates at all (DateFormat::is_weak)
    std::vector<DateSequence> ways;  // possible formats of its first cell; one after finish()
  };
  // The column with the lowest rank is used. A year column next to dates is a part of them.
  static auto rank(const Candidate& c) { return std::tuple(c.is_number, c.is_weak, c.column); }
  const DateSequence& dates() const { return candidates_[0].ways[0]; }
  Timestamp at(std::int64_t number) const { return after(first(), number, step()); }
  void decide(const CsvReader& reader, std::size_t column, const std::string& cell, std::size_t line);
  std::vector<DateReading> readings_of(const CsvReader& reader, std::size_t column, const std::string& cell) const;
  // Leaves one way of the first candidate, or none.
  void choose_way(const CsvReader& reader, const std::string& file);
  void keep_regular(const CsvReader& reader, const std::string& file);
  [[noreturn]] void refuse(const CsvReader& reader, const DateSequence& dates, const std::string& file) const;
  std::string remedy_of_repeats(const CsvReader& reader, std::size_t line, bool has_time) const;

  DateColumn column_;
  std::shared_ptr<const TimeZone> zone_;
  bool none_;                           // true: no column holds dates
  bool has_ids_;                        // true: a column names the series
  std::optional<std::size_t> named_;    // the column that the user names
  std::vector<std::size_t> undecided_;  // columns with only missing cells so far
  std::vector<Candidate> candidates_;   // none or one after finish()
  UnreadColumns unread_;
  std::size_t first_line_ = 0;
  std::vector<std::string> warnings_;
};

}  // namespace unroll
