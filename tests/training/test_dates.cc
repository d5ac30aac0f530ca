// SPDX-License-Identifier: Apache-2.0
// Dates of series as people write them: read, or named with what to do; steps of the calendar; several series in a
// file.
#include <doctest/doctest.h>

#include <sstream>

#include "core/data/dates/date_format.h"
#include "core/data/dates/date_words.h"
#include "core/data/series/series_rows.h"
#include "tests/support/text.h"
#include "tests/training/small_tasks.h"
#include "unroll/support/error.h"
#include "unroll/tasks/predict_tables.h"
#include "unroll/tasks/tasks.h"

namespace {

using namespace unroll;
using namespace unroll::testing;

std::vector<std::string> cells_of(const std::string& list) {
  std::vector<std::string> cells;
  std::istringstream in(list);
  for (std::string cell; std::getline(in, cell, '|');) cells.push_back(cell);
  return cells;
}

// What is read of a file: notes, warnings or an error, and the date behind the last row.
struct Found {
  std::string notes, warnings, error, next;
};
Found found_in(const std::string& csv, const DateColumn& date = {}, const std::string& column = "") {
  Found found;
  try {
    const SeriesRows rows(RecordFile(csv, "f.csv"), {.columns = {column}, .date = date, .csv = {}}, /*hold=*/true);
    for (const std::string& note : rows.notes()) found.notes += note + "\n";
    for (const std::string& warning : rows.warnings()) found.warnings += warning + "\n";
    found.next = rows.place(rows.segments()[0], rows.size());
  } catch (const Error& e) {
    found.error = e.what();
  }
  return found;
}
// A column of dates, "a|b|c", and one of numbers.
std::string series(const std::string& name, const std::string& list, int n_rows = 0) {
  std::string csv = name + ";value\n";
  const std::vector<std::string> cells = cells_of(list);
  for (std::size_t i = 0; i < cells.size(); ++i) csv += cells[i] + ";" + std::to_string(10 + i * 7 % 5) + "\n";
  for (int i = 0; i < n_rows; ++i) csv += std::to_string(i) + ";1\n";
  return csv;
}

std::string iso(int year, int month, int day) {
  return date_text(*midnight(year, month, day), date_readings("2024-01-01")[0].format);
}
// The days of some months, by number from January 2013.
std::string monthly(const std::vector<std::pair<int, int>>& days) {
  std::string csv = "date,value\n";
  for (const auto& [month, day] : days) csv += iso(2013 + (month - 1) / 12, (month - 1) % 12 + 1, day) + ",1\n";
  return csv;
}

}  // namespace

