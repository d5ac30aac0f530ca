// SPDX-License-Identifier: Apache-2.0
// The disk layer: what it reads and refuses, and that replacing a file never loses the old one.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>

#include "core/support/files/paths.h"
#include "core/support/files/temporary_files.h"
#include "tests/support/failing_vfs.h"
#include "tests/support/memory_vfs.h"
#include "tests/support/temp_folder.h"
#include "unroll/support/error.h"
#include "unroll/support/vfs.h"

namespace unroll {
namespace {

constexpr std::size_t k_any_size = std::size_t{1} << 30;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string content(Vfs& vfs, const std::string& path) {
  const Bytes bytes = vfs.read(path, k_any_size);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void replace(Vfs& vfs, const std::string& path, const std::string& text) {
  const std::string first = text.substr(0, text.size() / 2), second = text.substr(text.size() / 2);
  const std::span<const std::byte> parts[] = {bytes_of(first), bytes_of(second)};
  write_atomically(vfs, path, parts);
}

struct Refusal {
  ErrorKind kind;
  std::string text;
};
Refusal refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    CHECK_FALSE(error.next().empty());
    return {error.kind(), error.what()};
  }
  FAIL("nothing was refused");
  return {};
}
void check_refused(ErrorKind kind, const std::string& part, const std::function<void()>& action) {
  const Refusal r = refusal(action);
  CHECK(r.kind == kind);
  CHECK_MESSAGE(r.text.find(part) != std::string::npos, r.text);
}

TEST_CASE("what is at a path is told, or the error has the kind that was asked for") {
  const TempFolder folder;
  replace(disk(), folder / "f", "x");
  std::filesystem::create_symlink(folder / "loop", folder / "loop");
  CHECK(kind_of_path(folder / "f") == PathKind::file);
  CHECK(kind_of_path(folder / "") == PathKind::folder);
  CHECK(kind_of_path("/dev/null") == PathKind::other);
  CHECK(kind_of_path(folder / "none") == PathKind::none);
  CHECK(size_of_file(folder / "f") == std::size_t{1});
  CHECK_FALSE(size_of_file(folder / "none"));
  const std::pair<std::string, std::string> wrong[] = {
      {folder / std::string(256, 'n'), "File name too long"},
      {folder / "loop", "symbolic links form a loop"},
      {folder / "f/g", "a part of it is a file where a folder must be"}};
  for (const auto& [path, what] : wrong) {
    check_refused(ErrorKind::input_file, what, [&, p = path] { kind_of_path(p); });
    check_refused(ErrorKind::storage, what, [&, p = path] { kind_of_path(p, ErrorKind::storage); });
    check_refused(ErrorKind::input_file, what, [&, p = path] { size_of_file(p); });
  }
  check_refused(ErrorKind::input_file, "form a loop", [&] { (void)disk().exists(folder / "loop"); });
  CHECK_FALSE(disk().exists(folder / "f/g"));  // whether a path is a folder that holds g
  check_refused(ErrorKind::input_file, "form a loop", [&] { (void)disk().list(folder / "loop"); });
}

// Ends as a signal would, right before the file gets its name.
class SignaledVfs : public FailingVfs {
 public:
  SignaledVfs() : FailingVfs(disk(), /*fail_at=*/1 << 30, Fault::dead) {}
  void rename(const std::string& from, const std::string& to) override {
    CHECK(disk().exists(from));
    remove_temporary_files();
    CHECK_FALSE(disk().exists(from));
    FailingVfs::rename(from, to);
  }
};

TEST_CASE("a signal handler removes the files that have temporary names, and no other one") {
  const TempFolder folder;
  replace(disk(), folder / "f", "old");
  SignaledVfs vfs;
  CHECK_THROWS_AS(replace(vfs, folder / "f", "new"), Error);
  remove_temporary_files();
  CHECK(content(disk(), folder / "f") == "old");
  const std::string longest(255, 'n');
  replace(disk(), folder / longest, "x");  // a temporary name is no longer
  CHECK(content(disk(), folder / longest) == "x");
}

TEST_CASE("a file reads back as it was written, also empty") {
  const TempFolder folder;
  for (const std::string text : {"", "x", "two parts"}) {
    replace(disk(), folder / "f", text);
    CHECK(content(disk(), folder / "f") == text);
  }
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);  // no temporary is left
}

TEST_CASE("append adds, truncate cuts, remove removes and forgives an absent file") {
  const TempFolder folder;
  const std::string path = folder / "log";
  for (const std::string line : {"one\n", "two\n"}) {
    const auto file = disk().append(path);
    file->write(bytes_of(line));
    file->sync();
    file->close();
  }
  CHECK(content(disk(), path) == "one\ntwo\n");
  disk().truncate(path, 4);
  CHECK(content(disk(), path) == "one\n");
  CHECK(disk().exists(path));
  disk().remove(path);
  disk().remove(path);
  CHECK_FALSE(disk().exists(path));
}

