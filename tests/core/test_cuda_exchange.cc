// SPDX-License-Identifier: Apache-2.0
// Which blocks of a loop's kernel wait for each other between two commands, by what both touch.
#include <doctest/doctest.h>

#include "backends/cuda/loops/exchange.h"

namespace unroll::cuda {
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

}  // namespace unroll::cuda
