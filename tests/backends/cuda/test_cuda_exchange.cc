// SPDX-License-Identifier: Apache-2.0
// Which blocks of a loop's kernel wait for each other between two commands, by what both touch.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "backends/cuda/scan/buffer_slots.h"
#include "backends/cuda/scan/exchange.h"

namespace unroll::cuda::test_cuda_exchange {
namespace {

const int k_memory = 0, k_other_memory = 0;

// A matrix of 4 rows of 64 bytes at `begin`: columns of 4 bytes, `units` of them.
LoopTouch by_units(std::size_t begin, bool writes, std::size_t units = 4) {
  return {{&k_memory, begin, begin + 3 * 64 + 4 * units, writes}, 64, 4 * units, 4, units};
}
// Its rows: any block that has a row reads all of it.
LoopTouch by_rows(std::size_t begin, bool writes) { return {{&k_memory, begin, begin + 256, writes}, 64, 64, 4, 0}; }
LoopTouch by_any(std::size_t begin, std::size_t bytes, bool writes) {
  return {{&k_memory, begin, begin + bytes, writes}};
}

Wait between(const LoopTouch& before, const LoopTouch& after) {
  Exchange exchange;
  exchange.add({before});
  return exchange.wait_for({after});
}

}  // namespace

TEST_CASE("blocks wait for nothing where the same one touches an element again, or nobody writes") {
  CHECK(between(by_units(0, true), by_units(0, false)) == Wait::none);
  CHECK(between(by_units(0, true), by_units(0, true)) == Wait::none);
  CHECK(between(by_any(0, 100, false), by_any(0, 100, false)) == Wait::none);
  CHECK(between(by_any(0, 100, true), by_any(100, 100, false)) == Wait::none);
  CHECK(between(by_units(0, true), by_units(16, true)) == Wait::none);   // gates side by side
  CHECK(between(by_units(16, true), by_units(0, false)) == Wait::none);  // likewise
  LoopTouch elsewhere = by_units(0, true);
  elsewhere.memory = &k_other_memory;
  CHECK(between(elsewhere, by_rows(0, false)) == Wait::none);
}

TEST_CASE("blocks wait for those with the same rows where units of others are read, else for all") {
  CHECK(between(by_units(0, true), by_rows(0, false)) == Wait::group);
  CHECK(between(by_units(48, true), by_rows(0, false)) == Wait::group);  // the last columns of the rows
  CHECK(between(by_rows(0, false), by_units(16, true)) == Wait::group);
  CHECK(between(by_units(0, true), by_units(8, false)) == Wait::group);  // other units of the same rows
  CHECK(between(by_units(0, true, 4), by_units(0, false, 2)) == Wait::group);
  CHECK(between(by_units(0, true), by_units(64, false)) == Wait::grid);  // a row further
  CHECK(between(by_units(56, true), by_units(0, false)) == Wait::grid);  // over the end of a row
  CHECK(between(by_units(0, true), by_any(0, 4, false)) == Wait::grid);
  LoopTouch fewer = by_rows(0, false);
  fewer.rows = 2, fewer.end = 128;  // other groups have them
  CHECK(between(by_units(0, true), fewer) == Wait::grid);
}

TEST_CASE("a wait of blocks with the same rows leaves open what the grid has to wait for") {
  Exchange exchange;
  exchange.add({by_units(0, true)});
  exchange.waited(Wait::group);
  CHECK(exchange.wait_for({by_rows(0, false)}) == Wait::none);
  CHECK(exchange.wait_for({by_any(0, 4, false)}) == Wait::grid);
  exchange.waited(Wait::grid);
  CHECK(exchange.wait_for({by_any(0, 4, false)}) == Wait::none);
}

namespace {

// A loop with a buffer for an operand of 4 columns, whose table has a word for each read and each write.
struct Loop {
  BufferSlots slots{{{.columns = 4, .readers = 1}}};
  std::vector<std::int64_t> table = std::vector<std::int64_t>(100, 77);
  std::size_t next = 0;

  std::size_t read(std::size_t begin) {
    ExchangeUse use;
    use.reads = 0;
    slots.add({&use, {by_rows(begin, false)}, next}, table);
    return next++;
  }
  // Columns from `first` on.
  std::size_t write(std::size_t begin, std::int64_t first = 0, std::int64_t columns = 4) {
    ExchangeUse use;
    use.writes = {0};
    use.pieces = {{0, first, columns, 4, {0}, true}};
    const auto units = static_cast<std::size_t>(columns);
    slots.add({&use, {by_units(begin + static_cast<std::size_t>(first) * 4, true, units)}, next}, table);
    return next++;
  }
  void wait() { slots.waited(Wait::group); }
};
constexpr std::size_t k_here = 1024, k_there = 2048;

}  // namespace

TEST_CASE("an operand is sent to the other blocks if a product reads it behind a wait, and two slots take turns") {
  Loop loop;
  const std::size_t first = loop.read(k_here);  // nobody passed it
  CHECK(loop.table[first] % 2 == 0);
  std::int64_t slot = -1;
  for (int step = 0; step < 4; ++step) {
    const std::size_t written = loop.write(k_here);
    CHECK(loop.table[written] == -1);  // nothing reads it yet
    loop.wait();
    const std::size_t read = loop.read(k_here);
    CHECK(loop.table[read] % 2 == 1);
    CHECK(loop.table[read] / 2 == loop.table[written] / 2);
    CHECK(loop.table[written] % 2 == 1);  // nothing else reads it
    CHECK(loop.table[read] / 2 != slot);
    slot = loop.table[read] / 2;
  }
  CHECK(loop.table[loop.write(k_here)] == -1);
  CHECK(loop.slots.passed() == 4);
  for (const auto& [word, value] : loop.slots.otherwise()) CHECK((value == -1 || value % 2 == 0));
}

TEST_CASE("a block reads an operand from memory if no wait, not all columns, or another value lies between") {
  const auto is_there = [](const auto& commands) {
    Loop loop;
    commands(loop);
    return loop.table[loop.read(k_here)] % 2 == 1;
  };
  CHECK(is_there([](Loop& loop) { loop.write(k_here, 0, 2), loop.write(k_here, 2, 2), loop.wait(); }));
  CHECK(!is_there([](Loop& loop) { loop.write(k_here); }));
  CHECK(!is_there([](Loop& loop) { loop.write(k_here, 0, 2), loop.wait(); }));
  CHECK(!is_there([](Loop& loop) { loop.write(k_here, 0, 2), loop.write(k_there, 2, 2), loop.wait(); }));
  CHECK(!is_there([](Loop& loop) { loop.write(k_there), loop.wait(); }));
  CHECK(!is_there([](Loop& loop) { loop.write(k_here), loop.wait(), loop.write(k_there); }));
  CHECK(!is_there([](Loop& loop) {
    loop.write(k_here);
    loop.slots.add({nullptr, {by_any(k_here + 32, 4, true)}, 0}, loop.table);  // a copy to one of its rows
    loop.wait();
  }));
}

TEST_CASE("a slot is not written while other blocks may read it") {
  Loop loop;
  loop.write(k_here), loop.wait(), loop.read(k_here);
  loop.write(k_there);  // the other slot
  loop.wait();
  CHECK(loop.table[loop.read(k_there)] % 2 == 1);
  const std::size_t last = loop.write(k_here), again = loop.write(k_there);  // one slot is free, and nothing waits
  loop.wait();
  CHECK(loop.table[loop.read(k_there)] % 2 == 0);
  CHECK(loop.table[last] == -1);
  CHECK(loop.table[again] == -1);
}

}  // namespace unroll::cuda::test_cuda_exchange
