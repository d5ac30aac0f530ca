// SPDX-License-Identifier: Apache-2.0
// External data must be in the model's folder: each part of the path is opened without following links (onnx
// docs/ExternalDataSecurity.md; CVE-2022-25882, CVE-2024-27318, CVE-2026-34447 were escapes).
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "frontends/onnx/model.h"
#include "unroll/support/error.h"

namespace unroll::onnx {
namespace {

[[noreturn]] void refuse(const std::string& location, const std::string& what) {
  throw Error(ErrorKind::input_file, "external data '" + location + "'", what,
              "External data must be a regular file in the model's folder");
}

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  File& operator=(File&& other) noexcept { return std::swap(fd_, other.fd_), *this; }
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

File open_below(const std::string& folder, const std::string& location) {
  File at(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (at.fd() < 0) refuse(location, "the folder cannot be opened: " + std::string(std::strerror(errno)));
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = location.find('/', begin);
    const std::string part = location.substr(begin, end == std::string::npos ? end : end - begin);
    if (part.empty() || part == "." || part == ".." || part.find('\0') != std::string::npos)
      refuse(location, "the path leaves the model's folder");
    const bool is_last = end == std::string::npos;
    const int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | (is_last ? 0 : O_DIRECTORY);
    File next(::openat(at.fd(), part.c_str(), flags));
    if (next.fd() < 0) refuse(location, "cannot be opened: " + std::string(std::strerror(errno)));
    at = std::move(next);
    if (is_last) return at;
    begin = end + 1;
  }
}

}  // namespace

ExternalData external_data_in(const std::string& folder) {
  return [folder](const std::string& location, std::uint64_t offset, std::int64_t size) {
    const File file = open_below(folder, location);
    struct stat about = {};
    if (::fstat(file.fd(), &about) != 0 || !S_ISREG(about.st_mode)) refuse(location, "is not a regular file");
    if (about.st_nlink > 1) refuse(location, "has more than one hard link");
    const auto available = static_cast<std::uint64_t>(about.st_size);
    if (offset > available) refuse(location, "ends before offset " + std::to_string(offset));
    const std::uint64_t wanted = size < 0 ? available - offset : static_cast<std::uint64_t>(size);
    if (wanted > available - offset)
      refuse(location, "has " + std::to_string(available) + " bytes; " + std::to_string(wanted) + " at offset " +
                           std::to_string(offset) + " are needed");
    Bytes bytes(wanted);
    for (std::uint64_t done = 0; done < wanted;) {
      const ssize_t n = ::pread(file.fd(), bytes.data() + done, wanted - done, static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) refuse(location, "cannot be read to its end");
      done += static_cast<std::uint64_t>(n);
    }
    return bytes;
  };
}

}  // namespace unroll::onnx