TEST_CASE("dates are read in the notations people use, and go on in the same one") {
  struct Case {
    const char *name, *cells, *read_as, *step, *next;
  };
  const Case cases[] = {
      {"date", "2024-02-27|2024-02-28|2024-02-29", "YYYY-MM-DD", "1 day", "2024-03-01"},
      {"date", "2024/02/27|2024/02/28|2024/02/29", "YYYY/MM/DD", "1 day", "2024/03/01"},
      {"date", "2024.02.27|2024.02.28|2024.02.29", "YYYY.MM.DD", "1 day", "2024.03.01"},
      {"date", "27.02.2024|28.02.2024|29.02.2024", "DD.MM.YYYY", "1 day", "01.03.2024"},
      {"date", "8.2.2024|9.2.2024|10.2.2024", "DD.MM.YYYY", "1 day", "11.2.2024"},
      {"date", "2024-1-8|2024-1-9|2024-1-10", "YYYY-MM-DD", "1 day", "2024-1-11"},
      {"when", "01/31/1949|02/28/1949|03/31/1949", "MM/DD/YYYY", "1 month", "04/30/1949"},
      {"when", "31/01/1949|28/02/1949|31/03/1949", "DD/MM/YYYY", "1 month", "30/04/1949"},
      {"when", "1/12/2024|1/13/2024|1/14/2024", "MM/DD/YYYY", "1 day", "1/15/2024"},
      {"when", "12-1-2024|13-1-2024|14-1-2024", "DD-MM-YYYY", "1 day", "15-1-2024"},
      {"when", "1/1/1949|1/1/1950|1/1/1951", "/YYYY", "1 year", "1/1/1952"},
      {"m", "2024-01|2024-02|2024-03", "YYYY-MM", "1 month", "2024-04"},
      {"m", "2024/01|2024/02|2024/03", "YYYY/MM", "1 month", "2024/04"},
      {"m", "01/2024|02/2024|03/2024", "MM/YYYY", "1 month", "04/2024"},
      {"m", "11-2023|12-2023|01-2024", "MM-YYYY", "1 month", "02-2024"},
      {"m", "1991M11|1991M12|1992M01", "YYYYMMM", "1 month", "1992M02"},
      {"Month", "Jan-1949|Feb-1949|Mar-1949", "Mon-YYYY", "1 month", "Apr-1949"},
      {"Month", "January 1949|February 1949|March 1949", "Mon YYYY", "1 month", "April 1949"},
      {"m", "1991 Jul|1991 Aug|1991 Sep", "YYYY Mon", "1 month", "1991 Oct"},
      {"m", "JUL1991|AUG1991|SEP1991", "MonYYYY", "1 month", "Oct1991"},
      {"date", "Jan 1 2000|Feb 1 2000|Mar 1 2000", "Mon DD YYYY", "1 month", "Apr 1 2000"},
      {"date", "Jan-1-1995|Feb-1-1995|Mar-1-1995", "Mon-DD-YYYY", "1 month", "Apr-1-1995"},
      {"date", "January 30, 2021|January 31, 2021|February 1, 2021", "Mon DD, YYYY", "1 day", "February 2, 2021"},
      {"date", "30 Jan 2021|31 Jan 2021|01 Feb 2021", "DD Mon YYYY", "1 day", "02 Feb 2021"},
      {"date", "30-Jan-2021|31-Jan-2021|01-Feb-2021", "DD-Mon-YYYY", "1 day", "02-Feb-2021"},
      {"date", "30JAN2021|31JAN2021|01FEB2021", "DDMonYYYY", "1 day", "02Feb2021"},
      {"date", "2021-Jan-30|2021-Jan-31|2021-Feb-01", "YYYY-Mon-DD", "1 day", "2021-Feb-02"},
      {"date", "Fri, 29 Jan 2021|Sat, 30 Jan 2021|Sun, 31 Jan 2021", "DD Mon YYYY", "1 day", "01 Feb 2021"},
      {"date", "Monday, January 4, 2021|Monday, January 11, 2021", "Mon DD, YYYY", "1 week", "January 18, 2021"},
      {"q", "1970 Q3|1970 Q4|1971 Q1", "YYYY Qq", "3 months", "1971 Q2"},
      {"q", "1959Q3|1959Q4|1960Q1", "YYYYQq", "3 months", "1960Q2"},
      {"q", "1959-Q3|1959-Q4|1960-Q1", "YYYY-Qq", "3 months", "1960-Q2"},
      {"q", "1959:Q3|1959:Q4|1960:Q1", "YYYY:Qq", "3 months", "1960:Q2"},
      {"q", "Q3 1970|Q4 1970|Q1 1971", "Qq YYYY", "3 months", "Q2 1971"},
      {"q", "Q3/1970|Q4/1970|Q1/1971", "Qq/YYYY", "3 months", "Q2/1971"},
      {"w", "2020-W52|2020-W53|2021-W01", "YYYY-Www", "1 week", "2021-W02"},
      {"w", "2020W51|2020W52|2020W53", "YYYYWww", "1 week", "2021W01"},
      {"year", "1949|1950|1951", "YYYY", "1 year", "1952"},
      {"YEAR", "1700.0|1701.0|1702.0", "YYYY", "1 year", "1703"},
      {"date", "20240228|20240229|20240301", "YYYYMMDD", "1 day", "20240302"},
      {"month", "202311|202312|202401", "YYYYMM", "1 month", "202402"},
      {"time", "2024022822|2024022823|2024022900", "YYYYMMDDhh", "1 hour", "2024022901"},
      {"time", "202402282200|202402282230|202402282300", "YYYYMMDDhhmm", "30 minutes", "202402282330"},
      {"time", "20240228220000|20240228220010|20240228220020", "YYYYMMDDhhmmss", "10 seconds", "20240228220030"},
      {"timestamp", "1577836800|1577923200|1578009600", "unix seconds", "1 day", "1578096000"},
      {"timestamp", "1577836800.0|1577840400.0|1577844000.0", "unix seconds", "1 hour", "1577847600"},
      {"timestamp", "1577836800000|1577836800500|1577836801000", "unix milliseconds", "500 milliseconds",
       "1577836801500"},
      {"timestamp", "1577836800000000|1577836800000100", "unix microseconds", "100 microseconds", "1577836800000200"},
      {"timestamp", "1577836800000000000|1577836801000000000", "unix nanoseconds", "1 second", "1577836802000000000"},
      {"t", "2021-05-01 22:00|2021-05-01 23:00|2021-05-02 00:00", "DD hh:mm", "1 hour", "2021-05-02 01:00"},
      {"t", "2021-05-01T09:00:00Z|2021-05-01T09:15:00Z", "DDThh:mm:ssZ", "15 minutes", "2021-05-01T09:30:00Z"},
      {"t", "2021-05-01 9:00|2021-05-01 10:00|2021-05-01 11:00", "hh:mm", "1 hour", "2021-05-01 12:00"},
      {"t", "2021-05-01 00:00:00+00:00|2021-05-02 00:00:00+00:00", "+00:00", "1 day", "2021-05-03 00:00:00+00:00"},
      {"t", "2021-05-01T00:00:00-0330|2021-05-02T00:00:00-0330", "-0330", "1 day", "2021-05-03T00:00:00-0330"},
      {"t", "2021-05-01 00:00:00 UTC|2021-05-02 00:00:00 UTC", " UTC", "1 day", "2021-05-03 00:00:00 UTC"},
      {"t", "2021-05-01 00:00:00.250|2021-05-01 00:00:00.500", "hh:mm:ss", "250 milliseconds",
       "2021-05-01 00:00:00.750"},
      {"t", "2021-05-01 00:00:00.000000|2021-05-01 00:00:01.000000", "hh:mm:ss", "1 second", "2021-05-01 00:00:02"},
      {"t", "1/31/2021 11:00 PM|2/1/2021 12:00 AM|2/1/2021 1:00 AM", "MM/DD/YYYY hh:mm AM", "1 hour",
       "2/1/2021 2:00 AM"},
      {"t", "2021-05-01 10:30:00 am|2021-05-01 12:30:00 pm", "hh:mm:ss", "2 hours", "2021-05-01 02:30:00 PM"},
      {"t", "2024-01-05T21:00:00.123+01:00|2024-01-05T22:00:00.123+01:00", "+01:00", "1 hour",
       "2024-01-05T23:00:00.123+01:00"},
      {"t", "2024-01-05 21h|2024-01-05 22h|2024-01-05 23h", "hhh", "1 hour", "2024-01-06 00h"},
      {"t", "2024-01-05T21|2024-01-05T22", "DDThh", "1 hour", "2024-01-05T23"},
      {"t", "20240105T2100|20240105T2130", "YYYYMMDDThhmm", "30 minutes", "20240105T2200"},
      {"t", "20240105T210000Z|20240105T210010Z", "ThhmmssZ", "10 seconds", "20240105T210020Z"},
      {"t", "5.1.2024 21:30|6.1.2024 21:30", "DD.MM.YYYY hh:mm", "1 day", "7.1.2024 21:30"},
      {"t", "1/5/2024 9:30 PM|1/15/2024 9:30 PM", "MM/DD/YYYY hh:mm AM", "10 days", "1/25/2024 9:30 PM"},
      {"when", "Jan-49|Feb-49|Mar-49", "Mon-YY (years 1900 to 1999)", "1 month", "Apr-49"},
      {"when", "Oct-23|Nov-23|Dec-23|Jan-24", "Mon-YY (years 1969 to 2068)", "1 month", "Feb-24"},
      {"when", "49-Jan|49-Feb|49-Mar", "YY-Mon (years 1900 to 1999)", "1 month", "49-Apr"},
      {"when", "01/31/49|02/28/49|03/31/49", "MM/DD/YY (years 1900 to 1999)", "1 month", "04/30/49"},
      {"when", "31.01.49|28.02.49|31.03.49", "DD.MM.YY", "1 month", "30.04.49"},
      {"when", "49-01-31|49-02-28|49-03-31", "YY-MM-DD", "1 month", "49-04-30"},
      {"when", "12/30/99|12/31/99|01/01/00", "MM/DD/YY (years 1969 to 2068)", "1 day", "01/02/00"},
      {"when", "30-Dec-23|31-Dec-23|1-Jan-24", "DD-Mon-YY", "1 day", "2-Jan-24"},
      {"when", "1Q49|2Q49|3Q49", "qQYY", "3 months", "4Q49"},
      {"when", "Q1/49|Q2/49|Q3/49", "Qq/YY", "3 months", "Q4/49"},
      {"when", "1Q1949|2Q1949|3Q1949", "qQYYYY", "3 months", "4Q1949"},
      {"when", "2023-364|2023-365|2024-001", "YYYY-DDD", "1 day", "2024-002"},
      {"date", "2023364|2023365|2024001", "YYYYDDD", "1 day", "2024002"},
      {"when", "2020-W52-1|2020-W53-1|2021-W01-1", "YYYY-Www-D", "1 week", "2021-W02-1"},
      {"when", "2020-W53-6|2020-W53-7|2021-W01-1", "YYYY-Www-D", "1 day", "2021-W01-2"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.cells);
    const Found found = found_in(series(c.name, c.cells));
    CHECK(found.error == "");
    CHECK(found.warnings == "");
    CHECK(contains(found.notes, std::string("dates in '") + c.name + "' read as "));
    CHECK(contains(found.notes, c.read_as));
    CHECK(contains(found.notes, std::string("a row every ") + c.step + "\n"));
    CHECK(found.next == c.next);
  }
}

