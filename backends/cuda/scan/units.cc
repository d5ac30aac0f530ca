// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/scan/units.h"

#include <algorithm>

#include "backends/common/print_expression.h"
#include "backends/common/walk.h"
#include "backends/device/axes.h"

namespace unroll::cuda {

namespace {

using common::Dialect;
using common::Expression;
using common::Strides;

// Offsets of the leading axes of an operand: joined, outermost first.
device::Axes leading_axes(const Shape& shape, const Strides& strides) {
  std::vector<std::int64_t> sizes, steps;
  for (int axis = 0; axis + 1 < shape.rank(); ++axis) {
    sizes.push_back(shape[axis]);
    steps.push_back(strides[axis]);
  }
  return device::joined_axes(sizes, {steps});
}

bool has_short_units(const Shape& shape, const Strides& strides) {
  constexpr std::int64_t end = std::int64_t{1} << 31;
  std::int64_t last = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) last += (shape[axis] - 1) * strides[axis];
  return last < end && shape.elements() < end;
}

}  // namespace

std::int64_t UnitMap::own_units(std::int64_t units) const {
  const auto found = granules.find(units);
  const std::int64_t granule = found == granules.end() ? 1 : found->second;
  const std::int64_t own = (units + blocks - 1) / blocks;
  return (own + granule - 1) / granule * granule;
}
std::int64_t UnitMap::own_rows(std::int64_t all_rows) const {
  if (groups == 1) return all_rows;
  return (rows + groups - 1) / groups * (all_rows / rows);
}

UnitPrinter::UnitPrinter(const Expression& e, const device::Operands& operands, std::vector<int> gates)
    : e_(e), operands_(operands), gates_(std::move(gates)) {
  const std::vector<DType> registers = common::register_dtypes(e);
  dtypes_.assign(registers.begin(), registers.begin() + static_cast<std::ptrdiff_t>(e.inputs.size()));
  for (const auto& result : e.results) dtypes_.push_back(registers[result.from]);
  const auto all = common::operands_of(e);
  is_short_ = std::all_of(all.begin(), all.end(), [&](const Strides* s) { return has_short_units(e.shape, *s); });
}

bool UnitPrinter::fits(const Expression& e, const UnitMap& map) {
  const int rank = e.shape.rank();
  constexpr std::int64_t k_most = std::int64_t{1} << 30;
  if (rank == 0 || e.shape[rank - 1] < 2 || e.shape.elements() == 0 || e.shape.elements() > k_most) return false;
  return map.groups == 1 || (rank > 1 && e.shape[0] == map.rows);
}

std::int64_t UnitPrinter::units() const { return e_.shape[e_.shape.rank() - 1]; }
std::int64_t UnitPrinter::rows() const { return e_.shape.elements() / units(); }

const Strides& UnitPrinter::strides(std::size_t operand) const {
  const std::size_t n = e_.inputs.size();
  return operand < n ? e_.inputs[operand].strides : e_.results[operand - n].strides;
}

std::string UnitPrinter::name(std::size_t operand) const {
  const std::size_t n = e_.inputs.size();
  return operand < n ? "x" + std::to_string(operand) : "y" + std::to_string(operand - n);
}

std::string UnitPrinter::parameters() const {
  std::string all;
  for (std::size_t k = 0; k < dtypes_.size(); ++k)
    if (!is_gate(k))
      all += (k < e_.inputs.size() ? "const " : "") + common::memory_type(dtypes_[k]) + "* " +
             name(k) + ", ";
  return all;
}

std::string UnitPrinter::places(const std::string& indent) const {
  std::string all;
  for (std::size_t k = 0; k < dtypes_.size(); ++k) {
    if (is_gate(k)) continue;
    const Strides& own = strides(k);
    all += indent + "const " + index() + " i" + std::to_string(k) + " = ";
    std::string sum;
    const device::Axes axes = leading_axes(e_.shape, own);
    std::int64_t inner = 1;  // rows of an axis and those inside it
    for (std::size_t axis = axes.sizes.size(); axis-- > 0; inner *= axes.sizes[axis]) {
      const std::int64_t stride = axes.strides[0][axis];
      if (stride == 0) continue;
      std::string at = inner == 1 ? "row" : "row / " + decimal(inner);
      if (axis > 0) at += " % " + decimal(axes.sizes[axis]);
      sum += (sum.empty() ? "" : " + ") + at + " * " + decimal(stride);
    }
    const std::int64_t unit = own[e_.shape.rank() - 1];
    if (unit != 0) sum += (sum.empty() ? "" : " + ") + std::string("unit") + (unit == 1 ? "" : " * " + decimal(unit));
    all += (sum.empty() ? "0" : sum) + ";\n";
  }
  return all;
}

std::string UnitPrinter::load(std::size_t input) const {
  const std::string place = "i" + std::to_string(input);
  return e_.inputs[input].is_key ? common::key_of(name(input), place)
                                 : common::load_of(dtypes_[input], name(input), place);
}

