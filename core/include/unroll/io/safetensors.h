// SPDX-License-Identifier: Apache-2.0
// safetensors files (huggingface/safetensors README): header length N as little-endian u64, N bytes of JSON, data.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "unroll/support/result.h"
#include "unroll/support/tensor.h"
#include "unroll/support/vfs.h"

namespace unroll {

struct TensorFile {
  TensorMap tensors;
  std::map<std::string, std::string> metadata;
};

// Converts exactly: F16 and BF16 become f32; integers become i32 and must fit. Throws Error(input_file), which names
// the tensor, on other types (F8, C64, ...). Also throws on headers above 100,000,000 bytes or the file size, gaps,
// overlaps, overflowing sizes, duplicate keys, more than 2^20 entries or 6 dimensions, and nesting deeper than 64.
UNROLL_API TensorFile parse_safetensors(std::span<const std::byte> file, const std::string& name);
UNROLL_API TensorFile load_safetensors(const std::string& path, Vfs& vfs = disk());
UNROLL_API Result<TensorFile> try_load_safetensors(const std::string& path, Vfs& vfs = disk()) noexcept;
// Writes atomically. Entries are sorted by decreasing dtype size, then name. Data is aligned to 64 bytes.
UNROLL_API void save_safetensors(const std::string& path, const TensorFile& file, Vfs& vfs = disk());
UNROLL_API std::vector<std::byte> safetensors_bytes(const TensorFile& file);  // the same, in memory

}  // namespace unroll
