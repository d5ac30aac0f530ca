// SPDX-License-Identifier: Apache-2.0
#include "unroll/parallel/communicator.h"

#include <chrono>

#include "core/parallel/collectives.h"

namespace unroll {

void Communicator::exchange(std::span<const Outgoing> out, std::span<const Incoming> in) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  transfer(out, in);
  const std::lock_guard lock(mutex_);
  exchanged_.seconds += std::chrono::duration<double>(Clock::now() - start).count();
  for (const Outgoing& message : out) exchanged_.sent_bytes += message.bytes.size();
}

Communicator::Exchanged Communicator::exchanged() const {
  const std::lock_guard lock(mutex_);
  return exchanged_;
}

void Communicator::wait_for_all() {
  const double before = exchanged().seconds;
  any(*this, false);
  const std::lock_guard lock(mutex_);
  exchanged_.waiting_seconds += exchanged_.seconds - before;
}

void Communicator::note_hidden(double seconds) {
  const std::lock_guard lock(mutex_);
  exchanged_.hidden_seconds += seconds;
}

}  // namespace unroll
