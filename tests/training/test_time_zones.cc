// SPDX-License-Identifier: Apache-2.0
// Time zones of files, and series of dates on clocks that are put forward and back.
#include <doctest/doctest.h>

#include <fstream>

#include "core/data/dates/time_zone.h"
#include "core/data/series/series_rows.h"
#include "tests/support/temp_folder.h"
#include "tests/support/text.h"
#include "tests/training/small_tasks.h"
#include "unroll/support/error.h"
#include "unroll/tasks/predict_tables.h"
#include "unroll/tasks/tasks.h"

namespace test_time_zones {

namespace {

using namespace unroll;
using testing::contains;
using Texts = std::vector<std::string>;

constexpr std::int64_t k_hour = 3600 * k_second;
constexpr const char* k_berlin = "CET-1CEST,M3.5.0,M10.5.0/3";

std::string big_endian(std::int64_t value, int bytes) {
  std::string text;
  for (int b = bytes - 1; b >= 0; --b) text += static_cast<char>(value >> (8 * b));
  return text;
}
// A TZif file of one offset, in seconds, and a rule for all years.
std::string tzif(std::int64_t offset, const std::string& rule) {
  std::string half = "TZif2" + std::string(15, '\0');
  for (const int n : {0, 0, 0, 0, 1, 4}) half += big_endian(n, 4);
  half += big_endian(offset, 4) + std::string(2, '\0') + "CET" + '\0';
  return half + half + "\n" + rule + "\n";
}
Timestamp at(int year, int month, int day, std::int64_t micros = 0) {
  return {midnight(year, month, day)->micros + micros};
}

// Zones in files of their own, so that the tests need none of the system.
struct Zones {
  Zones() {
    write("berlin", tzif(3600, k_berlin));
    write("lord_howe", tzif(37800, "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0"));
  }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder / name, std::ios::binary) << bytes;
  }
  DateColumn column(const std::string& zone) const { return {.name = "", .zone = folder / zone}; }
  TempFolder folder;
};

struct Read {
  std::string notes, error;
  std::vector<double> levels;
  Texts next, steps;
};
Read read(const std::string& csv, const DateColumn& date = {}, int n_next = 1, bool hold = true) {
  Read r;
  try {
    const SeriesRows rows(RecordFile(csv, "f.csv"), {.columns = {"v"}, .date = date, .csv = {}}, hold);
    for (const std::string& note : rows.notes()) r.notes += note + "\n";
    SeriesPiece piece;
    rows.read(0, rows.size(), piece);
    r.levels = piece.levels;
    for (int i = 0; i < n_next; ++i) r.next.push_back(rows.place(rows.segments()[0], rows.size() + i));
    r.steps.push_back(rows.dates().steps());
  } catch (const Error& e) {
    r.error = e.what();
  }
  return r;
}
std::string table(const Texts& dates) {
  std::string csv = "date;v\n";
  for (std::size_t i = 0; i < dates.size(); ++i) csv += dates[i] + ";" + std::to_string(i + 1) + "\n";
  return csv;
}
Texts reversed(Texts dates) {
  std::ranges::reverse(dates);
  return dates;
}

// The hours of a number of days on the clock of Berlin.
Texts hours(Timestamp from, int n) {
  const TimeZone berlin(tzif(3600, k_berlin), "berlin");
  const DateFormat format = date_readings("2024-01-01 00:00")[0].format;
  Texts all;
  for (int i = 0; i < n; ++i) all.push_back(date_text(berlin.on_clock({from.micros + i * k_hour}), format));
  return all;
}

const Texts k_autumn{"2021-10-31 01:00", "2021-10-31 02:00", "2021-10-31 02:00", "2021-10-31 03:00"};
const Texts k_spring{"2021-03-28 00:00", "2021-03-28 01:00", "2021-03-28 03:00", "2021-03-28 04:00"};

}  // namespace