TEST_CASE("a column that looks like dates and is not read is named with what to do") {
  struct Case {
    const char *name, *cells, *advice;
  };
  const char *write = "Write dates such as 2024-01-31", *four = "with four digits for the year",
             *set = "Set data.date = \"";
  const Case cases[] = {
      {"when", "05-Jan|06-Jan|07-Jan", four},
      {"when", "Jan 5|Jan 6|Feb 7", four},
      {"when", "1949:1|1949:2|1949:3", write},
      {"when", "2024-01-05 21:00 CET|2024-01-05 22:00 CET", write},
      {"when", "Freitag, 5. Januar 2024|Samstag, 6. Januar 2024", write},
      {"when", "5 janv. 2024|6 janv. 2024", write},
      {"when", "2020-12-28/2021-01-03|2021-01-04/2021-01-10", write},
      {"when", "Mon Jan 01 12:00:00 2021|Mon Jan 01 13:00:00 2021", write},
      {"when", "1st January 2021|2nd January 2021", write},
      {"when", "2021-05-01 00:00:00.000000001|2021-05-01 00:00:00.000000002", write},
      {"when", "3. M\xc3\xa4rz 2024|4. M\xc3\xa4rz 2024", write},
      {"when",
       "2024\xe5\xb9\xb4"
       "1\xe6\x9c\x88"
       "5\xe6\x97\xa5|2024\xe5\xb9\xb4"
       "1\xe6\x9c\x88"
       "6\xe6\x97\xa5",
       write},
      {"when", "12:00|12:15|12:30", write},
      {"when", "2024_01_31|2024_02_01", write},
      {"when", "2024-01-31T00:00:00Z[UTC]|2024-02-01T00:00:00Z[UTC]", write},
      {"when", "2024H1|2024H2", write},
      {"when", "week 5|week 6", write},
      {"when", "FY24|FY25", write},
      {"when", "3 PM|4 PM|5 PM", write},
      {"when", "January|February|March", write},
      {"when", "Mon|Tue|Wed", write},
      {"when", "2024-13-01|2024-14-01|2024-15-01", write},
      {"when", "Saison 2023/24|Saison 2024/25", write},
      {"date", "44197|44198|44199", write},
      {"time", "9999999999999999999|1", write},
      {"order_date", "44197|44198|44199", write},
      {"Time (UTC)", "monday one|monday two", write},
      {"year", "49|50|51|53", write},
      {"year", "1.5|2.5|7.5", write},
      {"month", "1|2|3|1|2|3", write},
      {"hour", "22|23|0|1", write},
      {"date", "monday one|monday two", write},
      {"t", "1577836800|1577923200|1578009600", set},
      {"t", "1577836800000|1577923200000|1578009600000", set},
      {"x", "1949|1950|1951", set},
      {"x", "1949.0|1950.0|1951.0", set},
      {"x", "20240228|20240229|20240301", set},
      {"when", "01/02/2024|02/02/2024|03/02/2024", "can be DD/MM/YYYY or MM/DD/YYYY"},
      {"when", "1-2-2024|1-3-2024|1-4-2024", "MM-DD-YYYY"},
      {"when", "Jan-24|Feb-24|Mar-24", "can be Mon-YY (years 1969 to 2068) or Mon-DD"},
      {"when", "24-01-05|24-01-06|24-01-07", "can be DD-MM-YY (years 1969 to 2068) or YY-MM-DD"},
      {"when", "05/01/24|06/01/24|07/01/24", "can be MM/DD/YY (years 1969 to 2068) or DD/MM/YY"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.cells);
    const Found found = found_in(series(c.name, c.cells));
    CHECK(found.error == "");
    CHECK(contains(found.notes, "no date column"));
    CHECK(contains(found.warnings, "f.csv: column '" + std::string(c.name) + "' "));
    CHECK(contains(found.warnings, c.advice));
    CHECK(contains(found.warnings, "data.date = \"none\""));
    // Who ignores the dates knowingly hears nothing of them; who names the column is refused or served.
    CHECK(found_in(series(c.name, c.cells), {"none", ""}).warnings == "");
    const Found named = found_in(series(c.name, c.cells), {c.name, ""});
    CHECK((contains(named.error, "Write dates such as") || contains(named.notes, "dates in '")));
  }
}

