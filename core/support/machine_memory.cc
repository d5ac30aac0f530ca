// SPDX-License-Identifier: Apache-2.0
#include "core/support/machine_memory.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace unroll {

namespace {

// Returns the number after `key` in a file of lines "key number ..."; with an empty key the first number. 0: not found.
std::size_t number_in(const char* path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  if (!key.empty())
    while (file >> word && word != key) {
    }
  std::size_t number = 0;
  return file >> number ? number : 0;
}

// Returns the remainder of a limit, without cached files; 0 without a limit ("max", or beyond any machine).
std::size_t left_of(const std::string& folder, const char* limit_file, const char* used_file, const char* cached) {
  constexpr std::size_t k_no_limit = std::size_t{1} << 60;
  const std::size_t limit = number_in((folder + limit_file).c_str(), "");
  const std::size_t cache = number_in((folder + "memory.stat").c_str(), cached);
  const std::size_t all = number_in((folder + used_file).c_str(), ""), used = all - std::min(all, cache);
  if (limit == 0 || limit >= k_no_limit) return 0;
  return std::max<std::size_t>(limit - std::min(limit, used), 1);
}

}  // namespace

std::size_t free_memory() {
  std::size_t least = number_in("/proc/meminfo", "MemAvailable:") << 10;  // KiB
  const std::size_t groups[] = {
      left_of("/sys/fs/cgroup/", "memory.max", "memory.current", "inactive_file"),
      left_of("/sys/fs/cgroup/memory/", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")};
  for (const std::size_t left : groups)
    if (left > 0) least = least == 0 ? left : std::min(least, left);
  return least;
}

std::size_t resident_memory() { return number_in("/proc/self/status", "VmRSS:") << 10; }
std::size_t peak_resident_memory() { return number_in("/proc/self/status", "VmHWM:") << 10; }

}  // namespace unroll