TEST_CASE("a zone follows the rule at the end of its file") {
  const TimeZone berlin(tzif(3600, k_berlin), "berlin");
  CHECK(berlin.offset_at(at(2021, 3, 28, k_hour - 1)) == k_hour);
  CHECK(berlin.offset_at(at(2021, 3, 28, k_hour)) == 2 * k_hour);
  CHECK(berlin.offset_at(at(9999, 7, 1)) == 2 * k_hour);
  CHECK(berlin.moments_of(at(2021, 10, 31, 2 * k_hour)) == std::vector{at(2021, 10, 31), at(2021, 10, 31, k_hour)});
  CHECK(berlin.moments_of(at(2021, 3, 28, 2 * k_hour)).empty());
  CHECK(berlin.moment_of(at(2021, 3, 28, 2 * k_hour)) == at(2021, 3, 28, k_hour));
  const TimeZone lord_howe(tzif(37800, "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0"), "lord_howe");
  CHECK(lord_howe.offset_at(at(2021, 7, 1)) == 21 * k_hour / 2);
  CHECK(lord_howe.offset_at(at(2021, 1, 1)) == 11 * k_hour);
  const TimeZone tehran(tzif(12600, "<+0330>-3:30<+0430>,J79/24,263/24"), "tehran");
  CHECK(tehran.offset_at(at(2020, 3, 20, 20 * k_hour)) == 7 * k_hour / 2);
  CHECK(tehran.offset_at(at(2020, 3, 21)) == 9 * k_hour / 2);
  CHECK(tehran.offset_at(at(2020, 9, 20, 19 * k_hour)) == 9 * k_hour / 2);  // day 263 of a leap year, from 0
  CHECK(tehran.offset_at(at(2020, 9, 20, 20 * k_hour)) == 7 * k_hour / 2);
  const TimeZone always(tzif(-18000, "EST5EDT,0/0,J365/25"), "summer");
  CHECK(always.offset_at(at(2021, 1, 1, 6 * k_hour)) == -4 * k_hour);
  const TimeZone dublin(tzif(3600, "IST-1GMT0,M10.5.0,M3.5.0/1"), "dublin");
  CHECK(dublin.offset_at(at(2021, 12, 1)) == 0);
  CHECK(dublin.offset_at(at(2021, 6, 1)) == k_hour);
  CHECK(TimeZone(tzif(0, "UTC0"), "utc").offset_at(at(2021, 6, 1)) == 0);
}

TEST_CASE("a damaged file of a zone, and a rule that cannot be read, are refused") {
  const std::string file = tzif(3600, "");
  for (std::size_t n = 0; n + 2 < file.size(); ++n) CHECK_THROWS_AS(TimeZone(file.substr(0, n), "zone"), Error);
  for (const char* rule : {"CET", "CET-1CEST", "CET-1CEST,M3.5.0", "CET-1CEST,M3.5.0,M10.5.0/3x",
                           "CET-1CEST,M13.5.0,M1.1.0", "CET-1CEST,M3.0.0,M1.1.0", "CET-1CEST,J0,J9",
                           "CET-99CEST,M3.5.0,M10.5.0", "1", "<CET",
                           "CET-1CEST,M3.5.0/168,M10.5.0", "CET-1CEST,M3.5.0/1:60,M10.5.0"}) {
    CAPTURE(rule);
    CHECK_THROWS_WITH_AS(TimeZone(tzif(3600, rule), "zone"), doctest::Contains("[zone] is not a time zone"), Error);
  }
  std::string leap = file;
  leap[file.size() / 2 + 30] = 1;
  CHECK_THROWS_AS(TimeZone(leap, "zone"), Error);
  for (const char* name : {"Mars/Phobos", "../zoneinfo/UTC", "", "/", "/nowhere/at/all"}) {
    CAPTURE(name);
    try {
      TimeZone::named(name);
      FAIL("not refused");
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::usage);
      CHECK(contains(e.what(), "[data.timezone] '" + std::string(name) + "' is not a time zone of this system"));
      CHECK(contains(e.next(), "Europe/Berlin"));
      CHECK(contains(e.next(), "tzdata"));
    }
  }
}

