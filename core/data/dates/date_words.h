// SPDX-License-Identifier: Apache-2.0
// Words of dates: names of months and days, and usual names of date columns. All in any letter case.
#pragma once

#include <string_view>

namespace unroll {

bool same_word(std::string_view a, std::string_view b);
// Returns 1 to 12 for "Jan", "January", "Sept"; 0 for other words.
int month_of(std::string_view word);
std::string_view month_name(int month, bool full);
bool is_weekday(std::string_view word);  // "Mon", "Monday"
std::string_view weekday_name(int iso, bool full);  // of 1, Monday, to 7

// True if numbers in a column of this name are dates.
bool is_date_name(std::string_view column);
// True if a word of the column name suggests dates: order_date, "Time (UTC)".
bool hints_at_dates(std::string_view column);
// True if the column name is a part of dates: month, hour, ...
bool is_date_part_name(std::string_view column);
// True if a text looks like a date, a part of one or a time, even in an unsupported format: "Jan-49", "01/31/49",
// "12:30", "Q1/24". False for numbers.
bool looks_like_date(std::string_view cell);

}  // namespace unroll
