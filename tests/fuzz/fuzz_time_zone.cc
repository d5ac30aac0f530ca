// SPDX-License-Identifier: Apache-2.0
// A file of a time zone is read or refused. Each moment is one of those at which its clock shows that time, and each
// of these leads back to the clock. Dates are read on any clock.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "core/data/dates/date_sequence.h"
#include "core/data/dates/time_zone.h"
#include "tests/fuzz/target.h"
#include "unroll/support/error.h"

namespace {

using namespace unroll;

void check_moment(const TimeZone& zone, Timestamp utc) {
  const Timestamp shown = zone.on_clock(utc);
  const std::vector<Timestamp> all = zone.moments_of(shown);
  if (std::ranges::find(all, utc) == all.end() || !std::ranges::is_sorted(all)) std::abort();
  for (const Timestamp at : all)
    if (zone.on_clock(at) != shown) std::abort();
  zone.moment_of(shown);
}

void check_dates(const std::shared_ptr<const TimeZone>& zone, Timestamp from) {
  for (const char* form : {"2021-03-28 00:00", "2021-03-28T00:00:00+01:00", "2021-03-28 00:00 UTC"})
    for (const bool in_utc : {true, false}) {
      DateSequence dates(date_readings(form)[0].format, "", zone, in_utc);
      dates.see(form, 1);
      for (int hour = 0; hour < 30; ++hour) dates.see(dates.text({from.micros + hour * 3600 * k_second}), hour + 2);
      dates.finish();
      dates.text(dates.last());
    }
}

}  // namespace

FUZZ_TARGET(time_zone) {
  try {
    const auto zone = std::make_shared<const TimeZone>(
        std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
    for (int year = 1; year < 9999; year = year < 1900 || year > 2210 ? year + 500 : year + 7)
      for (int month = 1; month <= 12; ++month)
        check_moment(*zone, {midnight(year, month, 25 + year % 4)->micros + month * 1800 * k_second - month % 2});
    check_dates(zone, *midnight(2021, 3, 27));
    check_dates(zone, *midnight(2030, 10, 27));
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::input_file) std::abort();
  }
  return 0;
}
