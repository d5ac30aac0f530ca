// SPDX-License-Identifier: Apache-2.0
// The operations of a row expression: registers that alias others or parts of them, and instructions that one kernel
// fuses.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/kernels.h"

namespace unroll::cpu {

struct RowRegister {
  static constexpr int k_never = -1;
  enum class Home : std::uint8_t { none, memory, tile, row_values, fill };

  DType dtype;
  std::int64_t columns;
  int parent;                  // itself, or the register that it is a part of
  std::int64_t first = 0;      // column of the parent
  int uses = 0;
  int made_by = k_never;       // operation
  bool computed = false;       // column by column: may be part of a concat
  bool for_all_rows = false;   // one element
  int last_use = k_never;      // operation; after the last one for results
  // Storage (row_program.cc).
  int result = k_never;        // result whose memory it is written to
  Home home = Home::none;
  int location = k_never;
  std::int64_t row_offset = 0;  // in the tiles
  bool keeps = false;           // its tile is never released
};

struct RowOperation {
  Elementwise::TileFunction function;
  Op op;
  int dst, n;
  int operands[3];
  bool in_place = false;  // the result may overwrite an operand of its size
};

class RowOperations {
 public:
  using Index = std::int64_t;
  // Throws Error(internal) if registers do not match or a kernel is missing.
  explicit RowOperations(const Expression& source);

  std::vector<RowRegister> registers;    // registers of the expression, then temporaries
  std::vector<RowOperation> operations;  // in order
  int first = 0;                         // first register of an instruction

  RowRegister& reg(int r) { return registers[r]; }
  // Returns the register that contains r, and r's first column in it.
  int root_of(int r);
  Index column_of(int r);
  // Copies are aliases of their source.
  int origin(int r) const { return origin_[r]; }

 private:
  void read_registers();
  void join_parts();
  void make_operations();
  void find_lives();

  std::vector<int> operands_of(const Instruction& i) const;
  bool is_repeated(int r, Index columns) { return columns > 1 && reg(r).columns == 1 && !reg(r).for_all_rows; }
  int n_named() const { return first + static_cast<int>(s_.instructions.size()); }

  void add(const RowOperation& operation);
  int add_register(DType dtype, Index columns);
  int cut(int from, Index column);
  int spread_over(int r, Index columns);
  void add_pieces(int r, const std::vector<int>& from);
  void add_reduction(int r, const Instruction& i, int from);
  void add_elementwise(int r, const Instruction& i, const std::vector<int>& from);
  bool add_pair(int r, const Instruction& outer, const std::vector<int>& from);
  void add_sum(std::size_t result);

  // f(register, instruction)
  template <class F>
  void for_instructions(F f) {
    for (std::size_t k = 0; k < s_.instructions.size(); ++k) f(first + static_cast<int>(k), s_.instructions[k]);
  }

  const Expression& s_;
  std::vector<int> origin_;
};

}  // namespace unroll::cpu
