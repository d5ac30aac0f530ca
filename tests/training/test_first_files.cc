// SPDX-License-Identifier: Apache-2.0
// The files of a forecaster's first day, each in the form in which packages and spreadsheets write it: it is read as it
// is meant, or a finding of `data check` names what is in the way and what to write.
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/text.h"
#include "unroll/support/error.h"
#include "unroll/tasks/tasks.h"

using namespace unroll;
using namespace unroll::testing;

namespace {

using Days = std::chrono::sys_days;
std::string two(unsigned number) { return (number < 10 ? "0" : "") + std::to_string(number); }
constexpr std::array<const char*, 12> k_months = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                  "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
// Month i behind January of a year, in fields: y year, Y its last two digits, m and M month as 01 and Jan, q quarter.
std::string month(int year, int i, const std::string& pattern) {
  const int y = year + i / 12;
  const auto m = static_cast<unsigned>(i % 12);
  std::string text;
  for (const char c : pattern) {
    if (c == 'y') text += std::to_string(y);
    else if (c == 'Y') text += two(static_cast<unsigned>(y % 100));
    else if (c == 'm') text += two(m + 1);
    else if (c == 'M') text += k_months[m];
    else if (c == 'q') text += std::to_string(m / 3 + 1);
    else text += c;
  }
  return text;
}
std::string day(int i) {
  const std::chrono::year_month_day d{Days(std::chrono::year(2020) / 1 / 1) + std::chrono::days(i)};
  return std::to_string(static_cast<int>(d.year())) + "-" + two(static_cast<unsigned>(d.month())) + "-" +
         two(static_cast<unsigned>(d.day()));
}
std::string value(int i) { return std::to_string(100 + (i * 37) % 29 + i % 12); }

// A file with a date and a value in each row.
std::string dated(const std::string& header, int n, const std::function<std::string(int)>& date) {
  std::string text = header + "\n";
  for (int i = 0; i < n; ++i) text += date(i) + "," + value(i) + "\n";
  return text;
}
std::string monthly(const std::string& pattern, int step = 1) {
  return dated("date,value", 150, [&](int i) { return month(1949, i * step, pattern); });
}
// Companies one below the other.
std::string panel(const std::string& pattern, bool by_date) {
  std::string text = "symbol,date,price\n";
  const std::array<const char*, 5> names = {"MSFT", "AMZN", "IBM", "GOOG", "AAPL"};
  for (int r = 0; r < 5 * 60; ++r) {
    const int company = by_date ? r % 5 : r / 60, i = by_date ? r / 5 : r % 60;
    text += std::string(names[static_cast<std::size_t>(company)]) + "," + month(2000, i, pattern) + "," + value(r);
    text += '\n';
  }
  return text;
}

struct FirstFile {
  const char* name;
  std::string text;
  bool error = false;
  std::vector<std::string> says = {};   // in the findings
  std::vector<std::string> notes = {};  // where it is read
  std::function<void(ForecastOptions&)> set = {};
};

std::vector<FirstFile> forecast_files() {
  std::vector<FirstFile> files;
  const auto read_as = [](const std::string& format, const std::string& step) {
    return std::vector<std::string>{"read as " + format, "a row every " + step};
  };
  files.push_back({"airline, all defaults",
                   monthly("y-m"),
                   false,
                   {},
                   {"data.period = 12 (a year, at a row every 1 month)", "data.horizon = 12"},
                   [](ForecastOptions& o) { o.period = ForecastOptions{}.period; }});
  files.push_back(
      {"temperatures by the hour, all defaults",
       dated("date,temp", 600, [](int i) { return day(i / 24) + " " + two(static_cast<unsigned>(i % 24)) + ":00"; }),
       false,
       {},
       {"data.period = 24 (a day, at a row every 1 hour)", "data.horizon = 24"},
       [](ForecastOptions& o) { o.period = ForecastOptions{}.period; }});
  files.push_back({"lynx, a series without a name",
                   dated(",0", 114, [](int i) { return std::to_string(1821 + i); }),
                   false,
                   {},
                   {"114 rows, header found", "is read as a header"},
                   [](ForecastOptions& o) { o.date = "none"; }});
  files.push_back({"month ends, month first",
                   dated("date,value", 60, [](int i) { return month(1949, i, "m/28/y"); }),
                   false,
                   {},
                   read_as("MM/DD/YYYY", "1 month")});
  files.push_back({"month ends, day first",
                   dated("date,value", 60, [](int i) { return month(1949, i, "28/m/y"); }),
                   false,
                   {},
                   read_as("DD/MM/YYYY", "1 month")});
  files.push_back({"first days of months",
                   dated("date,value", 60, [](int i) { return month(1949, i, "1/m/y"); }),
                   false,
                   {},
                   read_as("DD/MM/YYYY", "1 month")});
  files.push_back({"first days of the months of one year",
                   dated("date,value", 12, [](int i) { return month(1949, i, "1/m/y"); }),
                   false,
                   {"can be DD/MM/YYYY or MM/DD/YYYY", "data.date"},
                   {},
                   [](ForecastOptions& o) { o.window = 2, o.period = 2, o.horizon = 1, o.difference = "none"; }});
  files.push_back(
      {"a year of two digits", monthly("M-Y"), false, {}, read_as("Mon-YY (years 1900 to 1999)", "1 month")});
  files.push_back({"stocks of one company", monthly("M 1 y"), false, {}, read_as("Mon DD YYYY", "1 month")});
  files.push_back({"quarters with a blank", monthly("y Qq", 3), false, {}, read_as("YYYY Qq", "3 months")});
  files.push_back({"quarters", monthly("yQq", 3), false, {}, read_as("YYYYQq", "3 months")});
  files.push_back({"year and month", monthly("y M"), false, {}, read_as("YYYY Mon", "1 month")});
  files.push_back({"month, day and year with hyphens", monthly("M-1-y"), false, {}, read_as("Mon-DD-YYYY", "1 month")});
  files.push_back({"dates with an offset",
                   dated("date,value", 90, [](int i) { return day(i) + " 00:00:00+00:00"; }),
                   false,
                   {},
                   {"a row every 1 day"}});
  files.push_back({"years as decimals",
                   dated("year,value", 90, [](int i) { return std::to_string(1700 + i) + ".0"; }),
                   false,
                   {},
                   read_as("YYYY", "1 year")});
  files.push_back({"seconds since 1970",
                   dated("date,value", 90, [](int i) { return std::to_string(1577836800 + 86400 * i); }),
                   false,
                   {},
                   read_as("unix seconds", "1 day")});
  files.push_back({"seconds since 1970 in a column without a name that says so",
                   dated("x,value", 90, [](int i) { return std::to_string(1577836800 + 86400 * i); }),
                   false,
                   {"rises like dates", "data.date = \"x\""}});
  files.push_back(
      {"five companies one below the other", panel("M 1 y", false), true, {"series", "'symbol'", "data.id"}});
  files.push_back(
      {"five companies date by date", panel("y-m-01", true), true, {"series", "'symbol'", "data.id"}});
  std::string swapped = "temp,date\n", weather = "date,precipitation,weather\n", newest = "date,close\n",
              business = newest;
  for (int i = 0; i < 120; ++i) {
    swapped += value(i) + "," + day(i) + "\n";
    weather += day(i) + "," + value(i) + "," + (i % 3 == 0 ? "rain" : "sun") + "\n";
    newest += day(200 - i) + "," + value(i) + "\n";
    if (i % 7 != 3 && i % 7 != 4) business += day(i) + "," + value(i) + "\n";  // 1 January 2020 is a Wednesday
  }
  files.push_back({"the date as last column", swapped, true, {"the last column, 'date'", "data.column = \"temp\""}});
  files.push_back({"a text as last column", weather, true, {"'rain' is not a number", "data.columns"}});
  files.push_back({"newest first", newest, false, {}, {"newest rows come first", "read in reverse order"}});
  files.push_back({"business days", business, false, {}, read_as("YYYY-MM-DD", "1 day (Mon Tue Wed Thu Fri)")});
  const auto numbers = [](const std::string& header, const std::string& number) {
    std::string text = header + "\n";
    for (int i = 0; i < 60; ++i) text += day(i) + number + "\n";
    return text;
  };
  files.push_back({"decimal comma", numbers("date;value", ";112,5"), false, {}, {"'112,5' is read as 112.5"}});
  files.push_back({"decimal comma between commas", numbers("date,value", ",112,5"), true, {"3 cells", "with a point"}});
  files.push_back(
      {"thousands in quotes", numbers("date,value", ",\"1,112\""), true, {"'1,112' is not a number", "1234"}});
  std::string bikes = "mnth,day,hr,weathersit,bikers\n";
  for (int i = 0; i < 24 * 40; ++i)
    bikes += std::string(i < 24 * 31 ? "Jan" : "Feb") + "," + std::to_string(1 + i / 24) + "," +
             std::to_string(i % 24) + ",clear," + value(i) + "\n";
  files.push_back({"bikes: month, day and hour in columns", bikes, false, {"'mnth'", "data.date"}});
  files.push_back({"one value for each of several cells",
                   "a,b,c\n1,2,3\n1,2\n",
                   true,
                   {"line 3", "2 cells, but the first line has 3", "empty cells"}});
  return files;
}

}  // namespace

