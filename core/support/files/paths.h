// SPDX-License-Identifier: Apache-2.0
// Queries of paths. They throw Error, with the path and the advice, if the system cannot answer: missing rights on a
// parent folder, a name that is too long, a loop of links. The kind is input_file, or storage for a path to write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "unroll/support/error.h"
#include "unroll/support/export.h"

namespace unroll {

enum class PathKind : std::uint8_t { none, file, folder, other };
UNROLL_API PathKind kind_of_path(const std::string& path, ErrorKind on_failure = ErrorKind::input_file);
inline bool is_folder(const std::string& path, ErrorKind on_failure = ErrorKind::input_file) {
  return kind_of_path(path, on_failure) == PathKind::folder;
}
// Returns the size of a file; nothing if it does not exist.
UNROLL_API std::optional<std::size_t> size_of_file(const std::string& path);
// Returns the path from the root, without "." and "..".
UNROLL_API std::string absolute_path(const std::string& path);
// Returns the target of a link, which need not exist.
UNROLL_API std::string without_links(const std::string& path);
// Removes a folder with its contents.
UNROLL_API void remove_folder(const std::string& path);
// Creates an empty folder "unroll-<who>.<six characters>" in $TMPDIR or /tmp.
UNROLL_API std::string make_temporary_folder(const std::string& who);

}  // namespace unroll
