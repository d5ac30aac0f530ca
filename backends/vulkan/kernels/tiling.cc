// SPDX-License-Identifier: Apache-2.0
// Choice of the tile of a product. The model counts, per term of the sum, multiplications and the loads that they need;
// and rounds of workgroups, because a device runs a number of them at once.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "backends/vulkan/kernels/products.h"

namespace unroll::vulkan {

namespace {

// Large first. The shared memory of a tile is at most 9 KiB, with the sums of an epilogue 16 KiB: each device has it.
constexpr Tile k_tiles[] = {
    {128, 128, 8, 8, 8, 1}, {64, 64, 8, 8, 16, 1}, {64, 64, 4, 4, 16, 4}, {32, 64, 8, 8, 16, 1}, {32, 64, 4, 4, 16, 4},
    {32, 32, 4, 4, 16, 4},  {16, 64, 4, 4, 16, 4}, {8, 64, 8, 8, 16, 1},  {8, 64, 4, 4, 16, 4},  {4, 64, 4, 4, 16, 4},
};
// llvmpipe compiles the shaders of other tiles for seconds, which small products never win back.
constexpr Tile k_lean_tile{16, 16, 4, 4, 8, 1};
constexpr double k_lean_terms = 1 << 20;  // of all sums
constexpr std::uint32_t k_epilogue_elements = 2048;  // of a tile whose sums go through shared memory
constexpr std::uint32_t k_least_part = 128;          // terms
constexpr std::uint32_t k_most_terms = 4096;         // of a part, as blocks
constexpr std::uint64_t k_most_part_bytes = 8u << 20;  // of sums in parts

// Workgroups at once, invocations of one that advance together, multiplications for which a load counts, terms for
// which a workgroup counts. By measurements on lavapipe, and by what is common on GPUs.
struct Machine {
  double groups, width, load, start;
};
constexpr Machine k_cpu{8, 8, 6, 8}, k_gpu{256, 128, 2, 32};

// The tile for that many gates: each has the same number of columns, in whole quads.
std::optional<Tile> fitted(Tile tile, int gates) {
  const std::uint32_t unit = std::lcm(4u * static_cast<std::uint32_t>(gates), tile.own_columns);
  tile.columns = tile.columns / unit * unit;
  return tile.columns == 0 ? std::nullopt : std::optional(tile);
}

double cost(const Tile& t, const ProductSizes& s, int gates, std::uint32_t part, const Machine& machine) {
  const std::uint32_t width = t.columns / static_cast<std::uint32_t>(gates);
  const std::uint32_t parts = s.k == 0 ? 1 : (s.k + part - 1) / part;
  const double groups = double((s.m + t.rows - 1) / t.rows) * ((s.units + width - 1) / width) * s.matrices() * parts;
  const double rounds = std::ceil(groups / machine.groups), waves = std::ceil(t.invocations() / machine.width);
  const double own = t.own_rows * t.own_columns;
  const double term = waves * own * (1 + machine.load * (1.0 / t.own_rows + 1.0 / t.own_columns));
  const double outputs = double(s.m) * s.units * gates * s.matrices();
  const double adding = parts == 1 ? 0 : outputs * parts * machine.load / (machine.width * machine.groups);
  return rounds * term * (part + machine.start) + adding;
}

// Terms of a part that the device's loops allow, in whole iterations.
std::uint32_t most_terms(const Tile& t, const Limits& limits) {
  const std::uint32_t each = 1 + t.depth / t.unrolled;
  const std::uint32_t rest = k_epilogue_elements / t.invocations() + k_most_terms / k_block_terms;
  const std::uint32_t fits = std::max(1u, (limits.iterations - std::min(limits.iterations, rest)) / each) * t.depth;
  return std::min(fits, k_most_terms);
}

Tiling tiling_of(Tile tile, std::uint32_t part) {
  tile.in_blocks = part > k_block_terms;
  return {tile, part};
}

}  // namespace

std::optional<Tiling> choose_tiling(const ProductSizes& s, int gates, Sum sum, const Limits& limits) {
  const std::optional<Tile> lean = fitted(k_lean_tile, gates);
  const double terms = double(s.m) * s.units * gates * s.matrices() * s.k;
  if (limits.small_sizes && lean && lean->invocations() <= limits.local_size && terms <= k_lean_terms &&
      s.k <= most_terms(*lean, limits))
    return tiling_of(*lean, (std::max(s.k, 1u) + 15) / 16 * 16);
  const Machine& machine = limits.small_sizes ? k_cpu : k_gpu;
  std::optional<Tiling> best;
  double least = 0;
  for (const Tile& row : k_tiles) {
    const std::optional<Tile> tile = fitted(row, gates);
    if (!tile || tile->invocations() > limits.local_size) continue;
    if (sum == Sum::epilogue && tile->rows * tile->columns > k_epilogue_elements) continue;
    const std::uint32_t whole = std::max(s.k, 1u), most = most_terms(*tile, limits);
    for (std::uint32_t parts = 1; parts <= 64; parts *= 2) {
      const std::uint32_t length = (whole + parts - 1) / parts, part = std::min((length + 15) / 16 * 16, most);
      if (parts > 1 && (sum != Sum::in_parts || part < k_least_part)) break;
      if (sum != Sum::in_parts && part < whole) break;
      const std::uint64_t bytes = std::uint64_t{s.m} * s.units * s.matrices() * 4;
      if (parts > 1 && bytes * parts > k_most_part_bytes) break;
      const double now = cost(*tile, s, gates, part, machine);
      if (best && now >= least) continue;
      least = now;
      best = tiling_of(*tile, std::min(part, (whole + 15) / 16 * 16));
    }
  }
  return best;
}

}  // namespace unroll::vulkan
