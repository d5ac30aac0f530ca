// SPDX-License-Identifier: Apache-2.0
// Every call of Vulkan that can fail fails once, through the function table: a typed error, no crash, and a backend
// that is opened afterwards works.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "backends/vulkan/device/functions.h"
#include "tests/support/loop_networks.h"
#include "tests/support/memory_vfs.h"
#include "tests/support/temp_folder.h"
#include "tests/training/small_tasks.h"
#include "unroll/ir/ops.h"
#include "unroll/passes/run.h"
#include "unroll/support/error.h"

namespace test_vulkan_faults {

using namespace unroll;
using namespace unroll::vulkan;

namespace {

constexpr const char* k_names[] = {
#define X(name) "vk" #name,
    UNROLL_VULKAN_FUNCTIONS(X)
#undef X
};
constexpr std::size_t k_functions = std::size(k_names);

struct Fault {
  int calls = 0;   // so far
  int due = -1;    // number of the call that fails; -1: none
  VkResult error = VK_ERROR_DEVICE_LOST;
  const char* failed = nullptr;  // what failed
  int function = -1;             // `due` counts the calls of this one; -1: of all
  std::array<int, k_functions> calls_of = {};
};
Fault& fault() {
  static Fault state;
  return state;
}

// Puts itself before an entry of the table that returns a VkResult.
template <int N, auto Entry, class F>
struct Hook {
  static void install(Functions&) {}
};
template <int N, auto Entry, class... A>
struct Hook<N, Entry, VkResult (*)(A...)> {
  static inline VkResult (*real)(A...) = nullptr;
  static VkResult call(A... arguments) {
    const int of_all = fault().calls++, of_this = fault().calls_of[N]++;
    const bool counts = fault().function < 0 || fault().function == N;
    if (!counts || fault().due != (fault().function < 0 ? of_all : of_this)) return real(arguments...);
    fault().failed = k_names[N];
    return fault().error;
  }
  static void install(Functions& functions) {
    if (!(functions.*Entry) || functions.*Entry == call) return;
    real = functions.*Entry;
    functions.*Entry = call;
  }
};

enum Number : int {
#define X(name) n_##name,
  UNROLL_VULKAN_FUNCTIONS(X)
#undef X
};
void tamper(Functions& functions) {
#define X(name) Hook<n_##name, &Functions::name, PFN_vk##name>::install(functions);
  UNROLL_VULKAN_FUNCTIONS(X)
#undef X
}

// Opens, uploads, compiles, runs twice and reads.
float work(const std::string& cache = {}) {
  return testing::sum_of_two_steps(*make_backend("vulkan", {.cache = cache}), 2);
}
constexpr float k_wanted = 6;

// Every wait runs out of time, after one more submission has finished or, when the device hangs, none.
struct Slowness {
  bool hangs = false;
  PFN_vkWaitSemaphores wait = nullptr;
  PFN_vkGetSemaphoreCounterValue count = nullptr;
};
Slowness& slowness() {
  static Slowness state;
  return state;
}
VkResult count_slowly(VkDevice device, VkSemaphore semaphore, std::uint64_t* value) {
  const VkResult counted = slowness().count(device, semaphore, value);
  if (slowness().hangs) *value = 0;
  return counted;
}
VkResult wait_slowly(VkDevice device, const VkSemaphoreWaitInfo* info, std::uint64_t nanoseconds) {
  std::uint64_t finished = 0;
  if (slowness().hangs) return VK_TIMEOUT;
  if (const VkResult counted = slowness().count(device, info->pSemaphores[0], &finished)) return counted;
  if (finished >= info->pValues[0]) return VK_SUCCESS;
  VkSemaphoreWaitInfo one = *info;
  const std::uint64_t next = finished + 1;
  one.pValues = &next;
  const VkResult waited = slowness().wait(device, &one, nanoseconds);
  return waited == VK_SUCCESS ? VK_TIMEOUT : waited;
}
void slow_down(Functions& functions) {
  if (!functions.WaitSemaphores || functions.WaitSemaphores == wait_slowly) return;
  slowness().wait = std::exchange(functions.WaitSemaphores, wait_slowly);
  slowness().count = std::exchange(functions.GetSemaphoreCounterValue, count_slowly);
}

}  // namespace

TEST_CASE("much work may take long as long as some of it finishes; a device that finishes nothing is an error") {
  set_tamper(slow_down);
  for (const bool hangs : {false, true}) {
    slowness().hangs = hangs;
    CAPTURE(hangs);
    try {
      const float result = work();
      CHECK(result == k_wanted);
      CHECK_FALSE(hangs);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::device);
      if (!slowness().wait) std::printf("skipped: %s\n", error.what());
      else CHECK_MESSAGE((hangs && std::string(error.what()).find("waiting for the device") != std::string::npos),
                         error.what());
    }
  }
  set_tamper(nullptr);
}