TEST_CASE("what only counts rows or is no date needs no warning") {
  for (const char* cell : {"##", "1 % 2 %", "\n\n", ""}) CHECK_FALSE(looks_like_date(cell));
  for (const char* column :
       {"time;0|1|2|3", "time;0.0|0.1|0.2|0.3", "day;1|2|3|4", "t;5|3|8|1", "x;a|b|a|c", "x;1949|1948|1950",
        "promo;0|1|0|1", "x;192.168.0.1|192.168.0.2", "x;12,5|13,5", "time_spent;3.5|2.5|7", "x;ID1999|ID2000|ID2001",
        "x;T1|T2|T3", "people;1500|1850|2120|2480", "x;1.234.567|2.345.678"}) {
    CAPTURE(column);
    const std::string text(column);
    const std::size_t at = text.find(';');
    const Found found = found_in(series(text.substr(0, at), text.substr(at + 1)));
    CHECK(found.error == "");
    CHECK(found.warnings == "");
  }
}

TEST_CASE("dates in the last column are not the series") {
  for (const char* column : {"date;2024-01-01|2024-01-02", "year;1969.5|1970.0", "month;1|2", "when;Jan-49|Feb-49",
                             "ds;1|2", "weekday;1|2"}) {
    CAPTURE(column);
    const std::string text(column), name = text.substr(0, text.find(';'));
    const std::vector<std::string> cells = cells_of(text.substr(name.size() + 1));
    const std::string csv = "note;temp;" + name + "\nx;1;" + cells[0] + "\ny;2;" + cells[1] + "\n";
    const Found found = found_in(csv);
    CHECK(contains(found.error, "the last column, '" + name + "', looks like dates ('" + cells[0] + "')"));
    CHECK(contains(found.error, "Set data.column = \"temp\""));
    CHECK(found_in(csv, {}, "temp").error == "");
  }
  CHECK(found_in("temp;year\n1;1\n2;2\n", {}, "year").error == "");  // said by the user
}

