// SPDX-License-Identifier: Apache-2.0
// Compiles registers to tiles: operands read and written in place, operands in slots, and slots that registers share.
#include <algorithm>
#include <string>

#include "backends/cpu/kernels/elementwise.h"
#include "backends/cpu/kernels/row_kernels.h"
#include "unroll/support/error.h"

namespace unroll::cpu {

namespace {

constexpr std::int64_t k_most_tile = 1024;       // elements
constexpr std::int64_t k_least_tile = 16;        // rows of slots are multiples of this
constexpr std::size_t k_slot_memory = 24 * 1024;  // slots stay in L1; also bounds the stack of run()
constexpr std::size_t k_most_locations = 1024;

[[noreturn]] void refuse_elementwise(const std::string& what) {
  throw Error(ErrorKind::internal, "cpu elementwise", what);
}

bool is_copy(const Instruction& i) {
  return i.op == Op::stop_gradient || (i.op == Op::cast && i.dtype == i.to);
}

}  // namespace

// Builds one Elementwise; lives as long as its constructor.
class ElementwiseCompiler {
 public:
  ElementwiseCompiler(const Expression& source, bool matrix, Elementwise& target)
      : s_(source), matrix_(matrix), t_(target) {}

  void compile() {
    check();
    collapse();
    find_repeated();
    pair();
    find_lives();
    place_inputs();
    place_constants();
    place_steps();
    place_results();
    choose_tile();
  }

 private:
  using Access = Elementwise::Access;
  using Location = Elementwise::Location;
  static constexpr int k_never = -1;

  struct Register {
    DType dtype;
    int last_use = k_never;  // operation; operations_.size() if a result reads it
    bool in_result = false;
    bool fixed = false;      // its slot is never released
    Location location = 0;
    bool has_slot = false;
    bool one_row = false;          // its slot holds one row, which stands for all rows
    std::int64_t row_bytes = 0;    // between rows, for a register in memory
  };

  // One instruction, or a fused pair of them.
  struct Operation {
    Elementwise::TileFunction function;
    std::uint16_t dst;
    int n;
    std::uint16_t operands[3];
  };

  std::size_t n_inputs() const { return s_.inputs.size(); }
  // Copies are aliases of their source.
  std::uint16_t origin(std::uint16_t r) const { return origin_[r]; }
  Register& reg(std::uint16_t r) { return registers_[origin_[r]]; }

  void check() {
    const std::vector<DType> dtypes = common::register_dtypes(s_);
    if (dtypes.size() > 0xfff0) refuse_elementwise("more than 65520 registers");
    const std::size_t first = n_inputs() + s_.constants.size();
    for (std::size_t r = 0; r < dtypes.size(); ++r) {
      registers_.push_back({dtypes[r]});
      origin_.push_back(static_cast<std::uint16_t>(r));
      if (r < first) continue;
      const Instruction& i = s_.instructions[r - first];
      if (is_copy(i)) origin_.back() = origin_[i.a];
      else if (!tile_function(i.op, i.dtype, i.to))
        refuse_elementwise("no kernel for " + std::string(op_info(i.op).name) + " on " +
                           std::string(dtype_name(i.dtype)));
    }
  }

  std::uint16_t first() const { return static_cast<std::uint16_t>(n_inputs() + s_.constants.size()); }

  // Finds inputs with one element per row whose readers all have kernels that broadcast it in registers. Other such
  // inputs are broadcast into tiles.
  void find_repeated() {
    repeated_.assign(registers_.size(), false);
    for (std::size_t i = 0; i < n_inputs(); ++i) repeated_[i] = input_access(input_strides_[i]) == Access::splatted;
    for (const auto& result : s_.results) repeated_[origin(result.from)] = false;
    for (bool changed = true; changed;) {
      changed = false;
      for (const Instruction& i : s_.instructions) {
        const std::uint16_t operands[] = {origin(i.a), origin(i.b), origin(i.c)};
        const int n = op_info(i.op).max_inputs;
        const unsigned bits = repeated_bits(operands, n);
        if (bits == 0 || is_copy(i) || (n == 2 && repeated_function(i.op, i.dtype, bits))) continue;
        for (int k = 0; k < n; ++k) repeated_[operands[k]] = false;
        changed = true;
      }
    }
  }
  unsigned repeated_bits(const std::uint16_t* operands, int n) const {
    unsigned bits = 0;
    for (int k = 0; k < n; ++k) bits |= (repeated_[operands[k]] ? 1u : 0u) << k;
    return bits;
  }

