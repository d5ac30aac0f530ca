// SPDX-License-Identifier: Apache-2.0
// From registers to tiles of rows: which share memory, which are parts of others, which are read and written where they
// lie, and how many rows fit.
#include "backends/cpu/row_program.h"

#include <algorithm>
#include <string>

#include "backends/cpu/elementwise.h"
#include "backends/cpu/row_kernels.h"
#include "backends/cpu/row_memory.h"
#include "unroll/error.h"

namespace unroll::cpu {

namespace {

using Index = std::int64_t;

constexpr Index k_line = 64;                // bytes; rows of tiles begin on cache lines
constexpr Index k_tile_memory = 24 * 1024;  // of the tiles of a block: they stay in L1
constexpr Index k_most_rows = 128;          // of a block

Index rounded(Index bytes) { return (bytes + k_line - 1) / k_line * k_line; }
[[noreturn]] void fail(const std::string& what) { throw Error(ErrorKind::internal, "cpu row group", what); }

}  // namespace

class RowCompiler {
 public:
  RowCompiler(const Expression& source, RowProgram& target) : s_(source), t_(target) {}

  void compile() {
    read_registers();
    collapse_rows();
    join_parts();
    make_operations();
    find_lives();
    place_inputs();
    place_constants();
    choose_results();
    place_operations();
    place_results();
    choose_rows();
  }

 private:
  using Operand = RowProgram::Operand;
  static constexpr int k_never = -1;

  enum class Home : std::uint8_t { none, memory, tile, row_values, fill };
  struct Register {
    DType dtype;
    Index columns;
    int parent;           // itself, or what it is a part of
    Index first = 0;      // column of the parent
    int uses = 0;
    int made_by = k_never;  // operation
    bool computed = false;  // column by column: may lie in a concat
    bool for_all_rows = false;  // one element
    int last_use = k_never;
    int result = k_never;  // whose memory it is written to
    Home home = Home::none;
    int location = k_never;
    Index row_offset = 0;  // in the tiles
    bool keeps = false;    // its tile is never given back
  };
  struct Operation {
    Elementwise::TileFunction function;
    Op op;
    int dst, n;
    int operands[3];
    bool in_place = false;  // the result may lie on an operand of its size
  };

  static Index bytes_of(DType dtype) { return static_cast<Index>(dtype_bytes(dtype)); }
  Index element(const Register& r) const { return bytes_of(r.dtype); }
  Register& reg(int r) { return registers_[static_cast<std::size_t>(r)]; }
  int root_of(int r) {
    while (reg(r).parent != r) r = reg(r).parent;
    return r;
  }
  Index column_of(int r) {
    Index column = 0;
    for (; reg(r).parent != r; r = reg(r).parent) column += reg(r).first;
    return column;
  }
  // Copies are other names of what they copy.
  int origin(int r) const { return origin_[static_cast<std::size_t>(r)]; }
  bool is_repeated(int r, Index columns) { return columns > 1 && reg(r).columns == 1 && !reg(r).for_all_rows; }

  void read_registers() {
    const std::vector<DType> dtypes = common::register_dtypes(s_);
    const std::vector<Index> columns = common::register_columns(s_);
    first_ = static_cast<int>(s_.inputs.size() + s_.constants.size());
    for (std::size_t r = 0; r < dtypes.size(); ++r) {
      registers_.push_back({dtypes[r], columns[r], static_cast<int>(r)});
      origin_.push_back(static_cast<int>(r));
      if (static_cast<int>(r) < first_) continue;
      const Instruction& i = s_.instructions[r - static_cast<std::size_t>(first_)];
      const bool copies = i.op == Op::stop_gradient || (i.op == Op::cast && i.dtype == i.to);
      if (copies) origin_.back() = origin(i.a);
      registers_.back().computed = is_elementwise(i.op) || i.op == Op::concat || i.op == Op::broadcast;
    }
    for (std::size_t i = 0; i < s_.inputs.size(); ++i)
      registers_[i].for_all_rows = s_.inputs[i].strides == Strides{};
    for (std::size_t i = 0; i < s_.constants.size(); ++i) registers_[s_.inputs.size() + i].for_all_rows = true;
    for_instructions([&](int r, const Instruction& i) {
      if (origin(r) == r)
        for (const int operand : operands_of(i)) ++reg(operand).uses;
    });
    for (const auto& result : s_.results) ++reg(origin(result.from)).uses;
  }
  template <class F>
  void for_instructions(F f) {
    for (std::size_t k = 0; k < s_.instructions.size(); ++k) f(first_ + static_cast<int>(k), s_.instructions[k]);
  }
  std::vector<int> operands_of(const Instruction& i) const {
    const int all[] = {i.a, i.b, i.c}, n = i.op == Op::concat ? 2 : op_info(i.op).max_inputs;
    std::vector<int> list;
    for (int k = 0; k < n; ++k) list.push_back(origin(all[k]));
    return list;
  }

