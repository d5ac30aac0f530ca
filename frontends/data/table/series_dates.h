// SPDX-License-Identifier: Apache-2.0
// The date column of a series: which one it is, in order and how far apart, and which dates are missing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "frontends/data/table/csv.h"
#include "frontends/data/table/dates.h"

namespace unroll {

// Sees the dates of a file once, line by line, and then numbers them.
class SeriesDates {
 public:
  // `name` as in ForecastOptions::date. `values` are the columns of the series, which hold no dates. `cells` is the
  // first row. Throws Error(usage) if the column does not exist.
  SeriesDates(const CsvReader& reader, const std::string& name, std::span<const std::size_t> values,
              std::span<const std::string> cells);

  bool exist() const { return column_.has_value(); }
  std::size_t column() const { return *column_; }
  DateForm form() const { return form_; }
  bool has_time() const { return has_time_; }
  DateStep step() const { return step_; }
  std::int64_t n_missing() const { return n_missing_; }
  Moment first() const { return first_; }
  Moment last() const { return last_; }
  // Columns that seem to have dates and are not read as such.
  const std::vector<std::string>& warnings() const { return warnings_; }

  // Throws Error(input_file) on what is no date and on dates that repeat or go back.
  void see(const CsvReader& reader, std::span<const std::string> cells, std::size_t line);
  // Behind the last row: the step. Throws Error(input_file) when more dates are missing than there are.
  void finish(const std::string& file);
  // The number of a row's date, from 0, after finish(). Throws Error(input_file) when it is not whole steps away.
  std::int64_t number(const CsvReader& reader, const std::string& cell, std::size_t line) const;
  std::string text(std::int64_t number) const { return date_text(after(first_, number, step_), form_, has_time_); }

 private:
  void look_for_unread(const CsvReader& reader, std::span<const std::string> cells);

  std::optional<std::size_t> column_;
  std::vector<std::string> warnings_;
  DateForm form_ = DateForm::iso;
  bool has_time_ = false;
  Moment first_, last_;
  std::size_t last_line_ = 0;
  std::int64_t n_ = 0, n_missing_ = 0;
  std::map<std::int64_t, std::int64_t> seconds_, months_;  // how often neighbors are so far apart
  DateStep step_{86400, 0};
};

}  // namespace unroll