TEST_CASE("with data.timezone, no hour is doubled or missing where the clock is changed") {
  const Zones zones;
  for (const bool hold : {true, false}) {
    const Read autumn = read(table(k_autumn), zones.column("berlin"), 1, hold);
    CHECK(autumn.error == "");
    CHECK(autumn.levels == std::vector<double>{1, 2, 3, 4});
    CHECK(autumn.next == Texts{"2021-10-31 04:00"});
    const std::string shown = "from 2021-10-31 01:00 on the clock of " + zones.folder / "berlin";
    CHECK(contains(autumn.notes, shown + ", a row every 1 hour"));
    CHECK_FALSE(contains(autumn.notes, "missing"));
    const Read spring = read(table(k_spring), zones.column("berlin"), 1, hold);
    CHECK(spring.levels == std::vector<double>{1, 2, 3, 4});
    CHECK_FALSE(contains(spring.notes, "missing"));
    // Blocks of a file that is not held begin anywhere in the doubled hour.
    Texts quarters;
    for (int i = 0; i < 300; ++i)
      quarters.push_back(hours(Timestamp{at(2021, 10, 28, 11 * k_hour).micros + i * k_hour / 4}, 1)[0]);
    CHECK(read(table(quarters), zones.column("berlin"), 1, hold).levels.size() == 300);
  }
  CHECK(read(table(hours(at(2021, 1, 1), 365 * 24)), zones.column("berlin")).levels.size() == 365 * 24);
  CHECK(read(table(reversed(k_autumn)), zones.column("berlin")).levels == std::vector<double>{4, 3, 2, 1});
  CHECK(contains(read(table(reversed(k_autumn)), zones.column("berlin")).notes, "the newest rows come first"));
  // A step of two hours leads to the second showing of 2:00.
  const Texts two_hours{"2021-10-30 23:00", "2021-10-31 01:00", "2021-10-31 02:00", "2021-10-31 04:00"};
  CHECK(read(table(two_hours), zones.column("berlin")).levels == std::vector<double>{1, 2, 3, 4});
  const Texts half_hour{"2021-04-04 00:00", "2021-04-04 01:00", "2021-04-04 01:30", "2021-04-04 02:30"};
  CHECK(read(table(half_hour), zones.column("lord_howe")).levels == std::vector<double>{1, 2, 3, 4});
}

TEST_CASE("forecasts go on through a change of the clock, on the clock") {
  const Zones zones;
  CHECK(read(table({"2021-10-31 00:00", "2021-10-31 01:00"}), zones.column("berlin"), 3).next ==
        Texts{"2021-10-31 02:00", "2021-10-31 02:00", "2021-10-31 03:00"});
  CHECK(read(table({"28.3.2021 0:00", "28.3.2021 1:00"}), zones.column("berlin"), 2).next ==
        Texts{"28.3.2021 3:00", "28.3.2021 4:00"});
}