  // Drops dimensions of one row and joins neighbors that every operand walks as one.
  void collapse_rows() {
    std::vector<Strides> strides;
    for (const auto& input : s_.inputs) strides.push_back(input.strides);
    for (const auto& result : s_.results) strides.push_back(result.strides);
    const int last = s_.shape.rank() - 1;
    std::size_t rank = 0;
    std::vector<Strides> joined(strides.size(), Strides{});
    t_.rows_ = 1;
    for (int axis = 0; axis < last; ++axis) {
      const auto i = static_cast<std::size_t>(axis);
      const Index size = s_.shape[axis];
      t_.rows_ *= size;
      if (size == 1) continue;
      bool join = rank > 0;
      for (std::size_t k = 0; join && k < strides.size(); ++k) join = joined[k][rank - 1] == strides[k][i] * size;
      if (!join) t_.dims_[rank++] = 1;
      t_.dims_[rank - 1] *= size;
      for (std::size_t k = 0; k < strides.size(); ++k) joined[k][rank - 1] = strides[k][i];
    }
    if (rank == 0) t_.dims_[rank++] = 1;
    t_.rank_ = static_cast<int>(rank);
    for (std::size_t k = 0; k < strides.size(); ++k) {
      column_strides_.push_back(strides[k][static_cast<std::size_t>(last)]);
      row_strides_.push_back(joined[k]);
    }
  }

  // Slices lie in what they are cut from, pieces of a concat where the concat wants them.
  void join_parts() {
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
      for (const int piece : operands_of(s_.instructions[static_cast<std::size_t>(*at - first_)])) {
        Register& p = reg(piece);
        if (p.computed && p.parent == piece && p.columns > 1) {
          p.parent = *at;
          p.first = column;
        }
        column += p.columns;
      }
    }
  }

  // ---- operations

  void make_operations() {
    for_instructions([&](int r, const Instruction& i) {
      if (origin(r) != r) return;
      const std::vector<int> from = operands_of(i);
      switch (i.op) {
        case Op::slice:
          if (reg(r).parent == r) add({move_function(element(reg(r))), i.op, r, 1, {cut(from[0], i.first)}});
          break;
        case Op::concat: add_pieces(r, from); break;
        case Op::broadcast: add({spread_function(element(reg(r))), i.op, r, 1, {from[0]}}); break;
        case Op::reduce_sum:
        case Op::reduce_max: add_reduction(r, i, from[0]); break;
        default: add_elementwise(r, i, from);
      }
    });
    std::erase_if(operations_, [](const Operation& operation) { return !operation.function; });
  }
  void add(const Operation& operation) {
    reg(operation.dst).made_by = static_cast<int>(operations_.size());
    operations_.push_back(operation);
  }
  int add_register(DType dtype, Index columns) {
    registers_.push_back({dtype, columns, static_cast<int>(registers_.size())});
    origin_.push_back(static_cast<int>(origin_.size()));
    return static_cast<int>(registers_.size()) - 1;
  }
  // A part of a register, from this column on.
  int cut(int from, Index first) {
    const int part = add_register(reg(from).dtype, 1);
    reg(part).parent = from;
    reg(part).first = first;
    return part;
  }
  void add_pieces(int r, const std::vector<int>& from) {
    Index column = 0;
    for (const int piece : from) {
      const Index columns = reg(piece).columns;
      if (reg(piece).parent != r || reg(piece).first != column) {
        const int there = cut(r, column);
        reg(there).columns = columns;
        add({move_function(element(reg(r))), Op::concat, there, 1, {piece}});
      }
      column += columns;
    }
  }
  void add_reduction(int r, const Instruction& i, int from) {
    const int made_by = reg(from).made_by;
    if (i.op == Op::reduce_sum && made_by != k_never && reg(from).uses == 1 && reg(from).parent == from) {
      Operation& term = operations_[static_cast<std::size_t>(made_by)];
      const bool plain = term.function == tile_function(term.op, i.dtype, i.dtype);
      if (const auto function = row_sum_of(term.op, i.dtype); function && plain && reg(from).columns > 1) {
        const Operation both{function, i.op, r, term.n, {term.operands[0], term.operands[1]}};
        term.function = nullptr;
        return add(both);
      }
    }
    const auto function = row_reduction(i.op, i.dtype);
    if (!function) fail("no kernel for " + std::string(op_info(i.op).name) + " on " + std::string(dtype_name(i.dtype)));
    add({function, i.op, r, 1, {from}});
  }

