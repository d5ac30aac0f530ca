// SPDX-License-Identifier: Apache-2.0
// The dates of a column in one of the possible formats of its first date: their order and their step.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/data/dates/date_format.h"
#include "core/data/dates/time_zone.h"

namespace unroll {

// An error in the dates of a file: its place, the problem and the advice.
struct DateFault {
  std::size_t line = 0;
  std::string what, next;
};
inline constexpr const char* k_no_dates = "Correct it, or set data.date = \"none\" to ignore dates";

class DateSequence {
 public:
  // `calendar`: that of a model, as calendar_code(); "": finds one. `zone`: cells without an offset are on its clock.
  // in_utc: moments are in UTC, so that steps go on evenly where the clock of the zone is changed. Otherwise they are
  // on its clock, as days are.
  explicit DateSequence(DateFormat format, std::string calendar = {}, std::shared_ptr<const TimeZone> zone = {},
                        bool in_utc = false)
      : format_(std::move(format)), calendar_(std::move(calendar)), zone_(std::move(zone)), in_utc_(in_utc) {}

  // Adds a cell of the column, "" if missing. Ignores all cells after the first one that is no date of the format.
  void see(std::string_view cell, std::size_t line);
  // The next date begins another series, whose dates are independent of those before.
  void begin_series();
  // Determines the step; call after the last row.
  void finish();

  const DateFormat& format() const { return format_; }
  // The first cell that is no date of the format, and the first date that does not exceed its predecessor.
  const std::optional<DateFault>& misfit() const { return misfit_; }
  const std::optional<DateFault>& disorder() const { return disorder_; }
  bool is_newest_first() const { return n_not_older_ == 0; }
  bool has_repeats() const { return n_again_ > 0; }
  bool is_sparse() const { return is_sparse_; }  // most dates are missing
  bool is_regular() const { return !misfit_ && !disorder_ && !is_sparse(); }
  bool is_in_order() const { return !misfit_ && !disorder_; }
  // True if there are at least two dates, and all are a whole number of steps apart.
  bool is_even() const { return is_even_; }
  // True if both sequences have the same recorded dates.
  bool same_as(const DateSequence& other) const {
    return spans_ == other.spans_ && step_ == other.step_ && n_ == other.n_;
  }

  // The first and the last date of all series.
  Timestamp first() const { return first_; }
  Timestamp last() const { return last_; }
  std::int64_t size() const { return n_; }
  DateStep step() const { return step_; }
  std::int64_t n_missing() const { return n_missing_; }
  bool is_in_utc() const { return in_utc_; }
  // Rows at a time that the clock shows twice, without a row for the second showing: their count, and the first line.
  std::int64_t n_single() const { return n_single_; }
  std::size_t single_line() const { return single_line_; }
  // Returns the moment of a date. If the clock shows its time twice, that is the one after `before` which is a whole
  // number of steps away, or the first one after it; the last one if none is. Nothing if the clock never shows it.
  std::optional<Timestamp> moment(const DateReading& date, std::optional<Timestamp> before, std::int64_t step) const;
  // Returns the date at a moment, in the format of the column and on the clock of the zone.
  std::string text(Timestamp at) const;
  Timestamp on_clock(Timestamp at) const { return in_utc_ ? zone_->on_clock(at) : at; }

 private:
  std::vector<Timestamp> moments(const DateReading& date) const;
  void see_backward(std::span<const Timestamp> moments);
  void end_series();
  void find_calendar();
  bool divides(DateStep step) const;
  void compare(Timestamp at, std::string_view cell, std::size_t line);

  DateFormat format_;
  std::string calendar_;
  std::shared_ptr<const TimeZone> zone_;
  bool in_utc_;
  std::optional<DateFault> misfit_, disorder_;
  struct Span {
    Timestamp first, last;
    bool operator==(const Span&) const = default;
  };
  std::vector<Span> spans_;  // one for each series
  bool begins_ = true;       // the next date is the first of its series
  Timestamp first_, last_;
  std::size_t last_line_ = 0;
  std::int64_t n_ = 0, n_missing_ = 0;
  Timestamp newer_;                                 // the previous date, if the newest rows come first
  std::int64_t n_not_older_ = 0, n_again_ = 0;      // dates that are not before that one; dates that were seen before
  std::unordered_set<std::int64_t> seen_;           // the first dates
  std::map<std::int64_t, std::size_t> first_ones_;  // lines by times of the clock that are to be shown again
  std::int64_t n_single_ = 0;
  std::size_t single_line_ = 0;
  std::map<std::int64_t, std::int64_t> micros_, months_;  // counts of the distances between neighbors
  std::array<std::int64_t, 7> days_{};                    // days with rows, from Monday
  std::set<std::int64_t> times_;                          // of the day
  bool is_even_ = false, is_sparse_ = false;
  DayOfMonth day_of_month_;
  DateStep step_{k_day, 0};
};

}  // namespace unroll
