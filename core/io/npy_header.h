// SPDX-License-Identifier: Apache-2.0
// The header of a NumPy array file (numpy.lib.format, versions 1.0 to 3.0).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "unroll/support/export.h"

namespace unroll {

struct NpyHeader {
  std::string descr;  // type: "<f4"; a structured type as its text
  bool fortran_order = false;  // the first axis is contiguous
  std::vector<std::int64_t> shape;
  std::size_t data_offset = 0;  // bytes
};

inline constexpr std::size_t k_max_npy_header_bytes = 1 << 20;

// Sizes are at least 0; their product is not checked. Throws Error(input_file), which names `file_name`.
UNROLL_API NpyHeader parse_npy_header(std::span<const std::byte> file, const std::string& file_name);

}  // namespace unroll
