// SPDX-License-Identifier: Apache-2.0
// Latency and bandwidth between processes: how long each of them takes to send a message to every other one and to
// receive theirs. Rank 0 prints JSON: the fastest and the median exchange of 1 byte, and of 1.5 MiB, a message.
// usage: mpirun -n N exchange [TIMES]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "unroll/parallel/communicator.h"

using namespace unroll;

namespace {

struct Microseconds {
  double min, median;
};

// Ranks begin together, as far as the exchange before can see to it.
Microseconds timed(Communicator& ranks, std::size_t bytes, int times) {
  const auto n = static_cast<std::size_t>(ranks.size());
  std::vector<std::vector<std::byte>> from(n, std::vector<std::byte>(bytes)), to = from;
  std::vector<Communicator::Outgoing> out;
  std::vector<Communicator::Incoming> in;
  for (int r = 0; r < ranks.size(); ++r) {
    if (r == ranks.rank()) continue;
    out.push_back({r, from[static_cast<std::size_t>(r)]});
    in.push_back({r, to[static_cast<std::size_t>(r)]});
  }
  std::vector<double> took;
  for (int i = 0; i < times; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    ranks.exchange(out, in);
    took.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(took.begin(), took.end());
  return {took.front(), took[took.size() / 2]};
}

}  // namespace

int main(int argc, char** argv) {
  constexpr std::size_t k_large = 3 << 19;  // bytes
  const int times = argc > 1 ? std::atoi(argv[1]) : 1000;
  try {
    const auto ranks = mpi_ranks();
    timed(*ranks, k_large, 10);  // the first exchanges set up connections and pages
    const Microseconds small = timed(*ranks, 1, times), large = timed(*ranks, k_large, times);
    if (ranks->rank() == 0)
      std::printf("{\"ranks\":%d,\"bytes\":%zu,\"small_us\":[%.3f,%.3f],\"large_us\":[%.3f,%.3f]}\n", ranks->size(),
                  k_large, small.min, small.median, large.min, large.median);
  } catch (const Error& e) {
    std::fprintf(stderr, "exchange: %s\n", e.what());
    return exit_code(e.kind());
  }
  return 0;
}
