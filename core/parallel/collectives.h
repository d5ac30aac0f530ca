// SPDX-License-Identifier: Apache-2.0
// What all ranks do together, built on Communicator::exchange. Results are the same on every rank.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "unroll/communicator.h"

namespace unroll {

using ByteList = std::vector<std::byte>;

// What each rank gives, by rank. The sizes may differ.
std::vector<ByteList> all_gather(Communicator& ranks, std::span<const std::byte> mine);
// What rank 0 gives, on every rank.
ByteList broadcast(Communicator& ranks, std::span<const std::byte> from_rank_0);
// Whether `mine` holds on any rank.
bool any(Communicator& ranks, bool mine);

}  // namespace unroll