TEST_CASE("each file of a forecaster's first day is read as it is meant, or its finding leads to the fix") {
  const std::vector<FirstFile> files = forecast_files();
  CHECK(files.size() >= 25);
  for (const FirstFile& file : files) {
    CAPTURE(file.name);
    ForecastOptions o;
    o.window = 6;
    o.period = 12;
    if (file.set) file.set(o);
    const DataCheck check = check_data(o, file.text, "first.csv");
    std::string said;
    std::size_t errors = 0;
    for (const DataFinding& finding : check.findings) {
      errors += finding.error;
      if (finding.error || finding.check == "format") said += finding.what + "\n";
    }
    CAPTURE(said);
    CHECK(errors == (file.error ? 1 : 0));
    CHECK(said.empty() == file.says.empty());
    for (const std::string& part : file.says) CHECK(contains(said, part));
    if (file.error) {
      CHECK_THROWS_AS((void)make_forecast(o, file.text, "first.csv"), Error);
      continue;
    }
    const auto task = make_forecast(o, file.text, "first.csv");
    std::string notes, warnings;
    for (const std::string& note : task->notes()) notes += note + "\n";
    for (const std::string& warning : task->warnings()) warnings += warning + "\n";
    CAPTURE(notes);
    for (const std::string& part : file.notes) CHECK(contains(notes, part));
    CHECK(warnings == said);
  }
}

TEST_CASE("a frame without names, as a classifier meets it, has no class of its header") {
  std::string text;
  for (int c = 0; c <= 60; ++c) text += (c > 0 ? "," : "") + std::to_string(c);
  text += "\n";
  for (int r = 0; r < 40; ++r) {
    for (int c = 0; c < 60; ++c) text += std::to_string((r % 4) + 0.01 * ((r * 7 + c * 3) % 50)) + ",";
    text += std::to_string(r % 4 + 1) + "\n";
  }
  ClassifyOptions o;
  o.normalize = true;
  const auto task = make_classify(o, text, "motions.csv");
  CHECK(task->metadata().at("labels") == "1\n2\n3\n4\n");
  CHECK(contains(task->notes().at(0), "40 rows, header found"));
  CHECK(check_data(o, text, "motions.csv").findings.empty());
}
