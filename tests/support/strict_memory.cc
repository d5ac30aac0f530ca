// SPDX-License-Identifier: Apache-2.0
#include "tests/support/strict_memory.h"

#include <algorithm>

namespace unroll::strict {

using common::ByteRange;
using common::Region;

namespace {

constexpr Symbol k_unwritten = 0, k_scratch = 8;
constexpr std::int64_t k_no_element = -1;

// Which earlier tasks a path of edges leads from, for each task.
std::vector<std::vector<bool>> paths_of(std::size_t n_tasks, const std::vector<std::pair<int, int>>& edges) {
  std::vector<std::vector<std::size_t>> before(n_tasks);
  for (const auto& [a, b] : edges) before[static_cast<std::size_t>(b)].push_back(static_cast<std::size_t>(a));
  std::vector<std::vector<bool>> paths(n_tasks, std::vector<bool>(n_tasks, false));
  for (std::size_t task = 0; task < n_tasks; ++task)
    for (const std::size_t a : before[task]) {
      if (a >= task) continue;  // against the order of the plan: no path
      paths[task][a] = true;
      for (std::size_t k = 0; k < a; ++k)
        if (paths[a][k]) paths[task][k] = true;
    }
  return paths;
}

}  // namespace

int ReaderSets::with(int set, int task) {
  const auto [at, is_new] = next_.try_emplace({set, task}, static_cast<int>(members_.size()));
  if (!is_new) return at->second;
  std::vector<int> members = members_[static_cast<std::size_t>(set)];
  if (std::find(members.begin(), members.end(), task) != members.end()) return at->second = set;
  members.push_back(task);
  members_.push_back(std::move(members));
  return at->second;
}

SymbolicMemory::SymbolicMemory(const common::Hazards& hazards, Complain complain)
    : hazards_(hazards), complain_(std::move(complain)), paths_(paths_of(hazards.tasks.size(), hazards.edges)) {}

void SymbolicMemory::allocate(const common::Space& space, std::size_t bytes) {
  auto& cells = memory_[space];
  cells.resize(std::max(cells.size(), bytes));
}

void SymbolicMemory::begin(int task) {
  task_ = task;
  reads_.clear();
  writes_.clear();
}

SymbolicMemory::Cell* SymbolicMemory::cells_at(const Place& p, std::int64_t element) {
  const auto width = static_cast<std::int64_t>(p.element_bytes);
  const std::int64_t begin = static_cast<std::int64_t>(p.offset) + element * width;
  auto& cells = memory_[p.space];
  if (begin < 0 || begin + width > static_cast<std::int64_t>(cells.size())) {
    complain_("goes beyond the memory there is");
    return nullptr;
  }
  if (begin % width != 0) complain_("has an element that is not aligned");
  return cells.data() + begin;
}

void SymbolicMemory::touch(BySpace& list, const Place& p, std::int64_t element) {
  auto& ranges = list[p.space];
  const std::size_t begin = p.offset + static_cast<std::size_t>(element) * p.element_bytes;
  if (!ranges.empty() && ranges.back().end == begin) ranges.back().end += p.element_bytes;
  else ranges.push_back({begin, begin + p.element_bytes});
}

void SymbolicMemory::read(const Place& p, const std::vector<Symbol>& wanted, bool by_element) {
  if (p.kind == Storage::Place::none) return complain_("reads a value that has no place");
  for_elements(p.shape, [&](std::int64_t e, const std::vector<std::int64_t>& at) {
    const std::int64_t element = dot(at, p.strides);
    Cell* const cells = cells_at(p, element);
    if (!cells) return;
    touch(reads_, p, element);
    for (std::size_t b = 0; b < p.element_bytes; ++b) {
      Cell& cell = cells[b];
      if (cell.content == k_unwritten) complain_("reads bytes that nobody wrote");
      else if (cell.content != 8 * wanted[static_cast<std::size_t>(e)] + b)
        complain_("reads bytes that hold something else by then");
      if (!comes_after(cell.writer))
        complain_("reads what task " + std::to_string(cell.writer) + " writes, in no order");
      // Read by this task as another element as well: then no result of it may lie here.
      const int before = cell.readers;
      cell.readers = sets_.with(before, task_);
      const bool again = cell.readers == before && cell.element != e;
      cell.element = by_element && !again ? e : k_no_element;
    }
  });
}

void SymbolicMemory::write(const Place& p, const std::vector<Symbol>* now) {
  for_elements(p.shape, [&](std::int64_t e, const std::vector<std::int64_t>& at) {
    const std::int64_t element = dot(at, p.strides);
    Cell* const cells = cells_at(p, element);
    if (!cells) return;
    touch(writes_, p, element);
    for (std::size_t b = 0; b < p.element_bytes; ++b)
      write_byte(cells[b], now ? 8 * (*now)[static_cast<std::size_t>(e)] + b : k_scratch, e);
  });
}

void SymbolicMemory::write_byte(Cell& cell, Symbol content, std::int64_t element) {
  const bool copies_outputs = task_ + 1 == static_cast<int>(hazards_.tasks.size());  // reads all before it writes
  if (cell.writer == task_ && task_ != k_before_all) complain_("writes a byte twice");
  if (!comes_after(cell.writer))
    complain_("writes over what task " + std::to_string(cell.writer) + " writes, in no order");
  for (const int reader : sets_.members(cell.readers)) {
    if (!comes_after(reader)) complain_("writes over what task " + std::to_string(reader) + " reads, in no order");
    if (reader == task_ && !copies_outputs && cell.element != element)
      complain_("writes over an operand that it reads at other elements");
  }
  cell = {content, task_, 0, k_no_element};
}

void SymbolicMemory::check_stated() {
  const auto& stated = hazards_.tasks[static_cast<std::size_t>(task_)];
  if (joined(std::move(reads_)) != joined(by_space(stated.reads))) complain_("reads other bytes than it states");
  if (joined(std::move(writes_)) != joined(by_space(stated.writes))) complain_("writes other bytes than it states");
}

bool SymbolicMemory::holds(const Place& p, const std::vector<Symbol>& wanted) {
  bool right = true;
  for_elements(p.shape, [&](std::int64_t e, const std::vector<std::int64_t>& at) {
    const Cell* const cells = cells_at(p, dot(at, p.strides));
    for (std::size_t b = 0; right && b < p.element_bytes; ++b)
      right = cells && cells[b].content == 8 * wanted[static_cast<std::size_t>(e)] + b;
  });
  return right;
}

SymbolicMemory::BySpace SymbolicMemory::by_space(const std::vector<Region>& regions) {
  BySpace map;
  for (const Region& region : regions)
    map[region.space].insert(map[region.space].end(), region.ranges.begin(), region.ranges.end());
  return map;
}

SymbolicMemory::BySpace SymbolicMemory::joined(BySpace map) {
  for (auto& [space, ranges] : map) {
    std::sort(ranges.begin(), ranges.end(), [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; });
    std::vector<ByteRange> list;
    for (const ByteRange& range : ranges) {
      if (!list.empty() && range.begin <= list.back().end) list.back().end = std::max(list.back().end, range.end);
      else list.push_back(range);
    }
    ranges = std::move(list);
  }
  return map;
}

}  // namespace unroll::strict
