// SPDX-License-Identifier: Apache-2.0
// The checked header of a safetensors file: every entry has a known dtype and a valid, contiguous range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "unroll/types.h"

namespace unroll {

enum class FileDType : std::uint8_t { f64, f32, i32, boolean, i64, u8, f16, bf16 };

struct FileEntry {
  FileDType dtype = FileDType::f32;
  Shape shape;
  std::size_t begin = 0;  // bytes of the file's data part
  std::size_t end = 0;
};

struct FileHeader {
  std::map<std::string, FileEntry> entries;
  std::map<std::string, std::string> metadata;
  std::size_t data_offset = 0;  // where the data part starts in the file
};

inline constexpr std::size_t k_max_header_bytes = 100'000'000;
inline constexpr std::size_t k_max_entries = std::size_t{1} << 20;  // tensors and metadata together
inline constexpr int k_max_header_depth = 64;

// Throws Error(input_file) naming `file_name` and the entry.
FileHeader parse_safetensors_header(std::span<const std::byte> file, const std::string& file_name);

std::string_view file_dtype_name(FileDType dtype);  // "F32"
std::size_t file_dtype_bytes(FileDType dtype);

}  // namespace unroll
