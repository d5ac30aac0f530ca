// SPDX-License-Identifier: Apache-2.0
// Memory that holds symbols, knows who touched each byte, and says when an access breaks a rule.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backends/common/hazards.h"
#include "unroll/passes/backend.h"

namespace unroll::strict {

// Stands for the number of one element.
using Symbol = std::uint64_t;
inline constexpr Symbol k_first_symbol = 2;

// A value, or a part of one: where its elements lie.
struct Place {
  Storage::Place kind;
  common::Space space;
  std::size_t offset;  // bytes
  Ints strides;        // elements
  Shape shape;
  std::size_t element_bytes;
};

// Calls f(element, coordinates) for the elements of a shape in row-major order.
template <class F>
void for_elements(const Shape& shape, F f) {
  std::vector<std::int64_t> at(static_cast<std::size_t>(shape.rank()), 0);
  for (std::int64_t e = 0; e < shape.elements(); ++e) {
    f(e, at);
    for (std::size_t axis = at.size(); axis-- > 0;) {
      if (++at[axis] < shape[static_cast<int>(axis)]) break;
      at[axis] = 0;
    }
  }
}
inline std::int64_t dot(const std::vector<std::int64_t>& at, const Ints& strides) {
  std::int64_t sum = 0;
  for (std::size_t axis = 0; axis < at.size(); ++axis) sum += at[axis] * strides[axis];
  return sum;
}

// Sets of tasks, each once: most bytes of a value have the same readers.
class ReaderSets {
 public:
  int with(int set, int task);
  const std::vector<int>& members(int set) const { return members_[static_cast<std::size_t>(set)]; }

 private:
  std::vector<std::vector<int>> members_{{}};
  std::map<std::pair<int, int>, int> next_;
};

class SymbolicMemory {
 public:
  using Complain = std::function<void(const std::string& what)>;
  static constexpr int k_before_all = -1;

  SymbolicMemory(const common::Hazards& hazards, Complain complain);

  // At least so many bytes.
  void allocate(const common::Space& space, std::size_t bytes);
  // From here on accesses are those of this task; of k_before_all, which comes before every task, at first.
  void begin(int task);
  // The elements must be there. by_element: element e is only needed for element e of the task's results.
  void read(const Place& place, const std::vector<Symbol>& wanted, bool by_element);
  // Null: numbers that nobody may read.
  void write(const Place& place, const std::vector<Symbol>* now);
  // What this task touched is what is stated for it.
  void check_stated();
  // Looks without touching.
  bool holds(const Place& place, const std::vector<Symbol>& wanted);

 private:
  struct Cell {  // a byte
    Symbol content = 0;  // 8 times the symbol of an element plus the number of the byte in it; 0: unwritten
    int writer = k_before_all;
    int readers = 0;           // since it was written, in sets_
    std::int64_t element = 0;  // that the last reader read here; -1 when it may not be written by its reader
  };
  using BySpace = std::map<common::Space, std::vector<common::ByteRange>>;

  bool comes_after(int earlier) const {
    return earlier == k_before_all || earlier == task_ ||
           paths_[static_cast<std::size_t>(task_)][static_cast<std::size_t>(earlier)];
  }
  Cell* cells_at(const Place& place, std::int64_t element);
  void write_byte(Cell& cell, Symbol content, std::int64_t element);
  static void touch(BySpace& list, const Place& place, std::int64_t element);
  static BySpace by_space(const std::vector<common::Region>& regions);
  static BySpace joined(BySpace map);

  const common::Hazards& hazards_;
  Complain complain_;
  std::vector<std::vector<bool>> paths_;  // [task][earlier task]
  std::map<common::Space, std::vector<Cell>> memory_;
  ReaderSets sets_;
  int task_ = k_before_all;
  BySpace reads_, writes_;  // of this task
};

}  // namespace unroll::strict
