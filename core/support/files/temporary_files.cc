// SPDX-License-Identifier: Apache-2.0
#include "core/support/files/temporary_files.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <string_view>

namespace unroll {

namespace {

constexpr std::size_t k_slots = 16, k_longest = 4096, k_none = k_slots;

// Names are in static memory, because a signal handler may read one while another thread releases it.
struct Slot {
  std::atomic<int> state{0};  // 0: free, 1: being filled, 2: a name
  std::array<char, k_longest> name;
};
std::array<Slot, k_slots> g_slots;
static_assert(std::atomic<int>::is_always_lock_free);

}  // namespace

std::string temporary_path(const std::string& path) {
  constexpr std::size_t k_longest_name = 255;  // bytes
  const std::string_view ending = ".tmp";
  const std::size_t name = path.rfind('/') + 1;  // 0 for a path without a folder
  return path.substr(0, name + std::min(path.size() - name, k_longest_name - ending.size())).append(ending);
}

TemporaryFile::TemporaryFile(const std::string& path) : slot_(k_none) {
  if (path.size() >= k_longest) return;
  for (slot_ = 0; slot_ < k_slots; ++slot_) {
    Slot& slot = g_slots[slot_];
    int free = 0;
    if (!slot.state.compare_exchange_strong(free, 1)) continue;
    std::copy_n(path.c_str(), path.size() + 1, slot.name.begin());
    slot.state.store(2);
    return;
  }
}

TemporaryFile::~TemporaryFile() {
  if (slot_ != k_none) g_slots[slot_].state.store(0);
}

void remove_temporary_files() noexcept {
  const int before = errno;
  for (const Slot& slot : g_slots)
    if (slot.state.load() == 2) ::unlink(slot.name.data());
  errno = before;
}

}  // namespace unroll
