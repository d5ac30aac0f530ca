// SPDX-License-Identifier: Apache-2.0
// A row kernel is a sequence of loops over columns. An instruction joins the last loop unless it needs other columns of
// a value computed in that loop, or its reduction.
#include "backends/common/print_rows.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "backends/common/print_parts.h"

namespace unroll::common {

namespace {

using Index = std::int64_t;

bool is_reduction(Op op) { return op == Op::reduce_sum || op == Op::reduce_max; }
bool reads_other_columns(Op op) { return op == Op::slice || op == Op::concat; }

constexpr const char* k_barrier = "    __syncthreads();\n";

class RowPrinter {
 public:
  RowPrinter(const Expression& expression, const PrintOptions& options)
      : e_(expression), options_(options), dtypes_(register_dtypes(expression)),
        columns_(register_columns(expression)), first_(expression.inputs.size() + expression.constants.size()),
        index_(index_type(Dialect::cuda, options)), sizes_(Dialect::cuda, e_.inputs.size() + e_.results.size()) {
    check_indices();
    loop_of_.assign(columns_.size(), -1);
    is_array_.assign(columns_.size(), false);
    for (std::size_t r = first_; r < columns_.size(); ++r) join_loop(r);
  }

  PrintedKernel kernel(const std::string& name) {
    sizes_.values[0] = n_rows();
    const std::string rows = rows_of_block(), inside = body();
    return {head(name) + rows + inside + k_barrier + "  }\n}\n", sizes_.values, scratch_bytes(), shared_bytes()};
  }

 private:
  struct Loop {
    Index columns;  // 0: statements executed once per row
    std::vector<std::size_t> registers;
  };

  // ---- assignment of instructions to loops

  const Instruction& instruction(std::size_t r) const { return e_.instructions[r - first_]; }
  std::vector<std::size_t> operands(std::size_t r) const {
    const Instruction& i = instruction(r);
    const std::size_t all[] = {i.a, i.b, i.c};
    return {all, all + (i.op == Op::concat ? 2 : op_info(i.op).max_inputs)};
  }
  void join_loop(std::size_t r) {
    const Op op = instruction(r).op;
    const Index columns = is_reduction(op) ? columns_[instruction(r).a] : columns_[r] == 1 ? 0 : columns_[r];
    const int last = static_cast<int>(loops_.size()) - 1;
    bool joins = last >= 0 && loops_.back().columns == columns;
    for (const std::size_t o : operands(r)) {
      const bool in_last = o >= first_ && loop_of_[o] == last;
      if (in_last && columns > 0) joins = joins && !reads_other_columns(op) && !is_reduction(instruction(o).op);
    }
    if (!joins) loops_.push_back({columns, {}});
    loops_.back().registers.push_back(r);
    loop_of_[r] = static_cast<int>(loops_.size()) - 1;
    for (const std::size_t o : operands(r))
      if (o >= first_ && columns_[o] > 1 && loop_of_[o] != loop_of_[r]) is_array_[o] = true;
  }

  // ---- text

  std::string head(const std::string& name) const {
    return sizes_.cuda_struct(name, index_) + "extern \"C\" __global__ void " + name + "(" + parameters() +
           (scratch_bytes() > 0 ? "char* scratch, " : "") + name + "_sizes n) {\n" + arrays();
  }
  // Prints the head of the loop over a block's rows. One block computes all rows of a sum.
  std::string rows_of_block() {
    const auto head = [&](const std::string& name, const std::string& end) {
      return "for (" + index_ + " " + name + " = blockIdx.x; " + name + " < " + end + "; " + name + " += gridDim.x)";
    };
    if (e_.sum_rows == 0) return "  " + head("row", sizes_.at(0)) + " {\n";
    const std::string size = sum_rows();
    return "  " + head("sum", sizes_.next(n_rows() / e_.sum_rows)) + "\n  for (" + index_ + " row = sum * " + size +
           "; row < (sum + 1) * " + size + "; ++row) {\n";
  }
  Index n_rows() const { return e_.shape.removed(e_.shape.rank() - 1).elements(); }
  std::string sum_rows() { return named("sum rows", e_.sum_rows); }
  std::string columns(Index n) { return named(std::to_string(n), n); }
  std::string named(const std::string& role, Index value) {
    const auto [found, is_new] = names_.try_emplace(role);
    if (is_new) found->second = sizes_.next(value);
    return found->second;
  }
  void check_indices() const {
    const Shape& s = e_.shape;
    for (const auto& input : e_.inputs)
      check_short_indices(s.with(s.rank() - 1, input.columns), input.strides, options_);
    for (const auto& y : e_.results) check_short_indices(s.with(s.rank() - 1, columns_[y.from]), y.strides, options_);
  }
  DType result(std::size_t k) const { return dtypes_[e_.results[k].from]; }
  std::string parameters() const {
    std::string text;
    for (std::size_t i = 0; i < e_.inputs.size(); ++i)
      text += "const " + memory_type(dtypes_[i]) + "* x" + std::to_string(i) + ", ";
    for (std::size_t k = 0; k < e_.results.size(); ++k)
      text += memory_type(result(k)) + "* y" + std::to_string(k) + ", ";
    return text;
  }
  std::string arrays() const {
    std::string text;
    for (std::size_t r = first_; r < columns_.size(); ++r) {
      if (!is_array_[r]) continue;
      const std::string type = register_type(dtypes_[r]), n = std::to_string(capacity(columns_[r]));
      const std::string place = std::to_string(scratch_bytes()) + " + " + std::to_string(scratch_place(r));
      if (!is_in_scratch(r)) text += "  __shared__ " + type + " r" + std::to_string(r) + "[" + n + "];\n";
      else
        text += "  " + type + "* const r" + std::to_string(r) + " = (" + type +
                "*)(scratch + (long long)blockIdx.x * " + place + ");\n";
    }
    return text;
  }
  // Bytes of an array of registers (words or f64). Small arrays are placed in shared memory first.
  std::size_t array_bytes(std::size_t r) const {
    return capacity(columns_[r]) * (dtypes_[r] == DType::f64 ? 8 : 4);
  }
  bool is_in_scratch(std::size_t r) const {
    if (!is_array_[r]) return false;
    std::size_t before = 0;
    for (std::size_t o = first_; o < columns_.size(); ++o)
      if (is_array_[o] && std::pair(array_bytes(o), o) <= std::pair(array_bytes(r), r)) before += array_bytes(o);
    return before > options_.most_shared_bytes;
  }
  std::size_t scratch_place(std::size_t r) const {
    std::size_t at = 0;
    for (std::size_t o = first_; o < r; ++o)
      if (is_in_scratch(o)) at += array_bytes(o);
    return at;
  }
  std::size_t scratch_bytes() const { return scratch_place(columns_.size()); }
  std::size_t shared_bytes() const {
    std::size_t bytes = 0;
    for (std::size_t r = first_; r < columns_.size(); ++r)
      if (is_array_[r] && !is_in_scratch(r)) bytes += array_bytes(r);
    return bytes;
  }

