// SPDX-License-Identifier: Apache-2.0
// The local file system: POSIX calls that continue after interruptions and short transfers, and atomic file
// replacement.
#include "unroll/support/vfs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <system_error>

#include "core/support/files/file_errors.h"
#include "core/support/files/temporary_files.h"

namespace unroll {

namespace {

// Repeats a call that a signal interrupted.
template <class F>
auto uninterrupted(F call) {
  decltype(call()) result;
  do result = call();
  while (result < 0 && errno == EINTR);
  return result;
}

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags)
      : fd_(uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); })) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  bool ok() const { return fd_ >= 0; }
  int get() const { return fd_; }
  // Closes also after a failure. Linux frees the descriptor in every case, so a retry is wrong.
  int close() {
    const int result = ::close(fd_);
    fd_ = -1;
    return result < 0 && errno == EINTR ? 0 : result;
  }

 private:
  int fd_;
};

constexpr std::size_t k_chunk_bytes = std::size_t{1} << 30;  // a single call moves at most about 2^31 bytes

void read_all(int fd, const std::string& path, Bytes& to) {
  std::size_t done = 0;
  while (done < to.size()) {
    const auto n =
        uninterrupted([&] { return ::read(fd, to.data() + done, std::min(to.size() - done, k_chunk_bytes)); });
    if (n < 0) throw file_error(ErrorKind::input_file, path, "read", errno);
    if (n == 0)
      throw Error(
          ErrorKind::input_file, path,
          "was truncated while it was read: " + std::to_string(done) + " of " + std::to_string(to.size()) + " bytes",
          "Wait until its writer has finished, then try again");
    done += static_cast<std::size_t>(n);
  }
}

class DiskFile : public Vfs::File {
 public:
  DiskFile(const std::string& path, int flags) : path_(path), file_(path, O_WRONLY | O_CREAT | flags) {
    if (!file_.ok()) throw file_error(ErrorKind::storage, path, "open for writing", errno);
  }
  void write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const auto n =
          uninterrupted([&] { return ::write(file_.get(), bytes.data(), std::min(bytes.size(), k_chunk_bytes)); });
      if (n <= 0) throw file_error(ErrorKind::storage, path_, "write", n < 0 ? errno : EIO);
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
  }
  void sync() override {
    if (uninterrupted([&] { return ::fsync(file_.get()); }) < 0)
      throw file_error(ErrorKind::storage, path_, "sync", errno);
  }
  void close() override {
    if (file_.ok() && file_.close() < 0) throw file_error(ErrorKind::storage, path_, "close", errno);
  }

 private:
  std::string path_;
  Descriptor file_;
};

// Returns the size of an open regular file.
std::size_t size_of(const Descriptor& file, const std::string& path) {
  if (!file.ok()) throw file_error(ErrorKind::input_file, path, "open", errno);
  struct stat status;
  if (::fstat(file.get(), &status) < 0) throw file_error(ErrorKind::input_file, path, "inspect", errno);
  if (!S_ISREG(status.st_mode))
    throw Error(ErrorKind::input_file, path,
                S_ISDIR(status.st_mode) ? "is a folder, not a file" : "is not a regular file", "Name a regular file");
  return static_cast<std::size_t>(status.st_size);
}
// Without O_NONBLOCK, opening a pipe would wait for its other end.
constexpr int k_read_flags = O_RDONLY | O_NONBLOCK;

class DiskReader : public Vfs::Reader {
 public:
  explicit DiskReader(const std::string& path)
      : path_(path), file_(path, k_read_flags), size_(size_of(file_, path)), written_(last_write()) {}
  std::size_t size() const override { return size_; }
  void read_at(std::size_t offset, std::span<std::byte> to) const override {
    for (std::size_t done = 0; done < to.size();) {
      const auto n = uninterrupted([&] {
        return ::pread(file_.get(), to.data() + done, std::min(to.size() - done, k_chunk_bytes),
                       static_cast<off_t>(offset + done));
      });
      if (n < 0) throw file_error(ErrorKind::input_file, path_, "read", errno);
      if (n == 0)
        throw Error(
            ErrorKind::input_file, path_,
            "ends at byte " + std::to_string(offset + done) + " where it had " + std::to_string(size_) + " bytes",
            "Do not modify the file while it is in use");
      done += static_cast<std::size_t>(n);
    }
    const std::pair<std::size_t, timespec> now = last_write();
    if (now.first != written_.first || now.second.tv_sec != written_.second.tv_sec ||
        now.second.tv_nsec != written_.second.tv_nsec)
      throw Error(ErrorKind::input_file, path_, "was modified while it was in use",
                  "Do not modify the file while it is in use");
  }

 private:
  // Size and time. A file that replaced this one has another descriptor; this one stays readable.
  std::pair<std::size_t, timespec> last_write() const {
    struct stat status {};
    if (::fstat(file_.get(), &status) < 0) throw file_error(ErrorKind::input_file, path_, "read", errno);
    return {static_cast<std::size_t>(status.st_size), status.st_mtim};
  }

  std::string path_;
  Descriptor file_;
  std::size_t size_;
  std::pair<std::size_t, timespec> written_;
};

