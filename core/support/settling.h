// SPDX-License-Identifier: Apache-2.0
// Interface of executables that tune themselves by timing alternatives in their first runs, in addition to Executable.
#pragma once

namespace unroll {

class Settling {
 public:
  virtual ~Settling() = default;
  // False while the next runs may differ in time and use less memory.
  virtual bool settled() const = 0;
};

// True if the executable is settled or does not tune itself.
template <class Executable>
bool is_settled(const Executable& executable) {
  const auto* settling = dynamic_cast<const Settling*>(&executable);
  return !settling || settling->settled();
}

}  // namespace unroll