  // Rounds sizes up, so that similar sizes have the same text.
  static Index capacity(Index columns) {
    const Index step = std::max<Index>(16, static_cast<Index>(std::bit_ceil(static_cast<std::uint64_t>(columns))) / 8);
    return (columns + step - 1) / step * step;
  }

  // Prints the offset of the operand, then of the row: o0, o1 ...
  std::string offset(std::size_t operand, const Strides& strides) {
    std::string text = "    const " + index_ + " o" + std::to_string(operand) + " = " + sizes_.at(1 + operand);
    for (int axis = 0; axis < e_.shape.rank() - 1; ++axis)
      if (const Index stride = strides[axis]; stride != 0 && e_.shape[axis] > 1)
        text += " + d" + std::to_string(axis) + " * " + sizes_.next(stride);
    return text + ";\n";
  }
  std::string place(std::size_t operand, const Strides& strides, const std::string& column) {
    const Index inner = strides[e_.shape.rank() - 1];
    const std::string from = "o" + std::to_string(operand);
    if (inner == 0) return from;
    return from + (inner == 1 ? " + " + column : " + (" + column + ") * " + sizes_.next(inner));
  }
  std::string coordinates() {
    std::string text, rest = "row";
    for (int axis = e_.shape.rank() - 2; axis >= 0; --axis) {
      const std::string number = std::to_string(axis), declare = "    const " + index_ + " ";
      if (axis == 0) {
        text += declare + "d0 = " + rest + ";\n";
        break;
      }
      const std::string extent = sizes_.next(e_.shape[axis]);
      text += declare + "d" + number + " = " + rest + " % " + extent + ";\n";
      text += declare + "e" + number + " = " + rest + " / " + extent + ";\n";
      rest = "e" + number;
    }
    for (std::size_t i = 0; i < e_.inputs.size(); ++i) text += offset(i, e_.inputs[i].strides);
    for (std::size_t k = 0; k < e_.results.size(); ++k) {
      const auto& y = e_.results[k];
      const std::size_t operand = e_.inputs.size() + k;
      if (!y.sums) text += offset(operand, y.strides);
      else
        text += "    const " + index_ + " o" + std::to_string(operand) + " = " + sizes_.at(1 + operand) + " + row / " +
                sum_rows() + " * " + sizes_.next(columns_[y.from]) + ";\n";
    }
    return text;
  }
  // Prints element `column` of a register in memory or in an array.
  std::string stored(std::size_t r, const std::string& column) {
    if (columns_[r] == 1) return variable(r);
    if (r >= first_) return "r" + std::to_string(r) + "[" + column + "]";
    return loaded(r, column);
  }
  std::string loaded(std::size_t input, const std::string& column) {
    return load_of(dtypes_[input], "x" + std::to_string(input), place(input, e_.inputs[input].strides, column));
  }
  std::string declaration(std::size_t r, const std::string& indent, const std::string& value) const {
    return indent + "const " + register_type(dtypes_[r]) + " " + variable(r) + " = " + value + ";\n";
  }
  std::string store(std::size_t k, const std::string& indent, const std::string& column) {
    const auto& result_k = e_.results[k];
    const std::size_t operand = e_.inputs.size() + k;
    const std::string from = variable(result_k.from), y = "y" + std::to_string(k);
    if (!result_k.sums) {
      const std::string stored = store_of(result(k), y, place(operand, result_k.strides, column), from);
      return indent + "{ " + stored + " }\n";
    }
    const std::string nothing = literal(Dialect::cuda, result(k), 0), first = "row % " + sum_rows() + " == 0";
    const std::string at = y + "[o" + std::to_string(operand) + " + " + column + "]";
    return indent + at + " = unroll_sum(" + first + " ? " + nothing + " : " + at + ", " + from + ");\n";
  }
  std::string loop_head(Index n) {
    return "    for (" + index_ + " c = threadIdx.x; c < " + columns(n) + "; c += blockDim.x) {\n";
  }

