// SPDX-License-Identifier: Apache-2.0
// Writes scalars for TensorBoard: a file of TFRecords, each an Event message of Protocol Buffers.
//   record   u64 length, u32 masked crc32c of it, the message, u32 masked crc32c of that; little endian
//   masked   (crc >> 15 | crc << 17) + 0xa282ead8                   (tensorflow/core/lib/hash/crc32c.h)
//   Event    1 wall_time f64, 2 step i64, 3 file_version, 5 summary, 7 session_log  (tensorflow/core/util/event.proto)
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "unroll/support/vfs.h"
#include "unroll/train/trainer.h"

namespace unroll::cli {

using Scalars = std::map<std::string, double>;  // tag -> value

// Returns one record each. `seconds` since 1970.
std::string version_event(double seconds);                           // first record of a file
std::string start_event(double seconds, std::int64_t step);          // events of later steps in older files are void
std::string scalar_event(double seconds, std::int64_t step, const Scalars& scalars);

// "train/loss", "validation/accuracy", "watch/saturated/l0" ...; values that are not finite are kept.
Scalars scalars_of(const Progress& progress);

class EventFile {
 public:
  // Creates events.out.tfevents.SECONDS.N.unroll in a folder; a write error ends the file, not the run.
  EventFile(const std::string& folder, Vfs& vfs);
  void report(const Progress& progress);

 private:
  void write(const std::string& record);
  std::unique_ptr<Vfs::File> file_;
  bool started_ = false;
};

}  // namespace unroll::cli