  void add_elementwise(int r, const Instruction& i, const std::vector<int>& from) {
    const Index columns = reg(r).columns;
    if (from.size() == 2 && add_pair(r, i, from)) return;
    unsigned repeated = 0;
    for (std::size_t k = 0; k < from.size(); ++k) repeated |= (is_repeated(from[k], columns) ? 1u : 0u) << k;
    Operation operation{repeated_function(i.op, i.dtype, repeated), i.op, r, static_cast<int>(from.size()), {}, true};
    std::copy(from.begin(), from.end(), operation.operands);
    if (repeated == 0 || from.size() != 2 || !operation.function) {
      operation.function = tile_function(i.op, i.dtype, i.to);
      if (!operation.function)
        fail("no kernel for " + std::string(op_info(i.op).name) + " on " + std::string(dtype_name(i.dtype)));
      for (int k = 0; k < operation.n; ++k)
        if ((repeated >> k & 1) != 0) operation.operands[k] = spread_over(operation.operands[k], columns);
    }
    add(operation);
  }
  int spread_over(int r, Index columns) {
    const int whole = add_register(reg(r).dtype, columns);
    add({spread_function(element(reg(r))), Op::broadcast, whole, 1, {r}});
    return whole;
  }
  // An addition, subtraction or product whose result only this one reads is done with it.
  bool add_pair(int r, const Instruction& outer, const std::vector<int>& from) {
    for (std::size_t k = 0; k < 2; ++k) {
      const Register& between = reg(from[k]);
      if (between.uses != 1 || between.made_by == k_never || between.columns != reg(r).columns) continue;
      if (between.parent != from[k] || from[k] < first_ || from[k] >= n_named()) continue;
      Operation& inner = operations_[static_cast<std::size_t>(between.made_by)];
      const Instruction& first = s_.instructions[static_cast<std::size_t>(from[k] - first_)];
      if (inner.n != 2 || !is_elementwise(inner.op)) continue;
      int x = origin(first.a), y = origin(first.b);
      const int z = from[1 - k];
      const Index columns = reg(r).columns;
      if (is_repeated(x, columns) && !is_repeated(y, columns) && first.op != Op::sub) std::swap(x, y);
      const auto bit = [&](int operand, unsigned value) { return is_repeated(operand, columns) ? value : 0u; };
      const unsigned repeated = bit(x, 1) + bit(y, 2) + bit(z, 4);
      const auto function = repeated == 0 ? pair_function(outer.op, first.op, k == 0, outer.dtype)
                                          : repeated_pair_function(outer.op, first.op, k == 0, outer.dtype, repeated);
      if (!function) continue;
      inner.function = nullptr;
      add({function, outer.op, r, 3, {x, y, z}, true});
      return true;
    }
    return false;
  }
  int n_named() const { return first_ + static_cast<int>(s_.instructions.size()); }

  void find_lives() {
    const int n = static_cast<int>(operations_.size());
    for (int o = 0; o < n; ++o) {
      const Operation& operation = operations_[static_cast<std::size_t>(o)];
      for (int k = 0; k < operation.n; ++k) reg(root_of(operation.operands[k])).last_use = o;
    }
    for (const auto& result : s_.results) reg(root_of(origin(result.from))).last_use = n;
  }

  // ---- places