TEST_CASE("folders are made with their parents, again without complaint") {
  const TempFolder folder;
  disk().make_folder(folder / "a/b/c");
  disk().make_folder(folder / "a/b/c");
  CHECK(std::filesystem::is_directory(folder / "a/b/c"));
  replace(disk(), folder / "f", "x");
  check_refused(ErrorKind::storage, "f/g", [&] { disk().make_folder(folder / "f/g"); });
}

TEST_CASE("reading refuses what is not a regular file of the right size") {
  const TempFolder folder;
  replace(disk(), folder / "f", "12345");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(disk().read(folder / "f", 5).size() == 5);
  check_refused(ErrorKind::input_file, "has 5 bytes; at most 4", [&] { disk().read(folder / "f", 4); });
  check_refused(ErrorKind::input_file, "No such file", [&] { disk().read(folder / "missing", 4); });
  check_refused(ErrorKind::input_file, "is a folder", [&] { disk().read(folder.path(), 4); });
  check_refused(ErrorKind::input_file, "not a regular file", [&] { disk().read("/dev/zero", 4); });
  check_refused(ErrorKind::input_file, "not a regular file", [&] { disk().read(folder / "pipe", 4); });
}

TEST_CASE("a device stays a device, also behind a link") {
  const TempFolder folder;
  const std::string link = folder.path() + "/null";
  std::filesystem::create_symlink("/dev/null", link);
  replace(disk(), link, "gone");
  CHECK(std::filesystem::is_character_file(link));
  CHECK(std::filesystem::is_symlink(link));
}

TEST_CASE("a file in memory that is called like a device is a file") {
  MemoryVfs memory;
  replace(memory, "/dev/null", "first");
  replace(memory, "/dev/null", "second");
  CHECK(content(memory, "/dev/null") == "second");
}

TEST_CASE("writing names the path and the reason") {
  const TempFolder folder;
  const std::string missing = folder / "missing/f";
  check_refused(ErrorKind::storage, missing, [&] { replace(disk(), missing, "x"); });
  check_refused(ErrorKind::storage, "No such file", [&] { disk().sync_folder(folder / "missing"); });
  check_refused(ErrorKind::storage, "No such file", [&] { disk().truncate(missing, 0); });
  check_refused(ErrorKind::storage, "folder", [&] { disk().create(folder.path()); });
  disk().make_folder(folder / "sub");
  check_refused(ErrorKind::storage, "sub", [&] { replace(disk(), folder / "sub", "a file over a folder"); });
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("a full disk is reported as such") {
  if (!disk().exists("/dev/full")) return;
  const auto file = disk().append("/dev/full");
  check_refused(ErrorKind::storage, "No space left", [&] { file->write(bytes_of("x")); });
}

TEST_CASE("a write that the system cuts short is continued and then refused, and the old file stays") {
  const TempFolder folder;
  replace(disk(), folder / "f", "old");
  const std::string large(100'000, 'x');
  const std::span<const std::byte> parts[] = {bytes_of(large)};
  rlimit limit;
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &limit) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{5000, limit.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const Refusal r = refusal([&] { write_atomically(disk(), folder / "f", parts); });
  ::setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, handler);
  CHECK(r.kind == ErrorKind::storage);
  CHECK_MESSAGE(r.text.find("File too large") != std::string::npos, r.text);
  CHECK(content(disk(), folder / "f") == "old");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("whichever operation fails, the old file or the whole new one is there") {
  const TempFolder folder;
  for (const Fault fault : k_faults) {
    int n_failed = 0;
    for (int i = 0;; ++i) {
      replace(disk(), folder / "f", "old");
      FailingVfs failing(disk(), i, fault);
      bool threw = false;
      try {
        replace(failing, folder / "f", "new content");
      } catch (const Error& error) {
        threw = true;
        CHECK(error.kind() == ErrorKind::storage);
      }
      CHECK(threw == failing.fired());
      const std::string now = content(disk(), folder / "f");
      CAPTURE(failing.failed());
      CHECK(now == (threw && failing.failed() != "sync the folder" ? "old" : "new content"));
      const auto n_files = std::distance(std::filesystem::directory_iterator(folder.path()), {});
      if (fault != Fault::dead) CHECK(n_files == 1);  // the temporary is cleaned up
      if (!threw) break;
      ++n_failed;
    }
    CHECK(n_failed == 7);  // create, two writes, sync, close, rename, sync of the folder
  }
}

TEST_CASE("after a power cut at any operation the old file or the whole new one is there") {
  for (int i = 0;; ++i) {
    MemoryVfs memory;
    replace(memory, "folder/f", "old");
    FailingVfs failing(memory, i, Fault::dead);
    bool threw = false;
    try {
      replace(failing, "folder/f", "new content");
    } catch (const Error&) {
      threw = true;
    }
    memory.cut_power();
    CAPTURE(i);
    CHECK(content(memory, "folder/f") == (threw ? "old" : "new content"));
    if (!threw) break;
  }
}

}  // namespace
}  // namespace unroll
