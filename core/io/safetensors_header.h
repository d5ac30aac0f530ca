// SPDX-License-Identifier: Apache-2.0
// The checked header of a safetensors file: every entry has a valid, contiguous range. Types, ranks and values are not
// checked, because files may have more tensors than a model reads.
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
  std::size_t begin = 0;  // byte range in the file's data part
  std::size_t end = 0;
  UNROLL_API std::string text() const;  // in the notation of types: "f32[2,3]", "f8_e4m3[]"
};

struct FileHeader {
  std::map<std::string, FileEntry> entries;
  std::map<std::string, std::string> metadata;
  std::size_t data_offset = 0;  // offset of the data part in the file
};

inline constexpr std::size_t k_max_tensor_file_bytes = std::size_t{1} << 40;
inline constexpr std::size_t k_max_header_bytes = 100'000'000;
inline constexpr std::size_t k_max_entries = std::size_t{1} << 20;  // tensors and metadata together
inline constexpr int k_max_header_depth = 64;
inline constexpr std::size_t k_max_dimensions = 64;  // unroll uses tensors of up to 6

// Throws Error(input_file) naming `file_name` and the entry.
UNROLL_API FileHeader parse_safetensors_header(std::span<const std::byte> file, const std::string& file_name);

// Reads the tensor of an entry. Throws Error(input_file), which names `file_name` and the tensor, if unroll does not
// support its type, its rank or the value of an element.
UNROLL_API Tensor read_entry(std::span<const std::byte> file, const FileHeader& header, const std::string& entry,
                             const std::string& file_name);

// Returns the name of the stored tensor for each omitted tied one. safetensors.torch.save_model stores one of several
// tied tensors and lists the others in the metadata. Throws Error(input_file) if a stored tensor is missing.
UNROLL_API std::map<std::string, std::string> tied_tensors(const std::map<std::string, std::string>& metadata,
                                                           const std::function<bool(const std::string&)>& has,
                                                           const std::string& file_name);

}  // namespace unroll