  bool is_row_value(const Register& r) const { return r.columns == 1; }
  int add_location(const RowProgram::Location& location) {
    t_.locations_.push_back(location);
    return static_cast<int>(t_.locations_.size()) - 1;
  }
  Index inner_stride(std::size_t operand) const {
    return row_strides_[operand][static_cast<std::size_t>(t_.rank_ - 1)];
  }
  // In memory as a kernel wants it: columns next to each other, or one value per row next to each other.
  bool is_direct(std::size_t operand, const Register& r) const {
    if (is_row_value(r)) return inner_stride(operand) == 1 || t_.rows_ == 1;
    return column_strides_[operand] == 1;
  }
  int memory_location(std::size_t operand, DType dtype, int input, int result) {
    RowProgram::Location location{input, result};
    for (std::size_t d = 0; d < location.strides.size(); ++d)
      location.strides[d] = row_strides_[operand][d] * bytes_of(dtype);
    return add_location(location);
  }
  void place_in_memory(Register& r, std::size_t operand, int input, int result) {
    r.home = Home::memory;
    r.location = memory_location(operand, r.dtype, input, result);
    r.row_offset = inner_stride(operand) * element(r);  // from row to row
  }
  void place_in_tile(Register& r) {
    r.location = add_location({});
    if (is_row_value(r)) {
      r.home = Home::row_values;
      if (free_values_.empty()) free_values_.push_back(n_values_++);
      r.row_offset = free_values_.back();
      free_values_.pop_back();
    } else {
      r.home = Home::tile;
      r.row_offset = tiles_.take(rounded(r.columns * element(r)));
    }
  }
  void release(Register& r) {
    if (r.keeps) return;
    if (r.home == Home::row_values) free_values_.push_back(r.row_offset);
    if (r.home == Home::tile) tiles_.give_back(r.row_offset, rounded(r.columns * element(r)));
  }

  void place_inputs() {
    for (std::size_t i = 0; i < s_.inputs.size(); ++i) {
      Register& r = registers_[i];
      if (r.last_use == k_never) continue;
      const int input = static_cast<int>(i);
      if (r.for_all_rows) {
        place_fill(r, 0, input);
      } else if (is_direct(i, r)) {
        place_in_memory(r, i, input, k_never);
      } else {
        place_in_tile(r);
        r.keeps = true;
        loads_.push_back({static_cast<int>(i), i, memory_location(i, r.dtype, input, k_never)});
      }
    }
  }
  void place_constants() {
    for (std::size_t i = 0; i < s_.constants.size(); ++i) {
      Register& r = registers_[s_.inputs.size() + i];
      if (r.last_use != k_never) place_fill(r, s_.constants[i].second, k_never);
    }
  }
  // A row of the value: what reads columns sees the same row in every row, what reads row values sees enough of them.
  void place_fill(Register& r, double value, int input) {
    r.home = Home::fill;
    r.location = add_location({});
    t_.fills_.push_back({r.location, r.dtype, value, input, 0});
  }

  void choose_results() {
    for (std::size_t k = 0; k < s_.results.size(); ++k) {
      const int from = origin(s_.results[k].from), root = root_of(from);
      Register& r = reg(root);
      const bool whole = root >= first_ && column_of(from) == 0 && reg(from).columns == r.columns;
      if (whole && r.result == k_never && is_direct(s_.inputs.size() + k, r)) r.result = static_cast<int>(k);
    }
  }
  void place_operations() {
    for (std::size_t o = 0; o < operations_.size(); ++o) {
      const Operation& operation = operations_[o];
      Register& dst = reg(root_of(operation.dst));
      if (dst.home == Home::none) place_destination(dst, operation, static_cast<int>(o));
      for (int k = 0; k < operation.n; ++k) {
        Register& r = reg(root_of(operation.operands[k]));
        if (r.last_use == static_cast<int>(o) && r.home != Home::none && &r != &dst) {
          release(r);
          r.keeps = true;  // given back once
        }
      }
    }
  }
  void place_destination(Register& dst, const Operation& operation, int o) {
    if (dst.result != k_never) {
      const auto k = static_cast<std::size_t>(dst.result);
      return place_in_memory(dst, s_.inputs.size() + k, k_never, dst.result);
    }
    for (int k = 0; k < operation.n && operation.in_place; ++k) {
      Register& r = reg(root_of(operation.operands[k]));
      const bool same = r.columns == dst.columns && element(r) == element(dst);
      const bool dies = r.last_use == o && !r.keeps && (r.home == Home::tile || r.home == Home::row_values);
      if (!same || !dies || root_of(operation.dst) != operation.dst) continue;
      dst.home = r.home;
      dst.location = r.location;
      dst.row_offset = r.row_offset;
      r.keeps = true;
      return;
    }
    place_in_tile(dst);
  }
  void place_results() {
    for (std::size_t k = 0; k < s_.results.size(); ++k) {
      const int from = origin(s_.results[k].from);
      if (reg(root_of(from)).result == static_cast<int>(k)) continue;
      stores_.push_back({from, s_.inputs.size() + k,
                         memory_location(s_.inputs.size() + k, reg(from).dtype, k_never, static_cast<int>(k))});
    }
  }

