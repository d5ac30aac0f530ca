// SPDX-License-Identifier: Apache-2.0
// Slots of exchange buffers that the commands of a loop write and read, by the memory of their operands. A
// product reads a slot if commands before it have passed all columns of its operand and a wait of the blocks lies
// between. Otherwise its block fills a slot from memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "backends/cuda/scan/exchange.h"
#include "backends/cuda/scan/loops.h"

namespace unroll::cuda {

// A command in order. `words`: of its table, for the buffer that it reads and for those that it writes: twice the slot,
// and 1 if the slot has the operand, or if nothing reads the result from memory; -1: it is not passed.
struct ExchangeCommand {
  const ExchangeUse* use;  // null: none
  const std::vector<LoopTouch>& touches;
  std::size_t words;       // index in the table
};

class BufferSlots {
 public:
  explicit BufferSlots(const std::vector<ExchangeWidth>& widths) : buffers_(widths.size()) {
    for (std::size_t k = 0; k < widths.size(); ++k) buffers_[k].width = widths[k];
  }
  // Writes the words of the command, and those of earlier ones that pass its operand.
  void add(const ExchangeCommand& command, std::vector<std::int64_t>& table);
  void waited(Wait wait) { waits_ += wait != Wait::none; }

  // Words, and what they are where the blocks are no cluster.
  using Otherwise = std::vector<std::pair<std::size_t, std::int64_t>>;
  const Otherwise& otherwise() const { return otherwise_; }
  std::int64_t passed() const { return passed_; }  // operands that were read where others stored them

 private:
  struct Place {
    const void* memory;
    std::size_t begin, end;
    bool begins_as(const LoopTouch& touch) const { return memory == touch.memory && begin == touch.begin; }
    bool meets(const LoopTouch& touch) const {
      return memory == touch.memory && begin < touch.end && touch.begin < end;
    }
    friend bool operator==(const Place&, const Place&) = default;
  };
  // The content of a slot, now or when a product reads it.
  struct Slot {
    std::vector<Place> places;                  // where the operand may lie; none: the slot has nothing
    std::int64_t columns = 0;                   // that were passed
    std::vector<std::size_t> words;             // of the commands that pass them
    bool is_sent = false, only_there = false;   // a product reads it; all commands say so
    std::size_t readers = 0;
    std::int64_t sent = -1, read = -1;          // number of waits before the last one
  };
  struct Buffer {
    ExchangeWidth width;
    Slot slots[2];
    int current = 0;  // that was begun last
  };

  void read(int buffer, const ExchangeCommand& command, std::vector<std::int64_t>& table);
  void write(std::size_t which, const ExchangeCommand& command);
  void drop_overwritten(const ExchangeCommand& command);
  std::vector<Place> places_of(const ExchangeUse::Piece& piece, const ExchangeCommand& command) const;
  static void empty(Slot& slot);

  std::vector<Buffer> buffers_;
  std::int64_t waits_ = 0, passed_ = 0;
  Otherwise otherwise_;
};

}  // namespace unroll::cuda
