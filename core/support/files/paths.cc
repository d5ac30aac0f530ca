// SPDX-License-Identifier: Apache-2.0
#include "core/support/files/paths.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "core/support/files/file_errors.h"

namespace unroll {

namespace {

namespace fs = std::filesystem;

// False if the path does not exist.
bool inspect(const std::string& path, struct stat& status, ErrorKind on_failure) {
  if (::stat(path.c_str(), &status) == 0) return true;
  if (errno == ENOENT) return false;
  throw file_error(on_failure, path, "inspect", errno);
}

}  // namespace

PathKind kind_of_path(const std::string& path, ErrorKind on_failure) {
  struct stat status {};
  if (!inspect(path, status, on_failure)) return PathKind::none;
  return S_ISREG(status.st_mode) ? PathKind::file : S_ISDIR(status.st_mode) ? PathKind::folder : PathKind::other;
}

std::optional<std::size_t> size_of_file(const std::string& path) {
  struct stat status {};
  if (!inspect(path, status, ErrorKind::input_file)) return std::nullopt;
  return status.st_size;
}

std::string absolute_path(const std::string& path) {
  std::error_code error;
  const fs::path whole = fs::absolute(path, error);
  if (error) throw file_error(ErrorKind::input_file, path, "find the current folder, in which it is", error.value());
  return whole.lexically_normal().string();
}

std::string without_links(const std::string& path) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(path, error);
  if (error) throw file_error(ErrorKind::storage, path, "follow the link", error.value());
  return whole.string();
}

void remove_folder(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) throw file_error(ErrorKind::storage, path, "remove the folder", error.value());
}

std::string make_temporary_folder(const std::string& who) {
  const char* place = std::getenv("TMPDIR");
  std::string path = std::string(place && *place ? place : "/tmp") + "/unroll-" + who + ".XXXXXX";
  if (!::mkdtemp(path.data())) throw file_error(ErrorKind::storage, path, "make the temporary folder", errno);
  return path;
}

}  // namespace unroll
