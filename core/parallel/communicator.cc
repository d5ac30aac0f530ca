// SPDX-License-Identifier: Apache-2.0
#include "unroll/communicator.h"

#include <chrono>

namespace unroll {

void Communicator::exchange(std::span<const Outgoing> out, std::span<const Incoming> in) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  transfer(out, in);
  exchanged_.seconds += std::chrono::duration<double>(Clock::now() - start).count();
  for (const Outgoing& message : out) exchanged_.sent_bytes += message.bytes.size();
}

}  // namespace unroll
