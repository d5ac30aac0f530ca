// SPDX-License-Identifier: Apache-2.0
// A target is what a fuzzer runs, and one of the many that the program `replay` runs over their corpora.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace unroll::testing {

using Target = int (*)(const std::uint8_t* data, std::size_t size);

inline std::map<std::string, Target>& targets() {
  static std::map<std::string, Target> all;
  return all;
}

}  // namespace unroll::testing

#ifdef UNROLL_REPLAY
#define FUZZ_TARGET(name)                                                                           \
  static int name##_target(const std::uint8_t* data, std::size_t size);                             \
  static const bool name##_added = unroll::testing::targets().emplace(#name, name##_target).second; \
  static int name##_target(const std::uint8_t* data, std::size_t size)
#else
#define FUZZ_TARGET(name) extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
#endif
