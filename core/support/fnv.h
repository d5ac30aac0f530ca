// SPDX-License-Identifier: Apache-2.0
// FNV-1a, 64 bits (Fowler, Noll, Vo): the same value on every machine. It does not withstand deliberate collisions.
#pragma once

#include <cstdint>
#include <string_view>

namespace unroll {

class Fnv {
 public:
  Fnv& add(std::string_view bytes) {
    for (const char c : bytes) mix(static_cast<unsigned char>(c));
    return *this;
  }
  // Adds a number as eight bytes, the lowest first.
  Fnv& add(std::uint64_t number) {
    for (int i = 0; i < 8; ++i) mix((number >> (8 * i)) & 0xff);
    return *this;
  }
  std::uint64_t value() const { return value_; }

 private:
  void mix(std::uint64_t byte) { value_ = (value_ ^ byte) * 0x100000001b3; }
  std::uint64_t value_ = 0xcbf29ce484222325;
};

inline std::uint64_t fnv(std::string_view bytes) { return Fnv().add(bytes).value(); }

}  // namespace unroll
