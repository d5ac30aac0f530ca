// SPDX-License-Identifier: Apache-2.0
#include "backends/common/kernel_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "core/support/fnv.h"

namespace unroll::common {

namespace {

// A file has a header of fixed size, the kernel's dependencies as text, then the kernel. The header has the magic text,
// the hash of all bytes after it, and the size of the dependencies, which the hash covers too.
constexpr std::string_view k_mark = "unroll kernel 1 ";
constexpr std::size_t k_number = 16, k_head = k_mark.size() + 2 * (k_number + 1);
constexpr std::uintmax_t k_largest_file = 64u << 20;
constexpr std::uintmax_t k_trimmed_every = 16u << 20;  // bytes written by this process

// FNV hash, 16 digits. A single changed byte always changes it.
std::string fnv_text(std::string_view bytes) {
  char text[k_number + 1];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(fnv(bytes)));
  return text;
}
std::string size_text(std::size_t size) {
  char text[k_number + 1];
  std::snprintf(text, sizeof text, "%016zx", size);
  return text;
}

std::string head_of(std::string_view rest, std::size_t depends_on) {
  const std::string size = size_text(depends_on) + '\n';
  return std::string(k_mark) + fnv_text(size + std::string(rest)) + ' ' + size;
}

// Matches also files that a killed process left half written.
bool is_name_of_kernel(const std::string& name) {
  return name.size() > k_number && name[k_number] == '.' &&
         name.find_first_not_of("0123456789abcdef") == k_number;
}

// Trims a folder at the first file that a process writes there, then every k_trimmed_every bytes.
void trim_at_times(const std::string& folder, std::uintmax_t written) {
  static std::mutex mutex;
  static std::map<std::string, std::uintmax_t> due;  // [folder] bytes until the next trim
  {
    const std::lock_guard lock(mutex);
    std::uintmax_t& left = due[folder];
    if (left > written) {
      left -= written;
      return;
    }
    left = k_trimmed_every;
  }
  trim_kernels(folder, k_largest_folder);
}

// Locks a folder until the object is destroyed or the process ends. Others wait at most k_longest_wait.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder)
      : file_(::open((folder / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    constexpr std::chrono::milliseconds k_longest_wait(2000), k_nap(2);
    const auto end = std::chrono::steady_clock::now() + k_longest_wait;
    while (file_ >= 0 && ::flock(file_, LOCK_EX | LOCK_NB) != 0 && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(k_nap);
  }
  ~FolderLock() {
    if (file_ >= 0) ::close(file_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int file_;
};

}  // namespace

std::string kernel_path(const std::string& folder, std::string_view depends_on, std::string_view ending) {
  return folder + "/" + fnv_text(depends_on) + std::string(ending);
}

KeptKernel parse_kernel(std::string_view file, std::string_view depends_on) {
  if (file.size() < k_head || !file.starts_with(k_mark)) return {{}, "it has no head of a kernel"};
  const std::string_view rest = file.substr(k_head);
  const char* const digits = file.data() + k_head - 1 - k_number;
  std::size_t size = 0;
  const auto [end, error] = std::from_chars(digits, digits + k_number, size, 16);
  if (error != std::errc() || end != digits + k_number || size > rest.size() ||
      file.substr(0, k_head) != head_of(rest, size))
    return {{}, "its bytes do not have the hash in its head"};
  if (rest.substr(0, size) != depends_on) return {};  // another kernel with the same hash
  return {std::string(rest.substr(size)), {}};
}

KeptKernel read_kernel(const std::string& path, std::string_view depends_on) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) return {};
  if (!std::filesystem::is_regular_file(status)) return {{}, "it is no regular file"};
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error || size > k_largest_file) return {{}, "it is too large for a kernel"};
  std::string file(size, '\0');
  std::ifstream stream(path, std::ios::binary);
  if (!stream.read(file.data(), static_cast<std::streamsize>(size))) return {{}, "it cannot be read"};
  KeptKernel kept = parse_kernel(file, depends_on);
  if (!kept.bytes.empty()) std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now(), error);
  return kept;
}

void write_kernel(const std::string& path, std::string_view depends_on, std::string_view bytes) {
  const std::string rest = std::string(depends_on) + std::string(bytes);
  if (rest.size() + k_head > k_largest_file) return;
  static std::atomic<int> number{0};  // threads may write the same file too
  const std::string own = path + "." + std::to_string(getpid()) + "." + std::to_string(++number);
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::filesystem::create_directories(folder, ignored);
  bool written = false;
  {
    std::ofstream stream(own, std::ios::binary);
    stream << head_of(rest, depends_on.size()) << rest;
    written = static_cast<bool>(stream.flush());
  }
  if (written) std::filesystem::rename(own, path, ignored);
  else std::filesystem::remove(own, ignored);
  if (written) trim_at_times(folder.string(), rest.size());
}

std::string keep_first(const std::string& path, std::string_view depends_on, std::string_view bytes,
                       const std::function<bool(const std::string& bytes)>& is_valid) {
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::filesystem::create_directories(folder, ignored);
  const FolderLock lock(folder);
  std::string kept = read_kernel(path, depends_on).bytes;
  if (!kept.empty() && is_valid(kept)) return kept;
  write_kernel(path, depends_on, bytes);
  kept = read_kernel(path, depends_on).bytes;
  return !kept.empty() && is_valid(kept) ? kept : std::string();
}

void trim_kernels(const std::string& folder, std::uintmax_t most_bytes) {
  struct File {
    std::filesystem::file_time_type used;
    std::filesystem::path path;
    std::uintmax_t bytes;
  };
  std::vector<File> files;
  std::uintmax_t total = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;  // another process may trim at the same time
    const auto& path = at->path();
    if (!is_name_of_kernel(path.filename().string()) || !at->is_regular_file(gone)) continue;
    const File file{at->last_write_time(gone), path, at->file_size(gone)};
    if (gone) continue;
    files.push_back(file);
    total += file.bytes;
  }
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.used < b.used; });
  for (const File& file : files) {
    if (total <= most_bytes) return;
    std::filesystem::remove(file.path, error);
    total -= file.bytes;
  }
}

}  // namespace unroll::common
