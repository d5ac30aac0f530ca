// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/ops/row_operations.h"

#include <algorithm>
#include <string>

#include "backends/cpu/kernels/elementwise.h"
#include "backends/cpu/kernels/row_kernels.h"
#include "unroll/support/error.h"

namespace unroll::cpu {

namespace {

using Index = std::int64_t;

[[noreturn]] void refuse_operation(const std::string& what) {
  throw Error(ErrorKind::internal, "cpu fused reduction", what);
}

}  // namespace

RowOperations::RowOperations(const Expression& source) : s_(source) {
  read_registers();
  join_parts();
  make_operations();
  find_lives();
}

int RowOperations::root_of(int r) {
  while (reg(r).parent != r) r = reg(r).parent;
  return r;
}

RowOperations::Index RowOperations::column_of(int r) {
  Index column = 0;
  for (; reg(r).parent != r; r = reg(r).parent) column += reg(r).first;
  return column;
}

void RowOperations::read_registers() {
  const std::vector<DType> dtypes = common::register_dtypes(s_);
  const std::vector<Index> columns = common::register_columns(s_);
  first = static_cast<int>(s_.inputs.size() + s_.constants.size());
  for (std::size_t r = 0; r < dtypes.size(); ++r) {
    registers.push_back({dtypes[r], columns[r], static_cast<int>(r)});
    origin_.push_back(static_cast<int>(r));
    if (static_cast<int>(r) < first) continue;
    const Instruction& i = s_.instructions[r - first];
    const bool copies = i.op == Op::stop_gradient || (i.op == Op::cast && i.dtype == i.to);
    if (copies) origin_.back() = origin(i.a);
    registers.back().computed = is_elementwise(i.op) || i.op == Op::concat || i.op == Op::broadcast;
  }
  for (std::size_t i = 0; i < s_.inputs.size(); ++i)
    registers[i].for_all_rows = s_.inputs[i].strides == Strides{};
  for (std::size_t i = 0; i < s_.constants.size(); ++i) registers[s_.inputs.size() + i].for_all_rows = true;
  for_instructions([&](int r, const Instruction& i) {
    if (origin(r) == r)
      for (const int operand : operands_of(i)) ++reg(operand).uses;
  });
  for (const auto& result : s_.results) ++reg(origin(result.from)).uses;
}

std::vector<int> RowOperations::operands_of(const Instruction& i) const {
  const int all[] = {i.a, i.b, i.c}, n = i.op == Op::concat ? 2 : op_info(i.op).max_inputs;
  std::vector<int> list;
  for (int k = 0; k < n; ++k) list.push_back(origin(all[k]));
  return list;
}

// Slices are views of their source; pieces of a concat lie in the concat.
void RowOperations::join_parts() {
  std::vector<int> concats;
  for_instructions([&](int r, const Instruction& i) {
    if (i.op == Op::slice && i.columns > 1) {
      reg(r).parent = origin(i.a);
      reg(r).first = i.first;
    }
    if (i.op == Op::concat) concats.push_back(r);
  });
  for (auto at = concats.rbegin(); at != concats.rend(); ++at) {
    Index column = 0;
    for (const int piece : operands_of(s_.instructions[*at - first])) {
      RowRegister& p = reg(piece);
      if (p.computed && p.parent == piece && p.columns > 1) {
        p.parent = *at;
        p.first = column;
      }
      column += p.columns;
    }
  }
}

void RowOperations::make_operations() {
  for_instructions([&](int r, const Instruction& i) {
    if (origin(r) != r) return;
    const std::vector<int> from = operands_of(i);
    switch (i.op) {
      case Op::slice:
        if (reg(r).parent == r) add({move_function(element_bytes(reg(r).dtype)), i.op, r, 1, {cut(from[0], i.first)}});
        break;
      case Op::concat: add_pieces(r, from); break;
      case Op::broadcast: add({spread_function(element_bytes(reg(r).dtype)), i.op, r, 1, {from[0]}}); break;
      case Op::reduce_sum:
      case Op::reduce_max: add_reduction(r, i, from[0]); break;
      default: add_elementwise(r, i, from);
    }
  });
  for (std::size_t k = 0; k < s_.results.size(); ++k)
    if (s_.results[k].sums) add_sum(k);
  std::erase_if(operations, [](const RowOperation& operation) { return !operation.function; });
}

// A sum over rows replaces a mul that only it reads.
void RowOperations::add_sum(std::size_t result) {
  const int from = origin(s_.results[result].from);
  const DType dtype = reg(from).dtype;
  const int sum = add_register(dtype, reg(from).columns);
  reg(sum).result = static_cast<int>(result);
  const RowRegister& terms = reg(from);
  if (terms.made_by != RowRegister::k_never && terms.uses == 1 && terms.parent == from) {
    RowOperation& term = operations[terms.made_by];
    const auto is = [&](Elementwise::TileFunction f) { return f && term.function == f; };
    const bool scaled = is(repeated_pair_function(Op::mul, Op::mul, true, dtype, 2)) ||
                        is(repeated_pair_function(Op::mul, Op::mul, false, dtype, 2));
    const bool product = is(tile_function(Op::mul, dtype, dtype));
    const auto both = scaled    ? row_accumulation_of_scaled_products(dtype)
                      : product ? row_accumulation_of_products(dtype)
                                : nullptr;
    if (both) {
      term = {both, Op::reduce_sum, sum, term.n, {term.operands[0], term.operands[1], term.operands[2]}};
      return;
    }
  }
  const auto function = row_accumulation(dtype);
  if (!function) refuse_operation("no kernel for sums of " + std::string(dtype_name(dtype)));
  add({function, Op::reduce_sum, sum, 1, {from}});
}

void RowOperations::add(const RowOperation& operation) {
  reg(operation.dst).made_by = static_cast<int>(operations.size());
  operations.push_back(operation);
}

int RowOperations::add_register(DType dtype, Index columns) {
  registers.push_back({dtype, columns, static_cast<int>(registers.size())});
  origin_.push_back(static_cast<int>(origin_.size()));
  return static_cast<int>(registers.size()) - 1;
}

// Returns the part of a register that begins at this column.
int RowOperations::cut(int from, Index column) {
  const int part = add_register(reg(from).dtype, 1);
  reg(part).parent = from;
  reg(part).first = column;
  return part;
}

void RowOperations::add_pieces(int r, const std::vector<int>& from) {
  Index column = 0;
  for (const int piece : from) {
    const Index columns = reg(piece).columns;
    if (reg(piece).parent != r || reg(piece).first != column) {
      const int there = cut(r, column);
      reg(there).columns = columns;
      add({move_function(element_bytes(reg(r).dtype)), Op::concat, there, 1, {piece}});
    }
    column += columns;
  }
}

void RowOperations::add_reduction(int r, const Instruction& i, int from) {
  const int made_by = reg(from).made_by;
  if (i.op == Op::reduce_sum && made_by != RowRegister::k_never && reg(from).uses == 1 && reg(from).parent == from) {
    RowOperation& term = operations[made_by];
    const bool plain = term.function == tile_function(term.op, i.dtype, i.dtype);
    if (const auto function = row_sum_of(term.op, i.dtype); function && plain && reg(from).columns > 1) {
      const RowOperation both{function, i.op, r, term.n, {term.operands[0], term.operands[1]}};
      term.function = nullptr;
      return add(both);
    }
  }
  const auto function = row_reduction(i.op, i.dtype);
  if (!function)
    refuse_operation("no kernel for " + std::string(op_info(i.op).name) + " on " + std::string(dtype_name(i.dtype)));
  add({function, i.op, r, 1, {from}});
}

void RowOperations::add_elementwise(int r, const Instruction& i, const std::vector<int>& from) {
  const Index columns = reg(r).columns;
  if (from.size() == 2 && add_pair(r, i, from)) return;
  unsigned repeated = 0;
  for (std::size_t k = 0; k < from.size(); ++k) repeated |= (is_repeated(from[k], columns) ? 1u : 0u) << k;
  RowOperation operation{repeated_function(i.op, i.dtype, repeated), i.op, r, static_cast<int>(from.size()), {}, true};
  std::copy(from.begin(), from.end(), operation.operands);
  if (repeated == 0 || from.size() != 2 || !operation.function) {
    operation.function = tile_function(i.op, i.dtype, i.to);
    if (!operation.function)
      refuse_operation("no kernel for " + std::string(op_info(i.op).name) + " on " + std::string(dtype_name(i.dtype)));
    for (int k = 0; k < operation.n; ++k)
      if ((repeated >> k & 1) != 0) operation.operands[k] = spread_over(operation.operands[k], columns);
  }
  add(operation);
}

int RowOperations::spread_over(int r, Index columns) {
  const int whole = add_register(reg(r).dtype, columns);
  add({spread_function(element_bytes(reg(r).dtype)), Op::broadcast, whole, 1, {r}});
  return whole;
}

// Fuses an add, sub or mul with this instruction, its only reader.
bool RowOperations::add_pair(int r, const Instruction& outer, const std::vector<int>& from) {
  for (std::size_t k = 0; k < 2; ++k) {
    const RowRegister& between = reg(from[k]);
    if (between.uses != 1 || between.made_by == RowRegister::k_never || between.columns != reg(r).columns) continue;
    if (between.parent != from[k] || from[k] < first || from[k] >= n_named()) continue;
    RowOperation& inner = operations[between.made_by];
    const Instruction& inside = s_.instructions[from[k] - first];
    if (inner.n != 2 || !is_elementwise(inner.op)) continue;
    int x = origin(inside.a), y = origin(inside.b);
    const int z = from[1 - k];
    const Index columns = reg(r).columns;
    if (is_repeated(x, columns) && !is_repeated(y, columns) && inside.op != Op::sub) std::swap(x, y);
    const auto bit = [&](int operand, unsigned value) { return is_repeated(operand, columns) ? value : 0u; };
    const unsigned repeated = bit(x, 1) + bit(y, 2) + bit(z, 4);
    const auto function = repeated == 0 ? pair_function(outer.op, inside.op, k == 0, outer.dtype)
                                        : repeated_pair_function(outer.op, inside.op, k == 0, outer.dtype, repeated);
    if (!function) continue;
    inner.function = nullptr;
    add({function, outer.op, r, 3, {x, y, z}, true});
    return true;
  }
  return false;
}

void RowOperations::find_lives() {
  const int n = static_cast<int>(operations.size());
  for (int o = 0; o < n; ++o) {
    const RowOperation& operation = operations[o];
    for (int k = 0; k < operation.n; ++k) reg(root_of(operation.operands[k])).last_use = o;
  }
  for (const auto& result : s_.results)
    if (!result.sums) reg(root_of(origin(result.from))).last_use = n;
}

}  // namespace unroll::cpu
