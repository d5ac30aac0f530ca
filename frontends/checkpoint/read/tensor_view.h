// SPDX-License-Identifier: Apache-2.0
// A tensor of a torch.save file: a view of a storage that other tensors may share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace unroll::checkpoint {

// Element types of storages. f32 and so on as in unroll/support/types.h.
enum class Stored : std::uint8_t { f32, f64, f16, bf16, i64, i32, i16, i8, u8, b8 };
struct StoredRow {
  std::string_view name;
  std::size_t bytes;
};
inline constexpr StoredRow k_stored[] = {{"f32", 4}, {"f64", 8}, {"f16", 2}, {"bf16", 2}, {"i64", 8},
                                         {"i32", 4}, {"i16", 2}, {"i8", 1},  {"u8", 1},   {"b8", 1}};
constexpr std::size_t stored_bytes(Stored type) { return k_stored[static_cast<int>(type)].bytes; }
constexpr std::string_view stored_name(Stored type) { return k_stored[static_cast<int>(type)].name; }

// A view of a storage. Offset and strides count elements.
struct TensorView {
  Stored type = Stored::f32;
  std::string key;         // of the storage
  std::int64_t count = 0;  // elements of the storage
  std::int64_t offset = 0;
  std::vector<std::int64_t> sizes, strides;
};

}  // namespace unroll::checkpoint