TEST_CASE("dates with an offset, and seconds since 1970, are shown on the clock of the zone") {
  const Zones zones;
  const Texts offsets{"2021-03-28 00:00:00+01:00", "2021-03-28 01:00:00+01:00", "2021-03-28 03:00:00+02:00"};
  CHECK(read(table(offsets), zones.column("berlin")).next == Texts{"2021-03-28 04:00:00+02:00"});
  CHECK(read(table({"2021-10-31T00:00+0200", "2021-10-31T01:00+0200"}), zones.column("berlin"), 3).next ==
        Texts{"2021-10-31T02:00+0200", "2021-10-31T02:00+0100", "2021-10-31T03:00+0100"});
  CHECK(read(table({"2021-10-31 00:00+02", "2021-10-31 01:00+02"}), zones.column("lord_howe")).next ==
        Texts{"2021-10-31 11:00+11"});
  CHECK(read(table({"2021-07-01T00:00Z", "2021-07-01T01:00Z"}), zones.column("berlin")).next ==
        Texts{"2021-07-01T04:00+02:00"});
  CHECK(read(table({"2021-07-01 00:00 UTC", "2021-07-01 01:00 UTC"}), zones.column("lord_howe")).next ==
        Texts{"2021-07-01 12:30 +10:30"});
  CHECK(read("date;v\n1635631200;1\n1635634800;2\n", zones.column("berlin")).next == Texts{"1635638400"});
  DateColumn given = zones.column("berlin");
  given.form = "%d/%m/%y %H:%M %z";
  CHECK(read(table({"31/10/21 01:00 +0200", "31/10/21 02:00 +0200"}), given, 2).next ==
        Texts{"31/10/21 02:00 +0100", "31/10/21 03:00 +0100"});
  CHECK(contains(read(table(offsets)).error, "Set data.timezone to the zone of the dates"));
}

TEST_CASE("days and longer steps, trading hours, and six hours of the clock stay on the clock") {
  const Zones zones;
  const auto steps = [&](const Texts& dates, const Texts& next) {
    const Read r = read(table(dates), zones.column("berlin"), static_cast<int>(next.size()));
    CAPTURE(dates[0]);
    CHECK(r.error == "");
    CHECK(r.next == next);
    CHECK(r.steps == Texts{"local"});
    CHECK(r.levels.size() == dates.size());
  };
  steps({"2021-03-26", "2021-03-27"}, {"2021-03-28", "2021-03-29"});
  steps({"2021-03-26 00:00", "2021-03-27 00:00", "2021-03-28 00:00", "2021-03-29 00:00"}, {"2021-03-30 00:00"});
  steps({"2021-03-26 02:30", "2021-03-27 02:30"}, {"2021-03-28 02:30", "2021-03-29 02:30"});
  steps({"2021-02-01 00:00", "2021-03-01 00:00"}, {"2021-04-01 00:00"});
  steps({"2021-03-27T23:00Z", "2021-03-28T22:00Z"}, {"2021-03-30T00:00+02:00"});
  steps({"2021-10-30 12:00", "2021-10-30 18:00", "2021-10-31 00:00", "2021-10-31 06:00"}, {"2021-10-31 12:00"});
  Texts trading;
  for (const std::string& hour : hours(at(2021, 3, 1), 60 * 24))
    if (hour.substr(11) >= "09:00" && hour.substr(11) <= "17:00") trading.push_back(hour);
  steps(trading, {"2021-04-30 09:00"});
  // Even in UTC, and not on the clock.
  const Texts in_utc{"2021-03-27T23:00Z", "2021-03-28T23:00Z", "2021-03-29T23:00Z"};
  const Read r = read(table(in_utc), zones.column("berlin"));
  CHECK(r.steps == Texts{"utc"});
  CHECK(r.next == Texts{"2021-03-31T01:00+02:00"});
}

TEST_CASE("times that the clock does not show, or shows twice, are named") {
  const Zones zones;
  const Texts in_gap{"2021-03-28 00:00", "2021-03-28 01:00", "2021-03-28 02:00"};
  CHECK(contains(read(table(in_gap), zones.column("berlin")).error,
                 "line 4, column 1 ('date'): '2021-03-28 02:00' does not exist in " + zones.folder / "berlin"));
  const Read second = read(table({"2021-03-28 01:30", "2021-03-28 02:00"}), zones.column("berlin"));
  CHECK(contains(second.error, "'2021-03-28 02:00' does not exist"));
  const Read once = read(table({"2021-10-31 00:00", "2021-10-31 01:00", "2021-10-31 02:00", "2021-10-31 03:00"}),
                         zones.column("berlin"));
  CHECK(once.levels == std::vector<double>{1, 2, 3, 3, 4});
  CHECK(contains(once.notes, "1 date is missing (2021-10-31 02:00)"));
  CHECK(contains(once.notes, "1 time that the clock of " + zones.folder / "berlin" +
                                 " shows twice has one row, line 4: read as the earlier showing, in summer time"));
  CHECK_FALSE(contains(read(table(k_autumn), zones.column("berlin")).notes, "shows twice"));
  const Texts thrice{"2021-10-31 01:00", "2021-10-31 02:00", "2021-10-31 02:00", "2021-10-31 02:00"};
  CHECK(contains(read(table(thrice), zones.column("berlin")).error, "repeats"));
  CHECK(contains(read("step;v\n1;1\n2;2\n", zones.column("berlin")).error, "has no column of dates for data.timezone"));
}