TEST_CASE("dates that repeat, go back or are irregular are refused with their lines and the fix") {
  const std::string head = "date,sales\n2022-01-01,1\n2022-01-02,2\n2022-01-03,3\n";
  struct Case {
    const char *rows, *what, *next;
  };
  const Case cases[] = {
      {"2022-01-03,4\n", "line 5, column 1 ('date'): '2022-01-03' repeats the date of line 4", "Keep one row per date"},
      {"2022-01-05,4\n2022-01-04,4\n", "line 6, column 1 ('date'): '2022-01-04' is before the date of line 5",
       "Sort the rows by date"},
      {"2022-01-04 12:00,4\n", "line 5, column 1 ('date'): '2022-01-04 12:00' does not fit a step of 1 day",
       "data.date"},
      {"2022-13-01,4\n", "'2022-13-01' is not a date", "data.date"},
      {",4\n", "line 5, column 1 ('date'): the date is missing", "data.date"},
      {"2022/01/04,4\n", "'2022/01/04' is in another date format than the first date", "data.date"},
      {"9999-01-01,4\n", "most dates are missing", "data.date"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.rows);
    const Found found = found_in(head + c.rows);
    CHECK(contains(found.error, c.what));
    CHECK(contains(found.error, c.next));
    CHECK(found_in(head + c.rows, {"none", ""}).error == "");
  }
  CHECK(contains(found_in("date,v\n,1\n2022-01-01,1\n2022-01-02,2\n").error,
                 "line 2, column 1 ('date'): the date is missing"));
  const Found clocks =
      found_in("date,v\n2021-10-31 01:00,1\n2021-10-31 02:00,1\n2021-10-31 02:00,1\n2021-10-31 03:00,1\n");
  CHECK(contains(clocks.error, "repeats the date of line 3"));
  CHECK(contains(clocks.error, "write times in UTC"));
  const Found offsets = found_in("date,v\n2021-03-28 01:00:00+01:00,1\n2021-03-28 03:00:00+02:00,1\n");
  CHECK(contains(offsets.error, "another UTC offset"));
  CHECK(contains(offsets.error, "same UTC offset"));
}

