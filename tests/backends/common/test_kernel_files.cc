// SPDX-License-Identifier: Apache-2.0
// Kernels kept in files: what was written is read again, and a file that was changed in any way never gives a kernel.
#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "backends/common/kernel_files.h"
#include "tests/support/setting.h"

using namespace unroll::common;
namespace fs = std::filesystem;

namespace {

const std::string k_needs("device, driver\n\0source", 22), k_kernel("\x7f" "ELF\0\1kernel\n", 13);

struct Folder {
  Folder() : path(fs::temp_directory_path() / ("unroll_kernel_files_" + std::to_string(getpid()))) {}
  ~Folder() { fs::remove_all(path); }
  const fs::path path;
};

std::string contents(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}
void write(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

// The file that holds the kernel.
std::string written() {
  const Folder folder;
  const std::string path = kernel_path(folder.path, k_needs, ".bin");
  write_kernel(path, k_needs, k_kernel);
  return contents(path);
}

void check_damaged(const std::string& file) {
  const KeptKernel kept = parse_kernel(file, k_needs);
  CHECK(kept.bytes.empty());
  CHECK_FALSE(kept.damage.empty());
}

}  // namespace

TEST_CASE("a kernel is read as it was written, and nothing else is left in the folder") {
  const Folder folder;
  const std::string path = kernel_path(folder.path / "deep", k_needs, ".bin");
  CHECK(read_kernel(path, k_needs).bytes.empty());
  CHECK(read_kernel(path, k_needs).damage.empty());
  write_kernel(path, k_needs, k_kernel);
  write_kernel(path, k_needs, k_kernel);
  CHECK(read_kernel(path, k_needs).bytes == k_kernel);
  CHECK(std::distance(fs::directory_iterator(folder.path / "deep"), {}) == 1);
}

TEST_CASE("a kernel of something else is not read, and is no damage") {
  const KeptKernel kept = parse_kernel(written(), k_needs + "!");
  CHECK(kept.bytes.empty());
  CHECK(kept.damage.empty());
}

TEST_CASE("a changed byte, a cut and appended bytes are damage") {
  const std::string good = written();
  REQUIRE(parse_kernel(good, k_needs).bytes == k_kernel);
  for (std::size_t at = 0; at < good.size(); ++at) {
    CAPTURE(at);
    for (int change = 1; change < 256; ++change) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ change);
      check_damaged(bad);
    }
    check_damaged(good.substr(0, at));
  }
  check_damaged(good + '\0');
  check_damaged(good + good);
}

