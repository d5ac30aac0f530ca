// SPDX-License-Identifier: Apache-2.0
// The checked header of a safetensors file: every entry has a valid, contiguous range. Its type, rank and values may be
// such that unroll cannot use it: files have more tensors than a model reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "unroll/support/tensor.h"

namespace unroll {

struct FileEntry {
  std::string dtype;  // as in the file: "F8_E4M3"
  std::vector<std::uint64_t> shape;
  std::size_t begin = 0;  // bytes of the file's data part
  std::size_t end = 0;
  UNROLL_API std::string text() const;  // as other types are written: "f32[2,3]", "f8_e4m3[]"
};

struct FileHeader {
  std::map<std::string, FileEntry> entries;
  std::map<std::string, std::string> metadata;
  std::size_t data_offset = 0;  // where the data part starts in the file
};

inline constexpr std::size_t k_max_tensor_file_bytes = std::size_t{1} << 40;
inline constexpr std::size_t k_max_header_bytes = 100'000'000;
inline constexpr std::size_t k_max_entries = std::size_t{1} << 20;  // tensors and metadata together
inline constexpr int k_max_header_depth = 64;
inline constexpr std::size_t k_max_dimensions = 64;  // unroll uses tensors of up to 6

// Throws Error(input_file) naming `file_name` and the entry.
UNROLL_API FileHeader parse_safetensors_header(std::span<const std::byte> file, const std::string& file_name);

// The tensor of an entry. Throws Error(input_file), which names `file_name` and the tensor, where its type, its rank or
// an element is none that unroll can use.
UNROLL_API Tensor read_entry(std::span<const std::byte> file, const FileHeader& header, const std::string& entry,
                             const std::string& file_name);

// safetensors.torch.save_model keeps one of several tied tensors; the metadata name the one in the file for each of the
// others. Returns that map. Throws Error(input_file) where a parameter is tied to a tensor that is not there.
UNROLL_API std::map<std::string, std::string> tied_tensors(const std::map<std::string, std::string>& metadata,
                                                           const std::function<bool(const std::string&)>& has,
                                                           const std::string& file_name);

}  // namespace unroll