  // Fuses an add, sub or mul with its only reader, if that is one of these too: this saves writing and reading a tile.
  // Each op still rounds.
  void pair() {
    std::vector<int> uses(registers_.size(), 0);
    for (std::size_t step = 0; step < s_.instructions.size(); ++step) {
      const Instruction& i = s_.instructions[step];
      if (is_copy(i)) continue;
      const std::uint16_t a = origin(i.a), b = origin(i.b), c = origin(i.c), operands[] = {a, b, c};
      Operation operation{tile_function(i.op, i.dtype, i.to), static_cast<std::uint16_t>(first() + step),
                          op_info(i.op).max_inputs, {a, b, c}};
      for (int k = 0; k < operation.n; ++k) ++uses[operands[k]];
      if (const unsigned bits = repeated_bits(operands, operation.n))
        operation.function = repeated_function(i.op, i.dtype, bits);
      operations_.push_back(operation);
    }
    for (const auto& result : s_.results) ++uses[origin(result.from)];

    std::vector<int> made_by(registers_.size(), k_never);  // the operation, unless another one has absorbed it
    for (std::size_t o = 0; o < operations_.size(); ++o) {
      Operation& outer = operations_[o];
      made_by[outer.dst] = static_cast<int>(o);
      for (int k = 0; k < 2 && outer.n == 2; ++k) {
        const std::uint16_t between = outer.operands[k];
        if (uses[between] != 1 || made_by[between] == k_never) continue;
        Operation& inner = operations_[made_by[between]];
        if (inner.n != 2) continue;
        const Op inner_op = s_.instructions[between - first()].op;
        Operation both{nullptr, outer.dst, 3, {inner.operands[0], inner.operands[1], outer.operands[1 - k]}};
        if (inner_op != Op::sub && repeated_[both.operands[0]]) std::swap(both.operands[0], both.operands[1]);
        const Instruction& last = s_.instructions[outer.dst - first()];
        const unsigned bits = repeated_bits(both.operands, 3);
        both.function = bits == 0 ? pair_function(last.op, inner_op, k == 0, last.dtype)
                                  : repeated_pair_function(last.op, inner_op, k == 0, last.dtype, bits);
        if (!both.function) continue;
        outer = both;
        inner.function = nullptr;
        made_by[outer.dst] = k_never;
      }
    }
    std::erase_if(operations_, [](const Operation& operation) { return !operation.function; });
  }

  // Drops dimensions of size 1 and joins adjacent dimensions that all operands traverse as one, except of a matrix.
  void collapse() {
    std::vector<Strides> strides;
    for (const auto& input : s_.inputs) strides.push_back(input.strides);
    for (const auto& result : s_.results) strides.push_back(result.strides);
    auto& dims = t_.dims_;
    std::size_t rank = 0;
    std::vector<Strides> joined(strides.size(), Strides{});
    for (int axis = 0; axis < s_.shape.rank(); ++axis) {
      const std::int64_t size = s_.shape[axis];
      if (size == 1 && !matrix_) continue;
      bool join = rank > 0 && !matrix_;
      for (std::size_t k = 0; join && k < strides.size(); ++k) join = joined[k][rank - 1] == strides[k][axis] * size;
      if (!join) dims[rank++] = 1;
      dims[rank - 1] *= size;
      for (std::size_t k = 0; k < strides.size(); ++k) joined[k][rank - 1] = strides[k][axis];
    }
    if (rank == 0) dims[rank++] = s_.shape.elements();
    t_.rank_ = static_cast<int>(rank);
    input_strides_.assign(joined.begin(), joined.begin() + static_cast<std::ptrdiff_t>(n_inputs()));
    result_strides_.assign(joined.begin() + static_cast<std::ptrdiff_t>(n_inputs()), joined.end());
  }

  void find_lives() {
    const int n = static_cast<int>(operations_.size());
    for (int step = 0; step < n; ++step) {
      const Operation& operation = operations_[step];
      for (int k = 0; k < operation.n; ++k) reg(operation.operands[k]).last_use = step;
    }
    for (const auto& result : s_.results) {
      reg(result.from).last_use = n;
      reg(result.from).in_result = true;
    }
  }

