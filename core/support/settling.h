// SPDX-License-Identifier: Apache-2.0
// Implemented by executables whose first runs time alternatives, beside Executable.
#pragma once

namespace unroll {

class Settling {
 public:
  virtual ~Settling() = default;
  // False while the next runs may take another time and hold less memory.
  virtual bool settled() const = 0;
};

// Whether it is settled, or always runs alike.
template <class Executable>
bool is_settled(const Executable& executable) {
  const auto* settling = dynamic_cast<const Settling*>(&executable);
  return !settling || settling->settled();
}

}  // namespace unroll