TEST_CASE("each call that fails gives a typed error and no crash") {
  set_tamper(tamper);
  const TempFolder cache;
  try {
    REQUIRE(work(cache / "kernels") == k_wanted);
  } catch (const Error& error) {
    set_tamper(nullptr);
    if (error.kind() != ErrorKind::device) throw;
    std::printf("skipped: %s\n", error.what());
    return;
  }
  const int n = fault().calls;
  int thrown = 0, survived = 0;
  for (int due = 0; due < n; ++due) {
    fault() = {0, due, due % 2 ? VK_ERROR_DEVICE_LOST : VK_ERROR_OUT_OF_DEVICE_MEMORY, nullptr};
    try {
      const float result = work(cache / "kernels");
      CAPTURE(fault().failed);
      CHECK(result == k_wanted);  // it was a call whose failure harms nothing, such as a last wait
      ++survived;
    } catch (const Error& error) {
      CAPTURE(std::string(error.what()));
      CAPTURE(fault().failed);
      REQUIRE(fault().failed);
      CHECK(error.kind() == (due % 2 ? ErrorKind::device : ErrorKind::memory));
      ++thrown;
    }
  }
  std::printf("%d calls failed once each: %d errors, %d without effect\n", n, thrown, survived);
  CHECK(thrown > survived);
  fault() = {};
  CHECK(work() == k_wanted);
  set_tamper(nullptr);
}

namespace {

TrainerOptions in_folder(Vfs& vfs, bool resume) {
  TrainerOptions options = testing::small_training(14);  // a checkpoint every 6 updates
  options.folder = "run";
  options.vfs = &vfs;
  options.resume = resume;
  options.overwrite = !resume;
  return options;
}
void train(Vfs& vfs, bool resume) {
  const auto backend = make_backend("vulkan");
  Trainer(std::make_shared<testing::TinyTask>(), *backend, in_folder(vfs, resume)).fit();
}

std::string last_checkpoint(Vfs& vfs) {
  const Bytes bytes = vfs.read("run/last.safetensors", 1 << 24);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

// Calls spread over the training, and one of each function.
TEST_CASE("training whose device fails ends with exit code 5 or 7, and resumes to the same bytes") {
  constexpr int k_spread = 16;
  set_tamper(tamper);
  fault() = {};
  MemoryVfs whole;
  try {
    train(whole, false);
  } catch (const Error& error) {
    set_tamper(nullptr);
    if (error.kind() != ErrorKind::device) throw;
    std::printf("skipped: %s\n", error.what());
    return;
  }
  const int calls = fault().calls;
  const auto calls_of = fault().calls_of;
  std::vector<std::pair<int, int>> faults;  // function, number of the call
  for (int k = 0; k < k_spread; ++k) faults.emplace_back(-1, calls * k / k_spread + k);
  for (std::size_t f = 0; f < k_functions; ++f)
    if (calls_of[f] > 0) faults.emplace_back(static_cast<int>(f), calls_of[f] / 2);
  const int k_faults = static_cast<int>(faults.size());
  int thrown = 0, resumed = 0;
  for (int k = 0; k < k_faults; ++k) {
    MemoryVfs vfs;
    const bool lost = k % 2 != 0;
    const int function = faults[static_cast<std::size_t>(k)].first, due = faults[static_cast<std::size_t>(k)].second;
    fault() = {0, due, lost ? VK_ERROR_DEVICE_LOST : VK_ERROR_OUT_OF_DEVICE_MEMORY, nullptr, function};
    CAPTURE(function < 0 ? "any" : k_names[function]);
    CAPTURE(due);
    try {
      train(vfs, false);
    } catch (const Error& error) {
      CHECK(exit_code(error.kind()) == (lost ? 5 : 7));
      ++thrown;
    }
    fault() = {};
    const bool has_checkpoint = vfs.exists("run/last.safetensors");
    train(vfs, has_checkpoint);
    resumed += has_checkpoint;
    CHECK(last_checkpoint(vfs) == last_checkpoint(whole));
  }
  std::printf("%d of %d calls of a training failed, one of each of %d functions: %d errors, %d runs resumed from a "
              "checkpoint\n", k_faults, calls, k_faults - k_spread, thrown, resumed);
  CHECK(thrown > k_faults / 2);
  CHECK(resumed > 0);
  set_tamper(nullptr);
}

}  // namespace test_vulkan_faults
