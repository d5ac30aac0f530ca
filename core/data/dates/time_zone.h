// SPDX-License-Identifier: Apache-2.0
// Time zones of the system: when a clock is put forward and back.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/dates/dates.h"

namespace unroll {

class TimeZone {
 public:
  // Reads a zone by its IANA name, such as "Europe/Berlin", or a TZif file by its absolute path. Throws Error(usage) if
  // there is none.
  static TimeZone named(const std::string& name);
  // Parses a TZif file (RFC 8536). Throws Error(input_file) on another file, and on one that counts leap seconds.
  TimeZone(std::string_view tzif, std::string name);
  const std::string& name() const { return name_; }

  // Returns the distance of the clock from UTC at a moment in UTC, in microseconds, positive in the east.
  std::int64_t offset_at(Timestamp utc) const;
  Timestamp on_clock(Timestamp utc) const { return {utc.micros + offset_at(utc)}; }
  // Returns the moments in UTC at which the clock shows a time, ascending: two where the clock is put back, none where
  // it is put forward.
  std::vector<Timestamp> moments_of(Timestamp on_clock) const;
  // Returns the first of these. A time that does not exist counts as if the clock were put forward after it.
  Timestamp moment_of(Timestamp on_clock) const;

 private:
  struct Change {
    std::int64_t at, offset;  // seconds since 1970 in UTC, seconds
  };
  bool read(std::string_view tzif);
  bool add_yearly_changes(std::string_view rule);

  std::string name_;
  std::vector<Change> changes_;  // ascending; the first one is before all dates
};

}  // namespace unroll
