// SPDX-License-Identifier: Apache-2.0
// The dates of a column in one of the formats that its first date can have: in order or not, and how far apart.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "core/data/dates/date_format.h"

namespace unroll {

// What is wrong with the dates of a file, where, and what to do next.
struct DateFault {
  std::size_t line = 0;
  std::string what, next;
};
inline constexpr const char* k_no_dates = "Correct it, or set data.date = \"none\" to ignore dates";

class DateSequence {
 public:
  explicit DateSequence(DateFormat format) : format_(std::move(format)) {}

  // Each cell of the column, "" where it is missing. Behind one that is no date of the format nothing is looked at.
  void see(std::string_view cell, std::size_t line);
  // Behind the last row: the step.
  void finish();

  const DateFormat& format() const { return format_; }
  // The first cell that is no date of the format, and the first date that is not above the one before it.
  const std::optional<DateFault>& misfit() const { return misfit_; }
  const std::optional<DateFault>& disorder() const { return disorder_; }
  bool is_newest_first() const { return n_above_ == 0 && n_equal_ == 0; }
  bool has_repeats() const { return n_again_ > 0; }
  bool is_sparse() const;  // most dates are missing
  bool is_regular() const { return !misfit_ && !disorder_ && !is_sparse(); }
  // The same moments, as far as this object knows.
  bool same_as(const DateSequence& other) const {
    return first_ == other.first_ && last_ == other.last_ && step_ == other.step_ && n_ == other.n_;
  }

  Timestamp first() const { return first_; }
  Timestamp last() const { return last_; }
  std::int64_t size() const { return n_; }
  DateStep step() const { return step_; }
  std::int64_t n_missing() const { return n_missing_; }
  // The days of the week on which no row falls, of a series with a row a day and missing dates: "Saturday and Sunday".
  std::string absent_weekdays() const;
  std::string text(Timestamp at) const { return date_text(at, format_); }

 private:
  void compare(Timestamp at, std::string_view cell, std::size_t line);

  DateFormat format_;
  std::optional<DateFault> misfit_, disorder_;
  Timestamp first_, last_;
  std::size_t last_line_ = 0;
  std::int64_t n_ = 0, n_missing_ = 0;
  std::int64_t n_above_ = 0, n_equal_ = 0, n_again_ = 0;  // dates above the one before, equal to it, seen before
  std::unordered_set<std::int64_t> seen_;                 // the first ones
  std::map<std::int64_t, std::int64_t> micros_, months_;  // how often neighbors are so far apart
  std::array<std::int64_t, 7> weekdays_{};                // rows by day, from Sunday
  DayOfMonth day_of_month_;
  DateStep step_{k_day, 0};
};

}  // namespace unroll