  bool is_direct(const Strides& strides) const {
    const std::size_t inner = t_.rank_ - 1;
    return strides[inner] == 1 || t_.dims_[inner] == 1;
  }
  Access input_access(const Strides& strides) const {
    if (strides == Strides{}) return Access::once;
    if (is_direct(strides)) return Access::direct;
    return strides[t_.rank_ - 1] == 0 ? Access::splatted : Access::copied;
  }

  // Slots are numbered from 0 and memory from the end, because the number of slots is not known yet.
  Location take_slot(DType dtype) {
    bytes_ = std::max(bytes_, dtype_bytes(dtype));
    if (!free_slots_.empty()) {
      const Location slot = free_slots_.back();
      free_slots_.pop_back();
      return slot;
    }
    if (n_slots_ + n_memory_ >= k_most_locations) refuse_elementwise("more than 1024 operands and live values");
    return static_cast<Location>(n_slots_++);
  }
  Location take_memory() {
    if (n_slots_ + n_memory_ >= k_most_locations) refuse_elementwise("more than 1024 operands and live values");
    return static_cast<Location>(k_most_locations - ++n_memory_);
  }

  // An input that is also a result goes through a slot, so that all stores read slots: results may overlap inputs.
  void place_inputs() {
    for (std::size_t i = 0; i < n_inputs(); ++i) {
      Register& r = registers_[i];
      if (r.last_use == k_never) continue;
      Access access = repeated_[i] ? Access::repeated : input_access(input_strides_[i]);
      if (access == Access::direct && r.in_result) access = Access::copied;
      if (access == Access::direct) {
        r.location = take_memory();
        r.row_bytes = row_bytes(input_strides_[i], r.dtype);
        last_direct_read_ = std::max(last_direct_read_, r.last_use);
      } else if (access == Access::repeated) {
        r.location = take_memory();
        r.row_bytes = row_bytes(input_strides_[i], r.dtype);
      } else {
        r.location = take_slot(r.dtype);
        r.has_slot = true;
        r.fixed = access != Access::copied;
        r.one_row = access == Access::once;
      }
      t_.loads_.push_back({r.location, static_cast<std::uint16_t>(i), access,
                           static_cast<std::uint8_t>(dtype_bytes(r.dtype)), 0, input_strides_[i]});
    }
  }
  void place_constants() {
    for (std::size_t i = 0; i < s_.constants.size(); ++i) {
      Register& r = registers_[n_inputs() + i];
      if (r.last_use == k_never) continue;
      r.location = take_slot(r.dtype);
      r.has_slot = r.fixed = r.one_row = true;
      t_.constants_.push_back({r.location, r.dtype, s_.constants[i].second});
    }
  }

  void place_steps() {
    result_direct_.assign(s_.results.size(), false);
    for (std::size_t step = 0; step < operations_.size(); ++step) {
      const auto& [function, to, n, operands] = operations_[step];
      Register& dst = reg(to);
      if (dst.last_use == k_never) continue;
      Location at[3] = {};
      // Functions may read operands that the op lacks: those repeat the first.
      for (int k = 0; k < 3 && n > 0; ++k) at[k] = reg(operands[k < n ? k : 0]).location;
      // An operand with no later use may pass its slot to the result if both have the same element size.
      for (int k = 0; k < n; ++k) release(operands[k], static_cast<int>(step), dst.dtype, true);
      place_destination(dst, to, static_cast<int>(step));
      for (int k = 0; k < n; ++k) release(operands[k], static_cast<int>(step), dst.dtype, false);
      t_.steps_.push_back({function, dst.location, at[0], at[1], at[2], 0, 0, 0, 0});
      for (int k = 0; k < 3; ++k) step_registers_.push_back(n == 0 ? &dst : &reg(operands[k < n ? k : 0]));
      step_registers_.push_back(&dst);
    }
  }
  void release(std::uint16_t index, int step, DType dst, bool only_same_size) {
    Register& r = reg(index);
    if (r.last_use != step || !r.has_slot || r.fixed) return;
    if (only_same_size && dtype_bytes(r.dtype) != dtype_bytes(dst)) return;
    r.has_slot = false;
    free_slots_.push_back(r.location);
  }
  // Writes directly to the result if no later step reads an input that may share its memory.
  void place_destination(Register& dst, std::uint16_t index, int step) {
    if (dst.in_result)
      for (std::size_t k = 0; k < s_.results.size(); ++k) {
        if (origin(s_.results[k].from) != index || !is_direct(result_strides_[k])) continue;
        if (!s_.results[k].apart && step < last_direct_read_) continue;
        dst.location = take_memory();
        dst.row_bytes = row_bytes(result_strides_[k], dst.dtype);
        result_direct_[k] = true;
        t_.stores_.push_back(store(k, dst, Access::direct));
        return;
      }
    dst.location = take_slot(dst.dtype);
    dst.has_slot = true;
  }
  Elementwise::Operand store(std::size_t k, const Register& r, Access access) const {
    return {r.location, static_cast<std::uint16_t>(k), access, static_cast<std::uint8_t>(dtype_bytes(r.dtype)),
            0, result_strides_[k]};
  }
  void place_results() {
    for (std::size_t k = 0; k < s_.results.size(); ++k)
      if (!result_direct_[k]) t_.stores_.push_back(store(k, reg(s_.results[k].from), Access::copied));
  }

