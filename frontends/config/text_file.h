// SPDX-License-Identifier: Apache-2.0
// Reads and writes small text files through the library's file layer.
#pragma once

#include <cstddef>
#include <string>

namespace unroll::cli {

// Throws Error(input_file) if the file cannot be read or is larger than `max_bytes`.
std::string read_text_file(const std::string& path, std::size_t max_bytes);
// Writes the file atomically. Throws Error(storage).
void write_text_file(const std::string& path, const std::string& text);

}  // namespace unroll::cli