class Disk : public Vfs {
 public:
  Bytes read(const std::string& path, std::size_t max_bytes) override {
    const Descriptor file(path, k_read_flags);
    const std::size_t size = size_of(file, path);
    if (size > max_bytes)
      throw Error(ErrorKind::input_file, path,
                  "has " + std::to_string(size) + " bytes; at most " + std::to_string(max_bytes) + " are read",
                  "Name a smaller file");
    Bytes bytes(size);
    read_all(file.get(), path, bytes);
    return bytes;
  }

  std::unique_ptr<Reader> open(const std::string& path) override { return std::make_unique<DiskReader>(path); }

  bool exists(const std::string& path) override {
    struct stat status;
    if (::stat(path.c_str(), &status) == 0) return true;
    if (errno == ENOENT || errno == ENOTDIR) return false;
    throw file_error(ErrorKind::input_file, path, "inspect", errno);
  }

  void make_folder(const std::string& path) override {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error) throw file_error(ErrorKind::storage, path, "make the folder", error.value());
  }

  std::unique_ptr<File> create(const std::string& path) override { return std::make_unique<DiskFile>(path, O_TRUNC); }
  std::unique_ptr<File> append(const std::string& path) override { return std::make_unique<DiskFile>(path, O_APPEND); }

  void truncate(const std::string& path, std::size_t bytes) override {
    if (uninterrupted([&] { return ::truncate(path.c_str(), static_cast<off_t>(bytes)); }) < 0)
      throw file_error(ErrorKind::storage, path, "cut to " + std::to_string(bytes) + " bytes", errno);
  }

  void rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) < 0)
      throw file_error(ErrorKind::storage, to, "rename '" + from + "' to it", errno);
  }

  void sync_folder(const std::string& path) override {
    const std::string folder = path.empty() ? "." : path;
    const Descriptor file(folder, O_RDONLY | O_DIRECTORY);
    if (!file.ok()) throw file_error(ErrorKind::storage, folder, "open the folder", errno);
    // EINVAL: this file system cannot sync a folder.
    if (uninterrupted([&] { return ::fsync(file.get()); }) < 0 && errno != EINVAL)
      throw file_error(ErrorKind::storage, folder, "sync the folder", errno);
  }

  void remove(const std::string& path) override {
    if (::unlink(path.c_str()) < 0 && errno != ENOENT) throw file_error(ErrorKind::storage, path, "remove", errno);
  }

  std::vector<std::string> list(const std::string& folder) override {
    std::vector<std::string> names;
    std::error_code error;
    for (std::filesystem::directory_iterator at(folder.empty() ? "." : folder, error), end; !error && at != end;
         at.increment(error))
      names.push_back(at->path().filename().string());
    if (error && error.value() != ENOENT && error.value() != ENOTDIR)
      throw file_error(ErrorKind::input_file, folder, "list the folder", error.value());
    return names;
  }

  void link(const std::string& from, const std::string& to) override {
    if (::link(from.c_str(), to.c_str()) == 0) return;
    // Some file systems do not support links.
    std::error_code error;
    std::filesystem::copy_file(from, to, error);
    if (error) throw file_error(ErrorKind::storage, to, "copy '" + from + "' to it", error.value());
  }

  bool is_device_or_pipe(const std::string& path) override {
    struct stat status;
    return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
  }
};

class WholeFile : public Vfs::Reader {
 public:
  WholeFile(std::string path, Bytes bytes) : path_(std::move(path)), bytes_(std::move(bytes)) {}
  std::size_t size() const override { return bytes_.size(); }
  void read_at(std::size_t offset, std::span<std::byte> to) const override {
    if (offset > bytes_.size() || to.size() > bytes_.size() - offset)
      throw Error(ErrorKind::input_file, path_, "ends at byte " + std::to_string(bytes_.size()));
    std::copy_n(bytes_.data() + offset, to.size(), to.begin());
  }

 private:
  std::string path_;
  Bytes bytes_;
};

}  // namespace

std::unique_ptr<Vfs::Reader> Vfs::open(const std::string& path) {
  return std::make_unique<WholeFile>(path, read(path, std::numeric_limits<std::size_t>::max()));
}

Vfs& disk() {
  static Disk the_disk;
  return the_disk;
}

void write_atomically(Vfs& vfs, const std::string& path, std::span<const std::span<const std::byte>> parts) {
  if (vfs.is_device_or_pipe(path)) {
    const std::unique_ptr<Vfs::File> device = vfs.append(path);
    for (const auto part : parts) device->write(part);
    return device->close();
  }
  // A fixed name: a kill leaves at most one stale file, which the next write replaces.
  const std::string temporary = temporary_path(path);
  const TemporaryFile named(temporary);
  const std::unique_ptr<Vfs::File> file = vfs.create(temporary);
  try {
    for (const auto part : parts) file->write(part);
    file->sync();
    file->close();
    vfs.rename(temporary, path);
  } catch (...) {
    try {
      vfs.remove(temporary);
    } catch (const Error&) {  // the first error is reported
    }
    throw;
  }
  vfs.sync_folder(std::filesystem::path(path).parent_path().string());
}

}  // namespace unroll
