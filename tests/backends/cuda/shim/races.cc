// SPDX-License-Identifier: Apache-2.0
#include "tests/backends/cuda/shim/races.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace unroll::shim {

namespace {

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

}  // namespace

void Memory::FreeCells::operator()(Cell* cells) const { std::free(cells); }

void Memory::add(const void* begin, std::size_t bytes, Kind kind) {
  regions_[number(begin)] = {number(begin), number(begin) + bytes, kind, nullptr};
}
void Memory::remove(const void* begin) {
  regions_.erase(number(begin));
  last_ = nullptr;
}

Memory::Region* Memory::find(std::uintptr_t address) {
  if (last_ && address >= last_->begin && address < last_->end) return last_;
  auto after = regions_.upper_bound(address);
  if (after == regions_.begin()) return nullptr;
  Region& region = std::prev(after)->second;
  return address < region.end ? last_ = &region : nullptr;
}

bool Memory::contains(const void* begin, std::size_t bytes) const {
  auto after = regions_.upper_bound(number(begin));
  if (after == regions_.begin()) return false;
  const Region& region = std::prev(after)->second;
  return region.kind == Kind::global && number(begin) + bytes <= region.end;
}

std::size_t Memory::size_of(const void* begin) const {
  const auto at = regions_.find(number(begin));
  return at == regions_.end() ? 0 : at->second.end - at->second.begin;
}

std::string Memory::race(const Access& a, const char* other, const Cell& cell) {
  return "a race: thread " + std::to_string(a.thread) + " of block " + std::to_string(a.block) +
         (a.writes ? " writes" : " reads") + " after barrier " + std::to_string(a.barriers) + " what " +
         (other[0] == 'w' ? "thread " + std::to_string(cell.writer) + " of block " + std::to_string(cell.write_block)
                          : "a thread of block " + std::to_string(cell.read_block)) +
         " " + other;
}

std::string Memory::check(const Access& a) {
  ++checked_;
  const std::uintptr_t at = number(a.address);
  Region* const region = find(at);
  const auto text = [&](const char* what) {
    return "thread " + std::to_string(a.thread) + " of block " + std::to_string(a.block) + " " +
           (a.writes ? "writes " : "reads ") + std::to_string(a.bytes) + " bytes " + what;
  };
  if (!region || at + a.bytes > region->end) return text("outside of all memory");
  checked_global_ += region->kind == Kind::global;
  if (region->kind == Kind::constant) return a.writes ? text("of a constant") : std::string();
  if (!region->cells)
    region->cells.reset(static_cast<Cell*>(std::calloc(region->end - region->begin, sizeof(Cell))));
  Cell& cell = region->cells[at - region->begin];
  const bool shared = region->kind == Kind::shared;
  // What a block writes into its shared memory stays there behind barriers of blocks.
  const std::uint32_t now = a.launch + a.epoch;
  const auto is_over = [&](std::uint32_t block, std::uint32_t when) { return when < a.launch + a.seen_of(block); };
  const bool written = cell.write_launch >= a.launch && (!shared || cell.write_block == a.block);
  const bool read = cell.read_launch >= a.launch && (!shared || cell.read_block == a.block);
  if (shared && !a.writes && !written) return text("of shared memory that its block has not written");
  if (region->kind == Kind::peers && !a.writes && !written) return text("of shared memory that no block has written");
  if (written) {
    const bool own = cell.write_block == a.block;
    const bool ordered = own ? cell.writer == a.thread || cell.write_barriers < a.barriers
                             : is_over(cell.write_block, cell.write_launch);
    if (!ordered) return race(a, "wrote", cell);
  }
  constexpr std::uint32_t k_counted_blocks = 64;
  const std::uint64_t bit = a.block < k_counted_blocks ? std::uint64_t{1} << a.block : 0;
  if (a.writes) {
    // By the latest of the reads: barriers of blocks make their epochs equal.
    bool ordered = !cell.many_blocks;
    for (std::uint32_t block = 0; block < k_counted_blocks && ordered; ++block)
      if ((cell.read_blocks >> block & 1) != 0 && block != a.block) ordered = is_over(block, cell.read_launch);
    const bool alone = cell.n_readers == 1 && cell.readers[0] == a.thread;
    if (cell.read_block == a.block) ordered = ordered && (alone || cell.read_barriers < a.barriers);
    else if (bit == 0) ordered = false;
    else if ((cell.read_blocks & bit) != 0) ordered = ordered && cell.read_launch < now;
    if (read && !ordered) return race(a, "reads", cell);
    cell.write_launch = now, cell.write_block = a.block, cell.write_barriers = a.barriers;
    cell.writer = a.thread;
    cell.read_launch = 0, cell.read_blocks = 0, cell.n_readers = 0, cell.many_blocks = false;
    return {};
  }
  if (!read) cell.read_blocks = 0, cell.n_readers = 0, cell.many_blocks = false, cell.read_launch = 0;
  else if (cell.read_block != a.block) cell.many_blocks = cell.many_blocks || bit == 0, cell.n_readers = 0;
  else if (cell.read_barriers != a.barriers) cell.n_readers = 0;
  // Reads that a barrier has ended are before this one, so what is ordered behind this one is behind them.
  std::uint64_t others = cell.read_launch < now ? cell.read_blocks & ~bit : 0;
  for (; others != 0; others &= others - 1)
    if (is_over(static_cast<std::uint32_t>(std::countr_zero(others)), cell.read_launch))
      cell.read_blocks &= ~(others & (~others + 1));
  cell.read_blocks |= bit;
  cell.read_launch = std::max(cell.read_launch, now), cell.read_block = a.block, cell.read_barriers = a.barriers;
  const bool known = (cell.n_readers > 0 && cell.readers[0] == a.thread) || cell.n_readers > 1;
  if (!known) cell.readers[cell.n_readers++] = a.thread;
  return {};
}

}  // namespace unroll::shim
