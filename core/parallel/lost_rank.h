// SPDX-License-Identifier: Apache-2.0
// Errors of an exchange.
#pragma once

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "unroll/parallel/communicator.h"
#include "unroll/support/error.h"

namespace unroll {

inline Error failed_rank(int rank, const std::string& text) {
  return {ErrorKind::peer, "ranks", "rank " + std::to_string(rank) + " ended with an error: " + text};
}
inline constexpr const char* k_after_loss =
    "Look at the messages of that rank and its machine, then continue with --resume";
inline std::string names_of(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return text;
}
// Returns the awaited ranks without an answer, or the most likely candidates.
inline std::vector<int> lost_ranks(const std::set<int>& silent, const std::set<int>& waited_for) {
  std::vector<int> both;
  std::set_intersection(silent.begin(), silent.end(), waited_for.begin(), waited_for.end(), std::back_inserter(both));
  if (!both.empty()) return both;
  const std::set<int>& likely = silent.empty() ? waited_for : silent;
  return {likely.begin(), likely.end()};
}
inline Error silent_ranks(const std::vector<int>& ranks, double seconds) {
  return {ErrorKind::peer, "ranks",
          "no answer from " + names_of(ranks) + " for " + std::to_string(static_cast<long>(seconds + 0.5)) + " s",
          k_after_loss};
}
inline Error missing_ranks(const std::vector<int>& ranks) {
  return {ErrorKind::peer, "ranks",
          "this process was asked to end while it waited for " + names_of(ranks) + ", which may have ended",
          k_after_loss};
}
// Errors when MPI_Init_thread or MPI_Finalize does not return.
inline Error stuck_start() {
  return {ErrorKind::peer, "ranks", "another process ended, or cannot be reached, during MPI_Init_thread",
          k_after_loss};
}
inline Error stuck_end() {
  return {ErrorKind::peer, "ranks",
          "the run is complete, but another process ended, or cannot be reached, during MPI_Finalize",
          "Look at the messages of the other ranks. Nothing has to be repeated"};
}
// Throws on a message of unexpected size: the ranks do not run the same program on the same data.
inline void require_size(const Communicator::Incoming& message, std::size_t sent) {
  if (sent == message.bytes.size()) return;
  throw Error(ErrorKind::peer, "ranks",
              "rank " + std::to_string(message.from) + " sent " + std::to_string(sent) + " bytes instead of " +
                  std::to_string(message.bytes.size()),
              "Start the same program with the same config and data on all ranks");
}

}  // namespace unroll
