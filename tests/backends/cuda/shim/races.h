// SPDX-License-Identifier: Apache-2.0
// Which threads may access which memory. A launch is wrong when it accesses memory that is not allocated, reads shared
// memory that its block (or one of its cluster) has not written, or accesses an address twice, one of them a write, in
// threads that no barrier orders: of one block between two barriers, or of two blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace unroll::shim {

class Memory {
 public:
  // peers: shared memory of one block, into which the other blocks of its cluster may store.
  enum class Kind : std::uint8_t { global, shared, peers, constant };
  void add(const void* begin, std::size_t bytes, Kind kind);
  void remove(const void* begin);
  bool contains(const void* begin, std::size_t bytes) const;  // as global memory
  std::size_t size_of(const void* begin) const;               // 0: nothing begins there

  struct Access {
    const void* address;
    unsigned bytes;
    bool writes;
    // `epoch` counts the barriers of blocks in the launch; epochs of another block below seen_of are over.
    std::uint32_t launch, epoch;
    unsigned (*seen_of)(unsigned block);
    std::uint32_t block, barriers;
    std::uint16_t thread;
  };
  // Empty, or what is wrong.
  std::string check(const Access& access);
  std::uint64_t checked() const { return checked_; }
  std::uint64_t checked_global() const { return checked_global_; }  // of these, of global memory

 private:
  // The last accesses of an address. Launches are counted with the epochs of those before.
  struct Cell {
    std::uint32_t write_launch, write_block, write_barriers;
    std::uint32_t read_launch, read_block, read_barriers;
    std::uint64_t read_blocks;  // a bit for each that has read it since it was written, of blocks below 64
    std::uint16_t writer, readers[2];
    std::uint8_t n_readers;
    bool many_blocks;  // have read it, one of them not below 64
  };
  struct FreeCells {
    void operator()(Cell* cells) const;
  };
  struct Region {
    std::uintptr_t begin, end;
    Kind kind;
    std::unique_ptr<Cell[], FreeCells> cells;  // one for each byte, made on the first access
  };
  Region* find(std::uintptr_t address);
  static std::string race(const Access& access, const char* other, const Cell& cell);

  std::map<std::uintptr_t, Region> regions_;
  Region* last_ = nullptr;
  std::uint64_t checked_ = 0, checked_global_ = 0;
};

}  // namespace unroll::shim