  std::int64_t row_bytes(const Strides& strides, DType dtype) const {
    return t_.rank_ < 2 ? 0 : strides[t_.rank_ - 2] * static_cast<std::int64_t>(dtype_bytes(dtype));
  }

  // Rows are divided into equal tiles; a tile holds several short rows.
  void choose_tile() {
    const auto fits = static_cast<std::int64_t>(k_slot_memory / (std::max<std::size_t>(n_slots_, 1) * bytes_));
    const std::int64_t most = std::min(k_most_tile, fits / k_least_tile * k_least_tile);
    if (most == 0) refuse_elementwise(std::to_string(n_slots_) + " live values do not fit in the tile memory");
    const auto ceil_div = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
    const std::int64_t columns = std::max<std::int64_t>(1, t_.dims_[t_.rank_ - 1]);
    t_.tile_columns_ = ceil_div(columns, ceil_div(columns, most));
    const std::int64_t row = ceil_div(t_.tile_columns_, k_least_tile) * k_least_tile;
    const std::int64_t rows = t_.rank_ < 2 ? 1 : t_.dims_[t_.rank_ - 2];
    t_.tile_rows_ = std::clamp<std::int64_t>(rows, 1, std::max<std::int64_t>(1, most / row));
    t_.n_slots_ = n_slots_;
    t_.slot_bytes_ = t_.tile_rows_ * row * bytes_;
    const auto stride = [&](const Register& r) {
      if (r.one_row) return std::int64_t{0};
      return r.location < n_slots_ ? row * static_cast<std::int64_t>(dtype_bytes(r.dtype)) : r.row_bytes;
    };
    for (std::size_t i = 0; i < t_.steps_.size(); ++i) {
      Elementwise::Step& step = t_.steps_[i];
      const Register* const* registers = &step_registers_[4 * i];
      step.a_stride = stride(*registers[0]);
      step.b_stride = stride(*registers[1]);
      step.c_stride = stride(*registers[2]);
      step.dst_stride = stride(*registers[3]);
    }
    for (Elementwise::Operand& load : t_.loads_) load.tile_row = row * load.bytes;
    for (Elementwise::Operand& store : t_.stores_) store.tile_row = stride(reg(s_.results[store.index].from));
  }

  const Expression& s_;
  const bool matrix_;
  Elementwise& t_;
  std::vector<Register> registers_;
  std::vector<std::uint16_t> origin_;
  std::vector<bool> repeated_;  // [register]
  std::vector<Operation> operations_;
  std::vector<Strides> input_strides_, result_strides_;  // collapsed
  std::vector<const Register*> step_registers_;  // of each step: a, b, c, dst
  std::vector<Location> free_slots_;
  std::vector<bool> result_direct_;
  std::size_t n_slots_ = 0, n_memory_ = 0;
  std::size_t bytes_ = 1;  // of the widest register in a slot
  int last_direct_read_ = k_never;
};

Elementwise::Elementwise(const Expression& source, bool matrix) {
  if (matrix && source.shape.rank() != 2) refuse_elementwise("a matrix of " + source.shape.text());
  ElementwiseCompiler(source, matrix, *this).compile();
}

}  // namespace unroll::cpu
