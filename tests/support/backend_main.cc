// SPDX-License-Identifier: Apache-2.0
// The doctest runner of programs that test one backend: the first argument is its name, doctest's arguments follow.
// Without a name all backends are tested in turn.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>

#include "tests/support/backends.h"
#include "unroll/error.h"

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
  return doctest::Context(argc, argv).run();
}