TEST_CASE("without data.timezone, a missing hour of spring leads to advice") {
  CHECK(contains(read(table(k_autumn)).error, "If the clock is put back there, set data.timezone"));
  CHECK(contains(read(table(k_spring)).notes, "added as rows of missing values; if the clock is put forward there, set "
                                              "data.timezone, such as \"Europe/Berlin\""));
  const Texts monday{"2021-03-29 00:00", "2021-03-29 01:00", "2021-03-29 03:00", "2021-03-29 04:00"};
  CHECK_FALSE(contains(read(table(monday)).notes, "clock"));
  const Texts in_utc{"2021-03-28T00:00Z", "2021-03-28T01:00Z", "2021-03-28T03:00Z", "2021-03-28T04:00Z"};
  CHECK_FALSE(contains(read(table(in_utc)).notes, "clock"));
}

TEST_CASE("a model keeps its zone, and whether its steps follow the clock") {
  const Zones zones;
  ForecastOptions o = testing::plain_forecast();
  o.model.hidden = 2;
  o.window = 2;
  o.period = 2;
  o.column = "v";
  o.timezone = zones.folder / "berlin";
  const auto next_of = [&](const Texts& trained, const Texts& later) {
    const Metadata model = make_forecast(o, table(trained), "f.csv")->metadata();
    CHECK(model.at("timezone") == o.timezone);
    CHECK(make_forecast(o, table(trained), "f.csv", model)->metadata() == model);
    return SeriesEnds(model, split_from_text(table(later), "g.csv").file, "g.csv", 2, 2).at(0).next;
  };
  CHECK(next_of(hours(at(2021, 6, 1), 60), {"2022-10-30 01:00", "2022-10-30 02:00"}) ==
        Texts{"2022-10-30 02:00", "2022-10-30 03:00"});
  Texts by_six;
  for (const std::string& hour : hours(at(2021, 9, 1), 24 * 90))
    if (contains("00:00 06:00 12:00 18:00", hour.substr(11))) by_six.push_back(hour);
  CHECK(next_of(by_six, {"2022-10-29 18:00", "2022-10-30 00:00"}) == Texts{"2022-10-30 06:00", "2022-10-30 12:00"});
  // Hours and days of the calendar are those of the clock.
  const SeriesRows rows(RecordFile(table(hours(at(2021, 3, 27, 23 * k_hour), 4)), "f.csv"),
                        {.columns = {"v"}, .date = zones.column("berlin"), .csv = {}}, /*hold=*/true);
  CHECK(rows.dates().on_clock(0) == at(2021, 3, 28));
  CHECK(rows.dates().on_clock(3) == at(2021, 3, 28, 4 * k_hour));
  const Metadata model = make_forecast(o, table(hours(at(2021, 6, 1), 60)), "f.csv")->metadata();
  o.timezone = zones.folder / "lord_howe";
  CHECK_THROWS_WITH_AS(make_forecast(o, table(hours(at(2021, 6, 1), 60)), "f.csv", model),
                       doctest::Contains("the model was trained with data.timezone"), Error);
  o.date = "none";
  CHECK_THROWS_WITH_AS(make_forecast(o, table(k_autumn), "f.csv"),
                       doctest::Contains("date = none ignores dates, but timezone is set"), Error);
}

}  // namespace test_time_zones
