// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli), eight bytes at a time. It detects damage in stored files, not forgery.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace unroll {

class Crc32c {
 public:
  void add(std::span<const std::byte> bytes) {
    std::size_t at = 0;
    std::uint32_t crc = crc_;
    for (; bytes.size() - at >= 8; at += 8) {
      std::uint64_t word;
      std::memcpy(&word, bytes.data() + at, 8);
      word ^= crc;
      crc = 0;
      for (std::size_t k = 0; k < 8; ++k) crc ^= k_table[7 - k][(word >> (8 * k)) & 0xFF];
    }
    for (; at < bytes.size(); ++at) crc = crc >> 8 ^ k_table[0][(crc ^ static_cast<std::uint32_t>(bytes[at])) & 0xFF];
    crc_ = crc;
  }
  std::uint32_t value() const { return ~crc_; }

 private:
  using Table = std::array<std::array<std::uint32_t, 256>, 8>;
  static constexpr Table make_table() {
    Table table{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      std::uint32_t crc = byte;
      for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82F63B78u : 0u);
      table[0][byte] = crc;
    }
    for (std::size_t k = 1; k < 8; ++k)
      for (std::size_t byte = 0; byte < 256; ++byte)
        table[k][byte] = table[k - 1][byte] >> 8 ^ table[0][table[k - 1][byte] & 0xFF];
    return table;
  }
  static const Table k_table;
  std::uint32_t crc_ = 0xFFFFFFFFu;
};

inline constexpr Crc32c::Table Crc32c::k_table = Crc32c::make_table();

}  // namespace unroll
