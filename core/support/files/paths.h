// SPDX-License-Identifier: Apache-2.0
// Questions about paths. Where the system cannot answer one (no rights on a folder above, a name that is too long,
// links that form a loop), they throw Error with the path and what to do: of kind input_file, or storage for a path to
// write.
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
// Bytes of a file; nothing when it does not exist.
UNROLL_API std::optional<std::size_t> size_of_file(const std::string& path);
// From the root, without "." and "..".
UNROLL_API std::string absolute_path(const std::string& path);
// What a link at the path leads to, which need not exist.
UNROLL_API std::string without_links(const std::string& path);
// Removes a folder with all that it holds.
UNROLL_API void remove_folder(const std::string& path);
// Makes an empty folder "unroll-<who>.<six characters>" in $TMPDIR or /tmp.
UNROLL_API std::string make_temporary_folder(const std::string& who);

}  // namespace unroll
