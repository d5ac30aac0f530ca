// SPDX-License-Identifier: Apache-2.0
// Size arithmetic with overflow checks, for sizes from external input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "unroll/support/error.h"

namespace unroll {

class CheckedSize {
 public:
  constexpr CheckedSize(std::uint64_t value) : value_(value) {}  // NOLINT: the conversion is implicit on purpose

  CheckedSize& operator*=(CheckedSize b) {
    overflow_ |= b.overflow_ | __builtin_mul_overflow(value_, b.value_, &value_);
    return *this;
  }
  CheckedSize& operator+=(CheckedSize b) {
    overflow_ |= b.overflow_ | __builtin_add_overflow(value_, b.value_, &value_);
    return *this;
  }
  friend CheckedSize operator*(CheckedSize a, CheckedSize b) { return a *= b; }
  friend CheckedSize operator+(CheckedSize a, CheckedSize b) { return a += b; }
  // `alignment` is a power of two.
  CheckedSize aligned(std::uint64_t alignment) const {
    CheckedSize r = *this + CheckedSize(alignment - 1);
    r.value_ &= ~(alignment - 1);
    return r;
  }

  std::optional<std::size_t> get() const {
    if (overflow_) return std::nullopt;
    return value_;
  }
  std::size_t require(ErrorKind kind, std::string_view who, std::string_view what) const {
    if (overflow_) throw Error(kind, who, what);
    return value_;
  }

 private:
  std::uint64_t value_;
  bool overflow_ = false;
};

}  // namespace unroll