  // ---- rows of a block, and with them all places

  void choose_rows() {
    Index rows = std::min(k_most_rows, k_tile_memory / std::max<Index>(tiles_.end(), 1));
    rows = std::clamp<Index>(rows, 1, std::max<Index>(t_.rows_, 1));
    t_.block_rows_ = rows;
    const Index values = rounded(rows * 8), first_value = tiles_.end() * rows;
    Index end = first_value + n_values_ * values;
    for (Register& r : registers_) {
      if (r.home == Home::tile) t_.locations_[static_cast<std::size_t>(r.location)].offset = r.row_offset * rows;
      if (r.home == Home::row_values)
        t_.locations_[static_cast<std::size_t>(r.location)].offset = first_value + r.row_offset * values;
    }
    const Index widest = std::max(rows, s_.shape[s_.shape.rank() - 1]);
    for (RowProgram::Fill& fill : t_.fills_) {
      fill.n = widest;
      t_.locations_[static_cast<std::size_t>(fill.location)].offset = end;
      end += rounded(widest * bytes_of(fill.dtype));
    }
    t_.places_offset_ = static_cast<std::size_t>(end);
    t_.scratch_bytes_ = t_.places_offset_ + t_.locations_.size() * sizeof(std::byte*);
    for (const Operation& o : operations_) t_.steps_.push_back(step_of(o));
    for (const Moved& m : loads_) t_.loads_.push_back(copy_of(m));
    for (const Moved& m : stores_) t_.stores_.push_back(copy_of(m));
  }
  RowProgram::Step step_of(const Operation& o) {
    const Register& dst = reg(o.dst);
    // One value per row and operation: all rows at once.
    const bool by_rows = is_elementwise(o.op) && dst.columns == 1;
    Index columns = by_rows ? 0 : dst.columns;
    if (o.op == Op::reduce_sum || o.op == Op::reduce_max) columns = reg(o.operands[0]).columns;
    RowProgram::Step step{o.function, columns, operand_of(o.dst), {}, {}, {}};
    // Functions may look at operands that the op does not have: those repeat the first.
    Operand* const to[] = {&step.a, &step.b, &step.c};
    for (int k = 0; k < 3; ++k) *to[k] = operand_of(o.operands[k < o.n ? k : 0]);
    return step;
  }
  Operand operand_of(int r) {
    const Register& root = reg(root_of(r));
    Operand operand{root.location, column_of(r) * element(root)};
    switch (root.home) {
      case Home::memory: operand.stride = is_row_value(root) ? element(root) : root.row_offset; break;
      case Home::tile: operand.stride = rounded(root.columns * element(root)); break;
      case Home::row_values: operand.stride = element(root); break;
      case Home::fill: operand.stride = 0; break;
      case Home::none: fail("a register without a place");
    }
    return operand;
  }
  struct Moved {
    int from;             // register
    std::size_t operand;  // inputs, then results
    int memory;           // location
  };
  RowProgram::Copy copy_of(const Moved& m) {
    const Register& r = reg(m.from);
    const Index size = element(r);
    return {{m.memory, 0, inner_stride(m.operand) * size}, operand_of(m.from), r.columns,
            column_strides_[m.operand] * size, size};
  }

  const Expression& s_;
  RowProgram& t_;
  int first_ = 0;  // register of an instruction
  std::vector<Register> registers_;
  std::vector<int> origin_;
  std::vector<Strides> row_strides_;     // [input, then result], collapsed
  std::vector<Index> column_strides_;
  std::vector<Operation> operations_;
  std::vector<Moved> loads_, stores_;
  RowMemory tiles_;
  std::vector<Index> free_values_;
  Index n_values_ = 0;
};

RowProgram::RowProgram(const Expression& source) { RowCompiler(source, *this).compile(); }

}  // namespace unroll::cpu
