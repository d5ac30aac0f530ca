// SPDX-License-Identifier: Apache-2.0
// The date column of a series: which one it is, in order and how far apart, and which dates are missing. Columns that
// look like dates and are not used are warned of.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/data/dates/date_sequence.h"
#include "core/data/table/csv.h"
#include "core/data/table/unread_columns.h"

namespace unroll {

struct DateColumn {
  std::string name;  // as ForecastOptions::date
  std::string form;  // DateFormat::name() that training read; "": any
};

// Sees the rows of a file once, one after the other, and then numbers the dates.
class SeriesDates {
 public:
  // `values` are the columns of the series, which hold no dates. Throws Error(usage) if the column does not exist.
  SeriesDates(const CsvReader& reader, DateColumn column, std::span<const std::size_t> values);

  // False when no column is left that may matter.
  bool wants_rows() const { return !undecided_.empty() || !candidates_.empty() || unread_.wants_rows(); }
  // Throws Error(input_file) on what is no date in the column that the user names.
  void see(const CsvReader& reader, std::span<const std::string> cells, std::size_t line);
  // Behind the last row. Throws Error(input_file) on what is no date, on dates that repeat or go back, when more dates
  // are missing than there are, and Error(usage) when a column that the user names can be read in two ways.
  void finish(const CsvReader& reader, const std::string& file);

  // After finish():
  bool exist() const { return !candidates_.empty(); }
  std::size_t column() const { return candidates_[0].column; }
  const DateFormat& format() const { return dates().format(); }
  DateStep step() const { return dates().step(); }
  std::int64_t n_missing() const { return dates().n_missing(); }
  Timestamp first() const { return dates().first(); }
  Timestamp last() const { return dates().last(); }
  // The number of a row's date, from 0. Throws Error(input_file) when it is not whole steps away.
  std::int64_t number(const CsvReader& reader, const std::string& cell, std::size_t line) const;
  std::string text(std::int64_t number) const { return dates().text(after(first(), number, step())); }
  std::vector<std::string> warnings() const { return warnings_; }

 private:
  struct Candidate {
    std::size_t column;
    std::string first;  // cell
    bool is_number;
    std::vector<DateSequence> ways;  // in which its first cell can be read; one after finish()
  };
  const DateSequence& dates() const { return candidates_[0].ways[0]; }
  void decide(const CsvReader& reader, std::size_t column, const std::string& cell, std::size_t line);
  void choose_way(const CsvReader& reader, const std::string& file);
  [[noreturn]] void refuse(const CsvReader& reader, const DateSequence& dates, const std::string& file) const;
  std::string remedy_of_repeats(const CsvReader& reader, std::size_t line, bool has_time) const;

  DateColumn column_;
  bool none_;                           // no column holds dates
  std::optional<std::size_t> named_;    // the column that the user names
  std::vector<std::size_t> undecided_;  // columns without a cell so far that is not missing
  std::vector<Candidate> candidates_;   // one or none after finish()
  UnreadColumns unread_;
  std::size_t first_line_ = 0;
  std::vector<std::string> warnings_;
};

}  // namespace unroll