std::string UnitPrinter::early_loads(const std::string& indent, const std::string& condition) const {
  std::string all;
  for (std::size_t k = 0; k < e_.inputs.size(); ++k) {
    if (is_gate(k) || e_.inputs[k].is_key) continue;
    const std::string type = common::register_type(dtypes_[k]);
    all += indent + "const " + type + " l" + std::to_string(k) + " = " + condition + " ? " + type + "(" + load(k) +
           ") : " + type + "(0);\n";
  }
  return all;
}

std::string UnitPrinter::statements(const std::string& indent, bool loaded_early) const {
  common::Splice splice;
  splice.load = [&](std::size_t input) {
    if (is_gate(input)) return "s" + std::to_string(gates_[input]);
    return loaded_early && !e_.inputs[input].is_key ? "l" + std::to_string(input) : load(input);
  };
  splice.store = [&](std::size_t result, const std::string& variable) {
    const std::size_t operand = e_.inputs.size() + result;
    const std::string store =
        common::store_of(dtypes_[operand], name(operand), "i" + std::to_string(operand), variable);
    const auto passes = [&](const PassedResult& each) { return each.results.front() == result; };
    std::string all;
    for (const PassedResult& each : passed_) {
      if (!passes(each)) continue;
      const std::string n = decimal(each.buffer);
      all += "if (to" + n + " >= 0) unroll_put<UNROLL_LOOP_buffer" + n + ">(slot" + n + ", int(row) - rows_begin, " +
             decimal(each.first) + " + int(unit), " + variable + ");\n" + indent;
      if (each.only_there) all += "if ((n.to" + n + " & 1) == 0 || to" + n + " < 0) ";
    }
    return all + store;
  };
  splice.element = "(row * " + decimal(units()) + " + unit)";
  return common::print_statements(e_, Dialect::cuda, splice, indent);
}

std::size_t UnitPrinter::access_of(std::size_t result) const {
  std::size_t place = result;
  for (std::size_t k = 0; k < e_.inputs.size(); ++k) place += !is_gate(k);
  return place;
}

std::vector<UnitAccess> UnitPrinter::accesses() const {
  std::vector<UnitAccess> all;
  std::size_t operand = 0;
  for (std::size_t k = 0; k < dtypes_.size(); ++k) {
    if (is_gate(k)) continue;
    const std::size_t element = dtype_bytes(dtypes_[k]);
    UnitAccess access{.operand = operand, .bytes = operands_[operand].bytes, .writes = k >= e_.inputs.size()};
    const device::Axes axes = leading_axes(e_.shape, strides(k));
    const bool is_own = strides(k)[e_.shape.rank() - 1] == 1 && axes.sizes.size() <= 1 &&
                        (axes.sizes.empty() ? rows() == 1 : axes.strides[0][0] >= units());
    if (is_own) {
      access.width = units() * element;
      access.rows = rows();
      access.units = units();
      access.row_bytes = axes.sizes.empty() ? access.width : axes.strides[0][0] * element;
      access.bytes = (access.rows - 1) * access.row_bytes + access.width;
    } else if (e_.shape.elements() == 0) {
      access.bytes = 0;
    }
    all.push_back(access);
    ++operand;
  }
  return all;
}

std::vector<UnitAccess> row_accesses(const Expression& e, const device::Operands& operands) {
  const std::vector<DType> dtypes = common::register_dtypes(e);
  const std::vector<std::int64_t> columns = common::register_columns(e);
  const std::size_t rows = e.shape.elements() / e.shape[e.shape.rank() - 1];
  std::vector<UnitAccess> all;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const bool writes = k >= e.inputs.size();
    const std::size_t from = writes ? e.results[k - e.inputs.size()].from : k;
    const Strides& strides = writes ? e.results[k - e.inputs.size()].strides : e.inputs[k].strides;
    UnitAccess access{.operand = k, .bytes = operands[k].bytes, .writes = writes};
    const device::Axes axes = leading_axes(e.shape, strides);
    const bool is_sum = writes && e.results[k - e.inputs.size()].sums;
    const bool is_dense = columns[from] == 1 || strides[e.shape.rank() - 1] == 1;
    if (!is_sum && is_dense && axes.sizes.size() == 1 && axes.strides[0][0] >= columns[from]) {
      access.row_bytes = axes.strides[0][0] * dtype_bytes(dtypes[from]);
      access.width = columns[from] * dtype_bytes(dtypes[from]);
      access.rows = rows;
      access.bytes = (rows - 1) * access.row_bytes + access.width;
    }
    all.push_back(access);
  }
  return all;
}

std::string print_owned(const UnitMap& map, std::int64_t rows, std::int64_t units, std::int64_t live_rows) {
  const std::string own = decimal(map.own_units(units)), group = decimal(map.own_rows(rows));
  std::string at =
      "  const int first_unit = int(blockIdx.x % " + decimal(map.blocks) + "u) * " + own + ", rows_begin = ";
  at += map.groups == 1 ? "0" : "int(blockIdx.x / " + decimal(map.blocks) + "u) * " + group;
  const std::string end = "rows_begin + " + group;
  const std::string all = live_rows > 0 ? "live[0] * " + decimal(live_rows) : decimal(rows);
  return at + ", rows_end = " + end + " < " + all + " ? " + end + " : " + all + ";\n";
}

}  // namespace unroll::cuda
