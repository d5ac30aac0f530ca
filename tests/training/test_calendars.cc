// SPDX-License-Identifier: Apache-2.0
// Formats that a config gives, centuries, days and hours without rows, and clocks that are put forward and back.
#include <doctest/doctest.h>

#include "core/data/dates/date_format.h"
#include "core/data/dates/date_words.h"
#include "core/data/series/series_rows.h"
#include "tests/support/text.h"
#include "tests/training/small_tasks.h"
#include "unroll/support/error.h"
#include "unroll/tasks/predict_tables.h"
#include "unroll/tasks/tasks.h"

namespace test_calendars {

namespace {

using namespace unroll;
using testing::contains;

constexpr std::int64_t k_minute = 60 * k_second, k_hour = 60 * k_minute;

// What is read of a file: notes, warnings or an error, the number of rows, and the dates behind the last one.
struct Read {
  std::string notes, warnings, error;
  std::int64_t size = 0;
  std::vector<std::string> next;
};
Read read(const std::string& csv, const DateColumn& date = {}, int n_next = 1) {
  Read r;
  try {
    const SeriesRows rows(RecordFile(csv, "f.csv"), {.columns = {"v"}, .date = date, .csv = {}}, /*hold=*/true);
    for (const std::string& note : rows.notes()) r.notes += note + "\n";
    for (const std::string& warning : rows.warnings()) r.warnings += warning + "\n";
    r.size = rows.size();
    for (int i = 0; i < n_next; ++i) r.next.push_back(rows.place(rows.segments()[0], rows.size() + i));
  } catch (const Error& e) {
    r.error = e.what();
  }
  return r;
}
std::string table(const std::vector<std::string>& dates) {
  std::string csv = "date;v\n";
  for (std::size_t i = 0; i < dates.size(); ++i) csv += dates[i] + ";" + std::to_string(i % 5) + "\n";
  return csv;
}

// Moments from a day on, `every` apart, that `keep` keeps, as 2024-01-31 or with a time.
template <class Keep>
std::vector<std::string> moments(Timestamp from, std::int64_t every, int n, const Keep& keep) {
  const DateFormat format = date_readings(every % k_day == 0 ? "2024-01-01" : "2024-01-01 00:00")[0].format;
  std::vector<std::string> all;
  for (int i = 0; i < n; ++i)
    if (const Timestamp at{from.micros + i * every}; keep(at)) all.push_back(date_text(at, format));
  return all;
}
const Timestamp k_monday = *midnight(2024, 1, 1);
bool is_business_day(Timestamp at) { return weekday_of(at) < 5; }

ForecastOptions small_forecast() {
  ForecastOptions o = testing::plain_forecast();
  o.model.hidden = 2;
  o.window = 2;
  o.period = 2;
  o.column = "v";
  return o;
}

}  // namespace

TEST_CASE("data.date_format reads any form, and goes on in the same one") {
  struct Case {
    const char *format, *first, *second, *next;
  };
  const Case cases[] = {
      {"%d/%m/%y", "05/01/24", "06/01/24", "07/01/24"},
      {"%m/%d/%y", "05/01/24", "06/01/24", "07/01/24"},
      {"%y%m%d", "240131", "240201", "240202"},
      {"%d.%m.%Y %H:%M Uhr", "31.12.2023 23:00 Uhr", "01.01.2024 00:00 Uhr", "01.01.2024 01:00 Uhr"},
      {"%b-%y", "Jan-24", "Feb-24", "Mar-24"},
      {"%A, %d %B %Y", "Friday, 05 January 2024", "Saturday, 06 January 2024", "Sunday, 07 January 2024"},
      {"%Y-%m-%dT%H:%M:%S.%f%z", "2024-01-05T21:00:00.500000+0100", "2024-01-05T21:00:01.000000+0100",
       "2024-01-05T21:00:01.500000+0100"},
      {"%I:%M %p %d.%m.%Y", "11:00 AM 5.1.2024", "12:00 PM 5.1.2024", "01:00 PM 5.1.2024"},
      {"week %V of %G, day %u", "week 52 of 2020, day 7", "week 53 of 2020, day 1", "week 53 of 2020, day 2"},
      {"%Y/%j", "2023/365", "2024/001", "2024/002"},
      {"%F %T", "2024-01-05 00:00:00", "2024-01-05 00:00:10", "2024-01-05 00:00:20"},
      {"100%% %Y", "100% 2023", "100% 2024", "100% 2025"},
  };
  for (const Case& c : cases) {
    const std::string format = c.format;
    CAPTURE(format);
    for (const char* name : {"", "date"}) {
      const Read r = read(table({c.first, c.second}), {name, format});
      CHECK(r.error == "");
      CHECK(r.warnings == "");
      CHECK(contains(r.notes, "dates in 'date' read as " + format));
      CHECK(r.next == std::vector<std::string>{c.next});
    }
  }
  const std::string days = table({"05/01/24", "06/01/24"});
  CHECK(contains(read(days, {"", "%d/%m/%k"}).error, "has an unknown directive, %k: '%d/%m/%k'"));
  CHECK(contains(read(days, {"", "%d/%m/%"}).error, "ends in %"));
  CHECK(contains(read(days, {"", "%d/%m"}).error, "has no year"));
  CHECK(contains(read(days, {"", "%Y-%m-%d"}).error, "no column begins with a date of data.date_format = '%Y-%m-%d'"));
  CHECK(contains(read(days, {"date", "%Y-%m-%d"}).error, "'05/01/24' is not a date of the format '%Y-%m-%d'"));
  ForecastOptions o = small_forecast();
  o.date = "none";
  o.date_format = "%F";
  CHECK_THROWS_WITH_AS(make_forecast(o, days, "f.csv"), doctest::Contains("date = none ignores dates"), Error);
}

TEST_CASE("two-digit years must lead to regular steps, and lie in the century in which they are no future") {
  CHECK(contains(read(table({"01/31/49", "02/28/49", "03/15/49", "04/02/49"})).warnings, "looks like dates"));
  CHECK(contains(read(table({"3.1.12", "4.1.12", "7.2.15", "1.1.16"})).warnings, "looks like dates"));
  CHECK(contains(read(table({"Dec-59", "Jan-60"})).notes, "Mon-YY (years 1900 to 1999)"));
  CHECK(contains(read(table({"Dec-99", "Jan-00"})).notes, "Mon-YY (years 1969 to 2068)"));
  CHECK(contains(read(table({"Dec-68", "Jan-69"})).notes, "Mon-YY (years 1900 to 1999)"));
  CHECK(contains(read(table({"Jan-01", "Jan-02", "Jan-03"})).warnings, "can be Mon-YY (years 1969 to 2068) or Mon-DD"));
  const std::string no_year = table({"28-Jan", "29-Jan", "30-Jan", "31-Jan", "1-Feb"});
  CHECK(contains(read(no_year).warnings, "looks like dates"));
  CHECK(contains(read(no_year, {"date"}).error, "'28-Jan' has no year"));
  // A later file is read in the century of the training file.
  ForecastOptions o = small_forecast();
  std::vector<std::string> months;
  for (int m = 0; m < 40; ++m)
    months.push_back(std::string(month_name(m % 12 + 1, false)) + "-" + std::to_string(60 + m / 12));
  const auto task = make_forecast(o, table(months), "f.csv");
  CHECK(task->metadata().at("date_form") == "Mon-YY (years 1900 to 1999)");
  const SeriesEnds ends(task->metadata(), split_from_text(table({"Jan-69", "Feb-69"}), "g.csv").file, "g.csv", 2, 1);
  CHECK(ends.at(0).next == std::vector<std::string>{"Mar-69"});
  CHECK(contains(ends.notes()[0], "(years 1900 to 1999)"));
  o.date_format = "%b-%y";
  const Metadata given = make_forecast(o, table(months), "f.csv")->metadata();
  CHECK(given.at("date_form") == "%b-%y (years 1900 to 1999)");
  const SeriesEnds again(given, split_from_text(table({"Jan-69", "Feb-69"}), "g.csv").file, "g.csv", 2, 1);
  CHECK(contains(again.notes()[0], "(years 1900 to 1999)"));
  CHECK(make_forecast(o, table(months), "f.csv", given)->metadata() == given);
}

TEST_CASE("days of the week without rows in four weeks are skipped by steps and forecasts") {
  const auto days = [](int n, const auto& keep) { return table(moments(k_monday, k_day, n, keep)); };
  const Read business = read(days(33, is_business_day), {}, 2);
  CHECK(business.warnings == "");
  CHECK(contains(business.notes, "a row every 1 day (Mon Tue Wed Thu Fri)\n"));
  CHECK(contains(business.notes, "all rows fall on Mon Tue Wed Thu Fri: steps and forecasts skip other times"));
  CHECK(business.size == 25);
  CHECK(business.next == std::vector<std::string>{"2024-02-05", "2024-02-06"});  // behind Friday, 2 February
  const auto holiday = [](Timestamp at) { return is_business_day(at) && at != Timestamp{k_monday.micros + 9 * k_day}; };
  const Read with_holiday = read(days(33, holiday));
  CHECK(with_holiday.size == 25);
  CHECK(contains(with_holiday.notes, "1 date is missing (2024-01-10)"));
  const auto no_sunday = [](Timestamp at) { return weekday_of(at) < 6; };
  CHECK(contains(read(days(40, no_sunday)).notes, "all rows fall on Mon Tue Wed Thu Fri Sat: steps"));
  const auto thrice = [](Timestamp at) { return weekday_of(at) % 2 == 0 && weekday_of(at) < 6; };
  const Read three_days = read(days(40, thrice), {}, 3);
  CHECK(contains(three_days.notes, "a row every 1 day (Mon Wed Fri)"));
  CHECK(three_days.next == std::vector<std::string>{"2024-02-12", "2024-02-14", "2024-02-16"});
  // A missing weekend, and a file with few rows, are no calendar.
  const auto one_weekend = [](Timestamp at) { return is_business_day(at) || at.micros > k_monday.micros + 7 * k_day; };
  CHECK(contains(read(days(40, one_weekend)).notes, "2 dates are missing (2024-01-06 to 2024-01-07)"));
  CHECK(read(days(19, is_business_day)).size == 19);
  CHECK(contains(read(days(19, is_business_day)).notes,
                 "4 dates are missing (2024-01-06 to 2024-01-07, 2024-01-13 to 2024-01-14); added as rows of missing"));
  const auto few = [](Timestamp at) { return (at.micros - k_monday.micros) / k_day % 9 < 2; };
  CHECK_FALSE(contains(read(days(60, few)).notes, "skip other times"));
}

TEST_CASE("hours without rows are skipped by steps and forecasts, lunch is not") {
  const auto trades = [](Timestamp at) {
    return is_business_day(at) && time_of_day(at) >= 9 * k_hour + 30 * k_minute && time_of_day(at) <= 16 * k_hour;
  };
  const Read r = read(table(moments(k_monday, 30 * k_minute, 33 * 48, trades)), {}, 15);
  CHECK(r.error + r.warnings == "");
  CHECK(contains(r.notes, "a row every 30 minutes (Mon Tue Wed Thu Fri, 09:30 to 16:00)\n"));
  CHECK(contains(r.notes, "all rows fall on Mon Tue Wed Thu Fri, 09:30 to 16:00: steps"));
  CHECK(r.size == 25 * 14);
  CHECK(r.next[0] == "2024-02-05 09:30");
  CHECK(r.next[13] == "2024-02-05 16:00");
  CHECK(r.next[14] == "2024-02-06 09:30");
  const auto lunch = [&](Timestamp at) { return trades(at) && time_of_day(at) != 12 * k_hour; };
  CHECK(read(table(moments(k_monday, 30 * k_minute, 33 * 48, lunch))).size == 25 * 14);
  const auto by_day = [](Timestamp at) { return time_of_day(at) >= 6 * k_hour && time_of_day(at) < 20 * k_hour; };
  const Read ten_days = read(table(moments(k_monday, k_hour, 240, by_day)));
  CHECK(contains(ten_days.notes, "a row every 1 hour (06:00 to 19:00)\n"));
  CHECK(ten_days.next == std::vector<std::string>{"2024-01-11 06:00"});
  const auto always = [](Timestamp) { return true; };
  CHECK(contains(read(table(moments(k_monday, k_hour, 24 * 40, always))).notes, "a row every 1 hour\n"));
  CHECK(contains(read(table(moments(k_monday, k_hour, 12, always))).notes, "a row every 1 hour\n"));
}

TEST_CASE("months that end on business days have a step of a month") {
  const Read r =
      read(table({"2024-01-31", "2024-02-29", "2024-03-29", "2024-04-30", "2024-05-31", "2024-07-31"}), {}, 2);
  CHECK(r.error == "");
  CHECK(contains(r.notes, "a row every 1 month (Mon Tue Wed Thu Fri)"));
  CHECK(contains(r.notes, "the dates are the last business days of their months"));
  CHECK(contains(r.notes, "1 date is missing (2024-06-28)"));
  CHECK(r.next == std::vector<std::string>{"2024-08-30", "2024-09-30"});
}

TEST_CASE("a model keeps its calendar for later files, which are too short to show one") {
  ForecastOptions o = small_forecast();
  o.period = 0;
  const auto trades = [](Timestamp at) {
    return is_business_day(at) && time_of_day(at) >= 9 * k_hour && time_of_day(at) <= 12 * k_hour;
  };
  const std::string csv = table(moments(k_monday, k_hour, 80 * 24, trades));
  const auto task = make_forecast(o, csv, "f.csv");
  const Metadata model = task->metadata();
  CHECK(model.at("date_step") == "1 hour (Mon Tue Wed Thu Fri, 09:00 to 12:00)");
  CHECK(model.at("date_calendar") == "31 4 32400000000");
  CHECK(model.at("period") == "4");
  CHECK(make_forecast(o, csv, "f.csv", model)->metadata() == model);
  const std::string few = table({"2024-06-07 11:00", "2024-06-07 12:00"});  // a Friday
  const SeriesEnds ends(model, split_from_text(few, "few.csv").file, "few.csv", 2, 2);
  CHECK(ends.at(0).next == std::vector<std::string>{"2024-06-10 09:00", "2024-06-10 10:00"});
  const std::string late = table({"2024-06-07 11:00", "2024-06-07 12:00", "2024-06-07 13:00"});
  CHECK_THROWS_WITH_AS(SeriesEnds(model, split_from_text(late, "late.csv").file, "late.csv", 2, 2),
                       doctest::Contains("'2024-06-07 13:00' does not fit a step of 1 hour (Mon Tue"), Error);
  // An older model has no calendar: its business days were filled up.
  Metadata older = model;
  older.erase("date_calendar");
  older["date_step"] = "1 hour";
  const SeriesEnds filled(older, split_from_text(few, "few.csv").file, "few.csv", 2, 1);
  CHECK(filled.at(0).next == std::vector<std::string>{"2024-06-07 13:00"});
}

TEST_CASE("a clock that is put back is named where an hour repeats or the offset changes") {
  const Read repeated = read(table({"2021-10-31 01:00", "2021-10-31 02:00", "2021-10-31 02:00", "2021-10-31 03:00"}));
  CHECK(contains(repeated.error, "repeats the date of line 3"));
  CHECK(contains(repeated.error, "If the clock is put back there, set data.timezone, such as \"Europe/Berlin\""));
  const Read offsets = read(table({"2021-03-28 01:00:00+01:00", "2021-03-28 03:00:00+02:00"}));
  CHECK(contains(offsets.error, "has another UTC offset than the first date, as after a change of the clock"));
  CHECK(contains(offsets.error, "with the same UTC offset"));
}

}  // namespace test_calendars
