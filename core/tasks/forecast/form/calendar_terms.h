// SPDX-License-Identifier: Apache-2.0
// Terms of the calendar as covariates: hour, weekday, day, week, month, and Fourier terms.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/data/dates/dates.h"

namespace unroll {

struct CalendarTerm {
  std::int64_t classes = 0;  // of a category, such as 7 weekdays; 0: sines and cosines
  std::int64_t (*category)(Timestamp at) = nullptr;
  double period = 1;        // of the sine and cosine k times as fast, k = 1 ... pairs, in steps
  std::int64_t pairs = 0;
  std::int64_t width() const { return classes > 0 ? 1 : 2 * pairs; }
  // Appends the values of a row: the category from 0, or a sine and cosine of each pair.
  void append(Timestamp at, DateStep step, std::vector<double>& to) const;
};
// Reads "weekday" or "fourier(24,3)". Throws Error(usage).
CalendarTerm calendar_term(const std::string& text);

}  // namespace unroll
