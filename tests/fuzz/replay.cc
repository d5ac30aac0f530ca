// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target over every file of the folders given: the committed corpus as an ordinary test.
// usage: replay TARGET FOLDER...
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "tests/fuzz/target.h"
#include "unroll/support/error.h"
#include "unroll/support/vfs.h"

int main(int argc, char** argv) try {
  std::vector<std::filesystem::path> paths;
  const auto target = unroll::testing::targets().find(argc > 1 ? argv[1] : "");
  for (int i = 2; i < argc; ++i)
    for (const auto& item : std::filesystem::directory_iterator(argv[i])) paths.push_back(item.path());
  std::sort(paths.begin(), paths.end());
  if (target == unroll::testing::targets().end() || paths.empty()) {
    std::fprintf(stderr, "usage: %s TARGET FOLDER...: at least one file to replay is needed\n", argv[0]);
    return 2;
  }
  for (const auto& path : paths) {
    std::printf("%s\n", path.c_str());
    std::fflush(stdout);  // the last line printed names the file that crashed
    const unroll::Bytes bytes = unroll::disk().read(path.string(), std::size_t{1} << 30);
    target->second(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  }
  std::printf("replayed %zu files\n", paths.size());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