TEST_CASE("rows from the newest to the oldest are read in reverse order, which is said") {
  using Case = std::pair<const char*, const char*>;
  for (const Case& each : {Case{"2024-01-03|2024-01-02|2024-01-01", "2024-01-04"},
                           Case{"12/31/2023|11/30/2023|10/31/2023", "01/31/2024"},
                           Case{"13/1/2024|12/1/2024|11/1/2024", "14/1/2024"},
                           Case{"Jan 3 2024|Jan 2 2024|Jan 1 2024", "Jan 4 2024"},
                           Case{"2024 Q3|2024 Q2|2024 Q1", "2024 Q4"}}) {
    const std::string cells = each.first;
    CAPTURE(cells);
    const Found found = found_in(series("date", cells));
    CHECK(found.error == "");
    CHECK(found.next == each.second);
    CHECK(contains(found.notes, "the newest rows come first; they are read in reverse order"));
  }
  const std::string csv = "date,v\n2024-01-04,4\n2024-01-02,2\n\n2024-01-01,1\n";
  const SeriesRows rows(RecordFile(csv, "f.csv"), {.columns = {"v"}, .date = {}, .csv = {}}, /*hold=*/true);
  SeriesPiece piece;
  rows.read(0, rows.size(), piece);
  CHECK(piece.levels == std::vector<double>{1, 2, 2, 4});
  CHECK(contains(found_in("date,v\n2024-01-03,1\n2024-01-01,1\n2024-01-02,1\n").error, "is before the date of line 2"));
}

TEST_CASE("the form that a model was trained on decides where a file can be read in two ways") {
  const std::string csv = series("date", "01/02/2024|02/02/2024|03/02/2024");
  CHECK(found_in(csv, {"date", "DD/MM/YYYY"}).next == "04/02/2024");
  CHECK(contains(found_in(csv, {"date", "MM/DD/YYYY"}).notes, "a row every 1 month"));
  CHECK(contains(found_in(csv, {"date", ""}).error, "can be DD/MM/YYYY or MM/DD/YYYY"));
}

