// SPDX-License-Identifier: Apache-2.0
// The doctest runner of programs that test one backend: the first argument is its name, doctest's arguments follow.
// Without a name all backends are tested in turn.
#include <doctest/doctest.h>

#include <cstdio>

#ifdef UNROLL_HAS_VULKAN
#include "backends/vulkan/device/device.h"
#endif
#include "tests/support/backends.h"
#include "unroll/support/error.h"

namespace {

// Messages of the validation layer, also those about what was never destroyed.
int messages() {
#ifdef UNROLL_HAS_VULKAN
  return unroll::vulkan::validation_messages();
#else
  return 0;
#endif
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int k_skipped = 77;
  if (argc > 1 && argv[1][0] != '-') {
    const std::string name = argv[1];
    try {
      if (name != unroll::testing::k_late) unroll::backend_options(name);
    } catch (const unroll::Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
      return unroll::exit_code(error.kind());
    }
    try {
      unroll::testing::open_tested(name);
    } catch (const unroll::Error& error) {
      std::printf("skipped: %s\n", error.what());
      return k_skipped;
    }
    unroll::testing::test_only(name);
    std::printf("backend: %s\n", name.c_str());
    --argc, ++argv;
  }
  const int failed = doctest::Context(argc, argv).run();
  if (messages() > 0) std::printf("validation: %d messages\n", messages());
  return failed != 0 || messages() > 0 ? 1 : 0;
}
