// SPDX-License-Identifier: Apache-2.0
// The bytes that commands read and wrote since the last barrier: what the next one may touch without another barrier.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

namespace unroll::device {

// Bytes of an allocation that a command reads or writes.
struct Touch {
  const void* memory;
  std::size_t begin, end;
  bool writes;
};

class Touched {
 public:
  // True if one of them writes touched bytes, or touches written bytes.
  bool conflicts(const std::vector<Touch>& touches) const;
  void add(const std::vector<Touch>& touches);
  void clear() { memory_.clear(); }

 private:
  // Ranges [begin, end), apart and not touching: begin -> end.
  using Ranges = std::map<std::size_t, std::size_t>;
  struct Memory {
    Ranges read, written;
  };
  std::map<const void*, Memory> memory_;
};

}  // namespace unroll::device