TEST_CASE("the day of the month of all dates decides where a step of months leads") {
  using Days = std::vector<std::pair<int, int>>;
  struct Case {
    const char* what;
    Days days;  // month, day
    const char* next;
  };
  const Case cases[] = {
      {"the 28th, from February on",
       {{2, 28}, {3, 28}, {4, 28}, {5, 28}, {6, 28}, {7, 28}, {8, 28}, {9, 28}},
       "2013-10-28"},
      {"the 30th, from February on", {{2, 28}, {3, 30}, {4, 30}, {5, 30}}, "2013-06-30"},
      {"the 30th, before February", {{10, 30}, {11, 30}, {12, 30}, {13, 30}}, "2014-02-28"},
      {"the 29th", {{2, 28}, {3, 29}, {4, 29}}, "2013-05-29"},
      {"the 31st", {{1, 31}, {2, 28}, {3, 31}, {4, 30}}, "2013-05-31"},
      {"month ends, from February on", {{2, 28}, {3, 31}, {4, 30}}, "2013-05-31"},
      {"month ends without a 31st", {{2, 28}, {4, 30}, {6, 30}}, "2013-08-31"},
      {"ends of quarters", {{3, 31}, {6, 30}, {9, 30}, {12, 31}}, "2014-03-31"},
      {"the 28 February of years", {{14, 28}, {26, 28}, {38, 28}}, "2017-02-28"},
      {"ends of February", {{26, 28}, {38, 29}, {50, 28}}, "2018-02-28"},
      {"the 15th", {{1, 15}, {2, 15}, {3, 15}}, "2013-04-15"},
      {"the 30th with missing months", {{2, 28}, {3, 30}, {4, 30}, {7, 30}, {8, 30}}, "2013-09-30"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.what);
    const Found found = found_in(monthly(c.days));
    CHECK(found.error == "");
    CHECK(found.next == c.next);
  }
  const Found odd = found_in(monthly({{1, 28}, {2, 28}, {3, 28}, {4, 28}, {5, 27}, {6, 28}}));
  CHECK(contains(odd.error, "line 6, column 1 ('date'): '2013-05-27' does not fit a step of 1 month"));
}

TEST_CASE("steps lead from one date to the other and back") {
  CHECK(step_text({k_day, 0}) == "1 day");
  CHECK(step_text({7 * k_day, 0}) == "1 week");
  CHECK(step_text({900 * k_second, 0}) == "15 minutes");
  CHECK(step_text({0, 12}) == "1 year");
  CHECK(step_text({0, 3}) == "3 months");
  const auto at = [](const char* text) { return date_readings(text)[0].at; };
  CHECK(after(at("2024-01-31"), 1, {0, 1}) == at("2024-02-29"));
  CHECK(steps_between(at("2024-02-29"), at("2024-03-31"), {0, 1}) == 1);
  CHECK(steps_between(at("2023-02-28"), at("2023-03-28"), {0, 1, 28}) == 1);
  CHECK_FALSE(steps_between(at("2023-02-28"), at("2023-03-28"), {0, 1, 31}));
  CHECK_FALSE(steps_between(at("2024-01-15"), at("2024-02-14"), {0, 1, 15}));
}

TEST_CASE("several series one below the other are named, whatever their dates look like") {
  struct Case {
    const char *what, *dates, *said;
  };
  const char *names = "Set data.id = \"symbol\"", *own = "set data.id to the column";
  const Case cases[] = {
      {"ISO dates", "2024-01-01|2024-02-01|2024-03-01", names},
      {"month names", "Jan 1 2000|Feb 1 2000|Mar 1 2000", names},
      {"month first", "01/31/2000|02/29/2000|03/31/2000", names},
      {"years", "2001|2002|2003", names},
      {"dates that are not read", "Jan-00|Feb-00|Mar-00", own},
      {"numbers of rows", "1|2|3", own},
  };
  for (const bool blocks : {true, false})
    for (const Case& c : cases) {
      const std::string what = c.what;
      CAPTURE(what);
      CAPTURE(blocks);
      const std::vector<std::string> dates = cells_of(c.dates);
      std::string csv = "symbol,date,price\n";
      for (int i = 0; i < 9; ++i) {
        const char* symbols[] = {"MSFT", "AMZN", "GOOG"};
        const int symbol = blocks ? i / 3 : i % 3, row = blocks ? i % 3 : i / 3;
        csv +=
            std::string(symbols[symbol]) + "," + dates[static_cast<std::size_t>(row)] + "," + std::to_string(i) + "\n";
      }
      const Found found = found_in(csv);
      CHECK(contains(found.error + found.warnings, c.said));
    }
  const Found numbers = found_in("shop,date,v\n1,2024-01-01,1\n1,2024-01-02,2\n2,2024-01-01,1\n2,2024-01-02,2\n");
  CHECK(contains(numbers.error, "perhaps 'shop'"));
  const Found later =
      found_in("shop,date,v\na,2024-01-01,1\na,2024-01-02,2\na,2024-01-03,2\nb,2024-01-02,1\nb,2024-01-03,2\n");
  CHECK(contains(later.error, "named in 'shop'"));
  const Found no_dates = found_in("shop,v\na,1\na,2\na,3\nb,1\nb,2\nb,3\n");
  CHECK(contains(no_dates.warnings, "column 'shop' has 2 values"));
  CHECK(found_in("weather,v\nsun,1\nsun,2\nsun,2\nrain,3\nrain,3\nrain,3\nsun,3\nsun,4\nsun,4\n").warnings == "");
}

