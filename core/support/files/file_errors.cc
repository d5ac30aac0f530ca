// SPDX-License-Identifier: Apache-2.0
#include "core/support/files/file_errors.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <system_error>

namespace unroll {

namespace {

struct ErrnoRow {
  int error;
  std::string_view next;
};
constexpr ErrnoRow k_next_actions[] = {
    {ENOSPC, "Free some space on that disk or choose a path on another one"},
    {EDQUOT, "Free some space within your quota or choose a path on another disk"},
    {EFBIG, "Raise the limit on file sizes (ulimit -f) or choose a path on another disk"},
    {EIO, "The disk reports a fault: choose a path on another one and check this one"},
    {EROFS, "That disk is read-only: choose a path on another one"},
    {EACCES, "Check the permissions of the file and of its folder"},
    {EPERM, "Check the permissions of the file and of its folder"},
    {ENOENT, "Check the path: the file or its folder does not exist"},
    {ENOTDIR, "Check the path: a part of it is a file where a folder must be"},
    {EISDIR, "Name a file, not a folder"},
    {EEXIST, "Check the path: something of another kind has that name"},
    {ENAMETOOLONG, "Use a shorter path"},
    {ELOOP, "Check the path: its symbolic links form a loop"},
    {EMFILE, "Close some files or raise the limit on open files (ulimit -n)"},
    {ENFILE, "Close some programs: the system has too many open files"},
    {EXDEV, "Keep the temporary and the final path on one disk"},
};

}  // namespace

Error file_error(ErrorKind kind, const std::string& path, std::string_view action, int error) {
  const auto row = std::find_if(std::begin(k_next_actions), std::end(k_next_actions),
                                [&](const ErrnoRow& r) { return r.error == error; });
  return Error(kind, path, "cannot " + std::string(action) + ": " + std::generic_category().message(error),
               row == std::end(k_next_actions) ? std::string_view() : row->next);
}

}  // namespace unroll
