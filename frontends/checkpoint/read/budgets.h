// SPDX-License-Identifier: Apache-2.0
// Limits for checkpoints, which are untrusted input. docs/import.md lists them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace unroll::checkpoint {

inline constexpr std::size_t k_max_file_bytes = std::size_t{16} << 30;
inline constexpr std::size_t k_max_entries = 100'000;  // of a zip file
inline constexpr std::size_t k_max_name_bytes = 4096;
inline constexpr std::uint64_t k_max_deflate_ratio = 1032;  // of deflate (zlib.net, "Technical Details")

inline constexpr std::size_t k_max_pickle_bytes = std::size_t{64} << 20;
inline constexpr std::size_t k_max_values = 4'000'000;  // numbers, texts, tuples, ... of a pickle
inline constexpr int k_max_depth = 100;                 // dicts and objects within each other
inline constexpr std::size_t k_max_skipped = 1000;      // names of classes that are left out
inline constexpr std::size_t k_max_tensors = 100'000;
// Tensors may share storages. All tensors together are at most this many times as large as the storages in the file.
inline constexpr std::uint64_t k_max_sharing = 16;

}  // namespace unroll::checkpoint