  std::string body() {
    std::string text = coordinates();
    for (std::size_t i = 0; i < e_.inputs.size(); ++i)
      if (columns_[i] == 1) text += declaration(i, "    ", loaded(i, "0"));
    for (std::size_t k = 0; k < e_.constants.size(); ++k) {
      const auto& [dtype, value] = e_.constants[k];
      text += declaration(e_.inputs.size() + k, "    ", literal(Dialect::cuda, dtype, value));
    }
    for (const Loop& loop : loops_) text += loop.columns == 0 ? of_row(loop) : of_columns(loop);
    for (std::size_t k = 0; k < e_.results.size(); ++k) {
      const std::size_t r = e_.results[k].from;
      if (columns_[r] == 1) text += "    " + store(k, "if (threadIdx.x == 0) ", "0");
      else if (r < first_)
        text += loop_head(columns_[r]) + declaration(r, "      ", loaded(r, "c")) + store(k, "      ", "c") + "    }\n";
    }
    return text;
  }
  std::string of_row(const Loop& loop) {
    std::string text;
    for (const std::size_t r : loop.registers) text += declaration(r, "    ", value_of(r));
    return text;
  }
  std::string of_columns(const Loop& loop) {
    std::string before, inside, after;
    std::set<std::size_t> known(loop.registers.begin(), loop.registers.end());
    bool writes = false;
    for (const std::size_t r : loop.registers) {
      const Instruction& i = instruction(r);
      for (const std::size_t o : operands(r))
        if (columns_[o] > 1 && !reads_other_columns(i.op) && known.insert(o).second)
          inside += declaration(o, "      ", stored(o, "c"));
      if (is_reduction(i.op)) {
        const std::string sum = "s" + std::to_string(r), kind = i.op == Op::reduce_sum ? "sum" : "max";
        before +=
            "    " + register_type(i.dtype) + " " + sum + " = " + literal(Dialect::cuda, i.dtype, nothing(i)) + ";\n";
        inside += "      " + sum + " = unroll_" + kind + "(" + sum + ", " + variable(i.a) + ");\n";
        after += declaration(r, "    ", "unroll_row_" + kind + "(" + sum + ")");
        continue;
      }
      inside += declaration(r, "      ", value_of(r));
      if (is_array_[r]) inside += "      r" + std::to_string(r) + "[c] = " + variable(r) + ";\n";
      writes = writes || is_array_[r];
      for (std::size_t k = 0; k < e_.results.size(); ++k)
        if (e_.results[k].from == r && columns_[r] > 1) inside += store(k, "      ", "c");
    }
    return before + loop_head(loop.columns) + inside + "    }\n" + (writes ? k_barrier : "") + after;
  }
  static double nothing(const Instruction& i) {
    if (i.op == Op::reduce_sum) return 0;
    return is_float(i.dtype) ? -std::numeric_limits<double>::infinity() : std::numeric_limits<std::int32_t>::min();
  }
  std::string value_of(std::size_t r) {
    const Instruction& i = instruction(r);
    const std::string column = columns_[r] == 1 ? "0" : "c";
    switch (i.op) {
      case Op::broadcast: return variable(i.a);
      case Op::slice: return stored(i.a, column + " + " + sizes_.next(i.first));
      case Op::concat: {
        const std::string n = columns(columns_[i.a]);
        return "c < " + n + " ? " + stored(i.a, "c") + " : " + stored(i.b, "c - " + n);
      }
      default: return right_side(Dialect::cuda, i);
    }
  }

  const Expression& e_;
  PrintOptions options_;
  std::vector<DType> dtypes_;
  std::vector<Index> columns_;
  std::size_t first_;  // first register of an instruction
  std::string index_;
  KernelSizes sizes_;
  std::map<std::string, std::string> names_;  // names of sizes by role, or by columns: equal columns share a loop
  std::vector<Loop> loops_;
  std::vector<int> loop_of_;    // [register]
  std::vector<bool> is_array_;  // [register]
};

}  // namespace

PrintedKernel print_row_kernel(const Expression& expression, const std::string& name, const PrintOptions& options) {
  return RowPrinter(expression, options).kernel(name);
}

}  // namespace unroll::common
