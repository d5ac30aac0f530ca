// SPDX-License-Identifier: Apache-2.0
// Words of dates: names of months and days, and what columns of dates are called. All in any letter case.
#pragma once

#include <string_view>

namespace unroll {

bool same_word(std::string_view a, std::string_view b);
// 1 to 12 for "Jan", "January", "Sept"; 0 for other words.
int month_of(std::string_view word);
std::string_view month_name(int month, bool full);
bool is_weekday(std::string_view word);  // "Mon", "Monday"

// Whether numbers in a column of this name are dates.
bool is_date_name(std::string_view column);
// Whether a word in the name hints at dates: order_date, "Time (UTC)".
bool hints_at_dates(std::string_view column);
// Whether the name is a part of dates: month, hour, ...
bool is_date_part_name(std::string_view column);
// Whether a text, which may not be read, is a date, a part of one or a time: "Jan-49", "01/31/49", "12:30", "Q1/24". No
// number is.
bool looks_like_date(std::string_view cell);

}  // namespace unroll