TEST_CASE("random mutations of a file never give another kernel") {
  const std::string good = written();
  std::mt19937_64 random(unroll::testing::setting("UNROLL_SEED", 1));
  const std::uint64_t n = unroll::testing::setting("UNROLL_MUTATIONS", 100'000);
  for (std::uint64_t k = 0; k < n; ++k) {
    std::string bad = good;
    for (auto changes = random() % 8 + 1; changes > 0; --changes) {
      const std::size_t at = bad.empty() ? 0 : random() % bad.size(), size = random() % 24;
      switch (random() % 4) {
        case 0: if (!bad.empty()) bad[at] = static_cast<char>(random()); break;
        case 1: bad.erase(at, size); break;
        case 2: bad.insert(at, good.substr(random() % good.size(), size)); break;
        default: bad.insert(at, size, static_cast<char>(random()));
      }
    }
    if (bad != good) CHECK(parse_kernel(bad, k_needs).bytes.empty());
  }
}

TEST_CASE("what is no file of a kernel is ignored with the reason") {
  const std::string good = written();
  const Folder folder;
  fs::create_directories(folder.path / "folder");
  CHECK(read_kernel(folder.path / "folder", k_needs).damage == "it is no regular file");
  REQUIRE(mkfifo((folder.path / "pipe").c_str(), 0600) == 0);  // opening it would wait for a writer
  CHECK(read_kernel(folder.path / "pipe", k_needs).damage == "it is no regular file");
  write(folder.path / "empty", "");
  CHECK(read_kernel(folder.path / "empty", k_needs).damage == "it has no head of a kernel");
  write(folder.path / "large", good);
  fs::resize_file(folder.path / "large", std::uintmax_t{1} << 40);  // without blocks on disk
  CHECK(read_kernel(folder.path / "large", k_needs).damage == "it is too large for a kernel");
}

TEST_CASE("a folder that cannot be written is none") {
  const Folder folder;
  fs::create_directories(folder.path);
  write(folder.path / "file", "");
  const std::string path = kernel_path(folder.path / "file", k_needs, ".bin");
  write_kernel(path, k_needs, k_kernel);
  CHECK(read_kernel(path, k_needs).bytes.empty());
}

TEST_CASE("processes that write the same kernel, and are killed, leave a whole file") {
  const Folder folder;
  const std::string path = kernel_path(folder.path, k_needs, ".bin"), large(1 << 20, 'k');
  constexpr int k_processes = 4, k_rounds = 8;
  for (int round = 0; round < k_rounds; ++round) {
    std::vector<pid_t> writers;
    for (int k = 0; k < k_processes; ++k) {
      const pid_t child = fork();
      REQUIRE(child >= 0);
      while (child == 0) write_kernel(path, k_needs, large);
      writers.push_back(child);
    }
    // Readers find the kernel or none at any time, once it is there never damage.
    for (int k = 0; k < 20; ++k) {
      const KeptKernel kept = read_kernel(path, k_needs);
      CHECK(kept.damage == "");
      const bool is_whole = kept.bytes.empty() || kept.bytes == large;
      CHECK(is_whole);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    for (const pid_t writer : writers) {
      kill(writer, SIGKILL);
      waitpid(writer, nullptr, 0);
    }
    CHECK(read_kernel(path, k_needs).damage == "");
  }
  write_kernel(path, k_needs, large);
  const bool is_whole = read_kernel(path, k_needs).bytes == large;
  CHECK(is_whole);
}

TEST_CASE("of processes that keep different bytes the first decides, also where some are killed") {
  const Folder folder;
  const auto is_valid = [](const std::string& bytes) { return bytes.starts_with("choice of "); };
  constexpr int k_processes = 4, k_rounds = 12;
  for (int round = 0; round < k_rounds; ++round) {
    const std::string needs = k_needs + std::to_string(round), path = kernel_path(folder.path, needs, ".bin");
    if (round % 2 == 1) write_kernel(path, needs, "damage");
    std::vector<pid_t> writers;
    for (int k = 0; k < k_processes; ++k) {
      const pid_t child = fork();
      REQUIRE(child >= 0);
      if (child == 0) {
        const std::string own = "choice of " + std::to_string(k);
        const std::string kept = keep_first(path, needs, own, is_valid);
        for (int again = 0; again < 50; ++again)
          if (keep_first(path, needs, own, is_valid) != kept) _exit(1);
        _exit(is_valid(kept) ? 0 : 2);
      }
      writers.push_back(child);
    }
    if (round % 3 == 0) kill(writers.front(), SIGKILL);
    for (const pid_t writer : writers) {
      int status = 0;
      waitpid(writer, &status, 0);
      const bool is_killed = WIFSIGNALED(status) && writer == writers.front();
      CHECK((is_killed || status == 0));
    }
    CHECK(is_valid(read_kernel(path, needs).bytes));
  }
}

TEST_CASE("nothing is kept where nothing can be written, and a stopped process does not hold up others for long") {
  const Folder folder;
  fs::create_directories(folder.path);
  write(folder.path / "file", "");
  const auto all = [](const std::string&) { return true; };
  CHECK(keep_first(kernel_path(folder.path / "file", k_needs, ".bin"), k_needs, "a", all).empty());
  const int held = open((folder.path / "lock").c_str(), O_RDWR | O_CREAT, 0600);
  REQUIRE(flock(held, LOCK_EX) == 0);
  const auto begin = std::chrono::steady_clock::now();
  CHECK(keep_first(kernel_path(folder.path, k_needs, ".bin"), k_needs, "a", all) == "a");
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
  close(held);
}

TEST_CASE("a folder that is too large loses the kernels that were used longest ago, and nothing else") {
  const Folder folder;
  const auto now = fs::file_time_type::clock::now();
  std::vector<std::string> paths;
  for (int k = 0; k < 6; ++k) {
    const std::string needs = k_needs + std::to_string(k);
    paths.push_back(kernel_path(folder.path, needs, ".bin"));
    write_kernel(paths.back(), needs, k_kernel);
    fs::last_write_time(paths.back(), now - std::chrono::hours(100 - k));
  }
  const std::string half_written = paths[0] + ".1234.1";  // of a process that was killed
  write(half_written, std::string(100, '\0'));
  fs::last_write_time(half_written, now - std::chrono::hours(200));
  write(folder.path / "notes.txt", std::string(1000, '\0'));
  CHECK(read_kernel(paths[0], k_needs + "0").bytes == k_kernel);  // used now
  trim_kernels(folder.path, 3 * fs::file_size(paths[0]));
  CHECK(fs::exists(paths[0]));
  for (const int k : {1, 2, 3}) CHECK_FALSE(fs::exists(paths[static_cast<std::size_t>(k)]));
  for (const std::size_t k : {4, 5}) CHECK(fs::exists(paths[k]));
  CHECK_FALSE(fs::exists(half_written));
  CHECK(fs::exists(folder.path / "notes.txt"));
  trim_kernels(folder.path / "none", 0);
}
