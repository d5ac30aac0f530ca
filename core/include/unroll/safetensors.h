// SPDX-License-Identifier: Apache-2.0
// safetensors files (huggingface/safetensors README): u64 little-endian header length N, N bytes of JSON, data.
#pragma once

#include <map>
#include <span>
#include <string>

#include "unroll/tensor.h"
#include "unroll/vfs.h"

namespace unroll {

struct TensorFile {
  TensorMap tensors;
  std::map<std::string, std::string> metadata;
};

// Accepts F32, F64, I32, BOOL, and I64, U8, F16, BF16 by exact conversion (I64 must fit i32; U8 -> i32; F16, BF16 ->
// f32). Refuses, with Error(input_file) naming the entry: headers above 100,000,000 bytes or the file size, holes,
// overlaps, wrapped sizes, duplicate keys, unknown dtypes, more than 2^20 entries, nesting deeper than 64.
UNROLL_API TensorFile parse_safetensors(std::span<const std::byte> file, const std::string& name);
UNROLL_API TensorFile load_safetensors(const std::string& path, Vfs& vfs = disk());
// Sorted by falling dtype size, then name; data starts at a multiple of 64 bytes; atomic.
UNROLL_API void save_safetensors(const std::string& path, const TensorFile& file, Vfs& vfs = disk());

}  // namespace unroll
