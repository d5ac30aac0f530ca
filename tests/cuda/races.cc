// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/races.h"

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
  if (region->kind == Kind::constant) return a.writes ? text("of a constant") : std::string();
  if (!region->cells)
    region->cells.reset(static_cast<Cell*>(std::calloc(region->end - region->begin, sizeof(Cell))));
  Cell& cell = region->cells[at - region->begin];
  const bool shared = region->kind == Kind::shared;
  const bool written = cell.write_launch == a.launch && (!shared || cell.write_block == a.block);
  const bool read = cell.read_launch == a.launch && (!shared || cell.read_block == a.block);
  // Of a cooperative launch: another block has passed an arrival for which this one did not wait.
  if (!shared && (cell.write_launch > a.launch || (a.writes && cell.read_launch > a.launch)))
    return race(a, cell.write_launch > a.launch ? "wrote" : "reads", cell);
  if (shared && !a.writes && !written) return text("of shared memory that its block has not written");
  if (written) {
    const bool ordered = cell.write_block == a.block && (cell.writer == a.thread || cell.write_barriers < a.barriers);
    if (!ordered) return race(a, "wrote", cell);
  }
  if (a.writes) {
    const bool own = cell.n_readers == 1 && cell.readers[0] == a.thread;
    const bool ordered = !cell.many_blocks && cell.read_block == a.block && (own || cell.read_barriers < a.barriers);
    if (read && !ordered) return race(a, "reads", cell);
    cell.write_launch = a.launch, cell.write_block = a.block, cell.write_barriers = a.barriers;
    cell.writer = a.thread;
    return {};
  }
  if (!read) cell.n_readers = 0, cell.many_blocks = false;
  else if (cell.read_block != a.block) cell.many_blocks = true, cell.n_readers = 0;
  else if (cell.read_barriers != a.barriers) cell.n_readers = 0;
  cell.read_launch = a.launch, cell.read_block = a.block, cell.read_barriers = a.barriers;
  const bool known = (cell.n_readers > 0 && cell.readers[0] == a.thread) || cell.n_readers > 1;
  if (!known) cell.readers[cell.n_readers++] = a.thread;
  return {};
}

}  // namespace unroll::shim