TEST_CASE("dates that are spread over columns are refused with the way out") {
  for (const char* csv : {"year,month,v\n2020,1,5\n2020,2,6\n2020,3,7\n2021,1,2\n",
                          "date,hour,v\n2020-01-01,22,1\n2020-01-01,23,1\n2020-01-02,0,1\n",
                          "Date,Time,v\n2020-01-01,22:00,1\n2020-01-01,23:00,1\n2020-01-02,00:00,1\n"}) {
    CAPTURE(csv);
    CHECK(contains(found_in(csv).error, "Join them in one column"));
  }
}

TEST_CASE("of two columns with dates the one that is not used is named") {
  const Found found = found_in("start,end,v\n2024-01-01,2024-01-02,1\n2024-01-02,2024-01-03,2\n");
  CHECK(contains(found.notes, "dates in 'start' read as YYYY-MM-DD"));
  CHECK(contains(found.warnings, "column 'end' has dates too and is not used"));
  CHECK(found_in("year,date,v\n2024,2024-01-01,1\n2024,2024-01-02,2\n").warnings == "");
}

TEST_CASE("a model keeps the notation of its dates for files that could be read otherwise") {
  ForecastOptions o = testing::plain_forecast();
  o.model.hidden = 2;
  o.window = 2;
  o.period = 2;
  std::string csv = "when,v\n", few = "when,v\n";
  for (int d = 1; d <= 28; ++d) csv += "2/" + std::to_string(d) + "/2023," + std::to_string(d % 3) + "\n";
  for (int d = 1; d <= 6; ++d) few += "3/" + std::to_string(d) + "/2023," + std::to_string(d % 3) + "\n";
  o.test = split_from_text(few, "test.csv");
  const auto task = make_forecast(o, csv, "f.csv");
  CHECK(task->warnings().empty());
  CHECK(task->notes().size() == 2);
  for (const std::string& note : task->notes()) CHECK(contains(note, "read as MM/DD/YYYY"));
  const Metadata model = task->metadata();
  CHECK(model.at("date_form") == "MM/DD/YYYY");
  const SeriesEnds ends(model, split_from_text(few, "few.csv").file, "few.csv", 2, 1);
  CHECK(ends.at(0).next == std::vector<std::string>{"3/7/2023"});
  CHECK(make_forecast(o, csv, "f.csv", model)->metadata() == model);
}

TEST_CASE("the check of a series says each error once, with what to do") {
  ForecastOptions o = testing::plain_forecast();
  o.model.hidden = 2;
  const auto findings = [&](const std::string& csv) {
    std::string all;
    for (const DataFinding& f : check_data(o, csv, "f.csv").findings) all += f.what + "\n";
    return all;
  };
  const auto times = [](const std::string& text, const std::string& part) {
    int n = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
    return n;
  };
  std::string weather = "date,temp,weather\n", last = "temp,date\n";
  for (int d = 1; d <= 28; ++d) {
    const std::string date = "2023-02-" + std::string(d < 10 ? "0" : "") + std::to_string(d);
    weather += date + ",5,rain\n";
    last += "5," + date + "\n";
  }
  const std::string text = findings(weather);
  CHECK(
      contains(text, "28 cells are missing, infinite or not a number: line 2, column 3 ('weather'): 'rain' is not a"));
  CHECK(contains(text, "(and 27 more cells of this column)"));
  CHECK(times(text, "is not a number") == 1);
  CHECK(times(text, "data.columns") == 1);
  CHECK_FALSE(contains(text, "of the values are missing"));
  CHECK(times(findings(last), "the last column, 'date', looks like dates") == 1);
  CHECK_FALSE(contains(findings(last), "is not a number"));
}
