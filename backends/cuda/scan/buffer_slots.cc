// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/scan/buffer_slots.h"

#include <algorithm>

namespace unroll::cuda {

void BufferSlots::empty(Slot& slot) {
  slot.places.clear(), slot.words.clear();
  slot.columns = 0, slot.readers = 0;
  slot.is_sent = slot.only_there = false;
}

void BufferSlots::add(const ExchangeCommand& command, std::vector<std::int64_t>& table) {
  if (command.use && command.use->reads >= 0) read(command.use->reads, command, table);
  drop_overwritten(command);
  if (!command.use) return;
  for (std::size_t k = 0; k < command.use->writes.size(); ++k) {
    table[command.words + (command.use->reads >= 0) + k] = -1;  // until a product reads it
    write(k, command);
  }
}

void BufferSlots::read(int buffer, const ExchangeCommand& command, std::vector<std::int64_t>& table) {
  Buffer& b = buffers_[buffer];
  const LoopTouch& operand = command.touches[0];
  Slot& latest = b.slots[b.current];
  const bool is_there = latest.columns == b.width.columns && latest.sent < waits_ &&
                        std::any_of(latest.places.begin(), latest.places.end(),
                                    [&](const Place& place) { return place.begins_as(operand); });
  if (is_there) {
    ++latest.readers;
    latest.read = waits_;
    const bool only_there = latest.only_there && latest.readers == b.width.readers;
    for (const std::size_t word : latest.words) {
      table[word] = 2 * b.current + only_there;
      if (!latest.is_sent) otherwise_.emplace_back(word, -1);
    }
    latest.is_sent = true;
    table[command.words] = 2 * b.current + 1;
    otherwise_.emplace_back(command.words, 2 * b.current);
    ++passed_;
    return;
  }
  // The block fills the slot that was begun before the latest one: what others sent there was read, or is never read.
  const int other = 1 - b.current;
  empty(b.slots[other]);
  b.slots[other].read = waits_;
  table[command.words] = 2 * other;
}

// Memory that has another value now is no longer the operand of a product that reads there. `write` puts the results of
// the command into slots.
void BufferSlots::drop_overwritten(const ExchangeCommand& command) {
  for (std::size_t k = 0; k < command.touches.size(); ++k) {
    const LoopTouch& touch = command.touches[k];
    if (!touch.writes) continue;
    for (std::size_t number = 0; number < buffers_.size(); ++number) {
      const auto passes = [&](const ExchangeUse::Piece& piece) {
        return piece.buffer == static_cast<int>(number) &&
               std::count(piece.accesses.begin(), piece.accesses.end(), k) > 0;
      };
      if (command.use && std::any_of(command.use->pieces.begin(), command.use->pieces.end(), passes)) continue;
      for (Slot& slot : buffers_[number].slots)
        std::erase_if(slot.places, [&](const Place& place) { return place.meets(touch); });
    }
  }
}

// Places of the operand if the command stores these columns of it there.
std::vector<BufferSlots::Place> BufferSlots::places_of(const ExchangeUse::Piece& piece,
                                                       const ExchangeCommand& command) const {
  const std::size_t columns = buffers_[piece.buffer].width.columns;
  std::vector<Place> places;
  for (const std::size_t access : piece.accesses) {
    const LoopTouch& touch = command.touches[access];
    const std::size_t begin = touch.begin - piece.first * piece.element;
    const std::size_t rows = std::max<std::size_t>(touch.rows, 1);
    places.push_back({touch.memory, begin, begin + (rows - 1) * touch.row_bytes + columns * piece.element});
  }
  return places;
}

void BufferSlots::write(std::size_t which, const ExchangeCommand& command) {
  const int number = command.use->writes[which];
  Buffer& b = buffers_[number];
  std::vector<Place> places;
  std::int64_t columns = 0;
  bool only_there = true;
  const auto keep_common = [](std::vector<Place>& of, const std::vector<Place>& others) {
    std::erase_if(of, [&](const Place& place) { return !std::count(others.begin(), others.end(), place); });
  };
  for (const ExchangeUse::Piece& piece : command.use->pieces) {
    if (piece.buffer != number) continue;
    if (columns == 0) places = places_of(piece, command);
    else keep_common(places, places_of(piece, command));
    columns += piece.columns;
    only_there = only_there && piece.only_there;
  }
  Slot* slot = &b.slots[b.current];
  std::vector<Place> common = slot->places;
  keep_common(common, places);
  if (!common.empty() && slot->columns + columns <= b.width.columns && !slot->is_sent) {
    slot->places = std::move(common);
    slot->only_there = slot->only_there && only_there;
  } else {
    // Another value than the latest one. Other blocks may still read a slot, unless all waited since.
    const auto is_free = [&](const Slot& each) { return each.read < waits_; };
    if (is_free(b.slots[1 - b.current])) b.current = 1 - b.current;
    else if (!slot->places.empty() || !is_free(*slot)) return empty(*slot);
    slot = &b.slots[b.current];
    empty(*slot);
    slot->places = std::move(places);
    slot->only_there = only_there;
  }
  slot->columns += columns;
  slot->sent = waits_;
  slot->words.push_back(command.words + (command.use->reads >= 0) + which);
}

}  // namespace unroll::cuda
