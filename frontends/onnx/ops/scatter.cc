// SPDX-License-Identifier: Apache-2.0
// Operators that read or write single elements, sort, and accumulate. They use positions in the flattened tensor.
#include <algorithm>
#include <limits>

#include "frontends/onnx/importer.h"

namespace unroll::onnx {
namespace {

Ints strides_of(const Shape& shape) {
  if (shape.elements() == 0) return Ints(shape.rank(), 0);
  Ints strides(shape.rank(), 1);
  for (int i = shape.rank() - 2; i >= 0; --i) strides[i] = strides[i + 1] * shape[i + 1];
  return strides;
}

// Negative indices count from the end; indices out of range become -1 in the position.
struct Positions {
  Value at, is_inside;

  void add_axis(Value index, std::int64_t size, std::int64_t stride) {
    const Value i = wrapped(index, size);
    const Value inside = logical_and(i >= 0, i < static_cast<double>(size));
    const Value part = i * static_cast<double>(stride);
    is_inside = is_inside ? logical_and(is_inside, inside) : inside;
    at = at ? add(at, part) : part;
  }
  void add_iota(Value iota, std::int64_t stride) {
    const Value part = iota * static_cast<double>(stride);
    at = at ? add(at, part) : part;
  }
  Value result() const { return is_inside ? select(is_inside, at, scalar_like(at, -1)) : at; }
};

// Positions of GatherElements and ScatterElements: the index replaces the coordinate of one axis.
Value element_positions(Call& call, Value indices, const Shape& shape, int axis) {
  if (indices.rank() != shape.rank()) call.refuse("the indices have another rank than the data");
  call.narrow(shape.elements());
  const Ints strides = strides_of(shape);
  Positions positions;
  for (int i = 0; i < shape.rank(); ++i) {
    if (i == axis) {
      positions.add_axis(indices, shape[i], strides[i]);
      continue;
    }
    if (indices.shape()[i] > shape[i]) call.refuse("the indices exceed axis " + std::to_string(i));
    positions.add_iota(iota(call.graph(), indices.shape(), i), strides[i]);
  }
  return positions.result();
}

std::vector<Value> gather_elements(Call& call) {
  const Value x = call.in(0), indices = call.in(1);
  const int axis = call.axis(call.integer("axis", 0), x.rank());
  const Value at = element_positions(call, indices, x.shape(), axis);
  return {gather(reshape(x, {x.shape().elements()}), at)};
}

// Positions of GatherND and ScatterND: rows of indices are coordinates of the axes after `batch` common axes.
struct RowPositions {
  Value at;     // [leading axes of the indices]
  Shape table;  // the data with the indexed axes as one, first
};
RowPositions row_positions(Call& call, Value indices, const Shape& shape, int batch) {
  if (indices.rank() == 0) call.refuse("the indices are a scalar");
  const int last = indices.rank() - 1;
  const std::int64_t depth = indices.shape()[last];
  if (batch < 0 || batch > last || depth > shape.rank() - batch) call.refuse("the indices exceed the rank of the data");
  const int n = batch + static_cast<int>(depth);
  const Shape leading(shape.dims().first(n)), rows = indices.shape().removed(last);
  call.narrow(leading.elements());
  const Ints strides = strides_of(leading);
  Positions positions;
  for (int i = 0; i < batch; ++i) {
    if (rows[i] != shape[i]) call.refuse("the batch axes of data and indices differ");
    positions.add_iota(iota(call.graph(), rows, i), strides[i]);
  }
  for (int i = batch; i < n; ++i)
    positions.add_axis(reshape(slice(indices, last, i - batch, 1), rows), shape[i], strides[i]);
  Ints table{leading.elements()};
  table.insert(table.end(), shape.begin() + n, shape.end());
  const bool has_positions = bool(positions.at);
  return {has_positions ? positions.result() : filled(call.graph(), {DType::i32, rows}, 0), Shape(table)};
}

std::vector<Value> gather_nd(Call& call) {
  const Value x = call.in(0);
  const auto batch = static_cast<int>(std::clamp<std::int64_t>(call.integer("batch_dims", 0), -1, Shape::k_max_rank));
  const RowPositions rows = row_positions(call, call.in(1), x.shape(), batch);
  return {gather(reshape(x, rows.table), rows.at)};
}

using Combine = Value (*)(Value old, Value update);
struct CombineRow {
  std::string_view name;
  Combine combine;  // null: the update replaces the element
};
constexpr CombineRow k_combines[] = {{"none", nullptr}, {"mul", mul}, {"max", maximum}, {"min", minimum}};

// Replaces row r of the table by update from[r], where from[r] >= 0.
Value with_updates(Value table, Value updates, Value from, Combine combine) {
  Ints dims(table.rank(), 1);
  dims[0] = table.shape()[0];
  const Value is_updated = reshape(greater_equal(from, scalar_like(from, 0)), Shape(dims));
  const Value update = gather(updates, from);
  return select(is_updated, combine ? combine(table, update) : update, table);
}

// Updates with known positions, in rounds: each contains at most one update of a row.
Value by_rounds(Call& call, Value table, const Tensor& at, Value updates, Combine combine) {
  const std::int64_t rows = table.shape()[0];
  call.importer.count_elements(rows);
  std::vector<std::vector<std::int32_t>> rounds;
  std::vector<std::size_t> done(rows);
  const auto positions = at.values<std::int32_t>();
  for (std::int64_t i = 0; i < at.elements(); ++i) {
    const std::int32_t row = positions[i];
    if (row < 0) continue;
    const std::size_t round = combine ? done[row]++ : 0;  // without a combination, the last update counts
    if (round >= rounds.size()) {
      call.importer.count_elements(rows);
      rounds.emplace_back(rows, -1);
    }
    rounds[round][row] = static_cast<std::int32_t>(i);
  }
  for (const std::vector<std::int32_t>& from : rounds)
    table = with_updates(table, updates, constant(call.graph(), Tensor::from<std::int32_t>({rows}, from)), combine);
  return table;
}

// ONNX requires distinct positions here, so that their sum is the number of the only update.
Value by_distinct(Value table, Value at, Value updates) {
  const std::int64_t n = at.shape()[0];
  const DType exact = n < (1 << 24) ? DType::f32 : DType::f64;
  const Value number = cast(iota(at.graph(), {n}, 0) + 1.0, exact);
  const Value from = cast(scatter_add(at, number, table.shape()[0]), DType::i32) - 1.0;
  return with_updates(table, updates, from, nullptr);
}

Value with_sums(Value table, Value at, Value updates) {
  const DType type = table.dtype();
  if (is_float(type)) return add(table, scatter_add(at, updates, table.shape()[0]));
  return add(table, cast(scatter_add(at, cast(updates, DType::f64), table.shape()[0]), type));
}

// table [N,...], at [n], updates [n,...]
Value scattered(Call& call, Value table, Value at, Value updates, bool is_constant) {
  const std::string name = call.text("reduction", "none");
  if (updates.dtype() != table.dtype()) call.refuse("data and updates differ in type");
  if (name == "add") return with_sums(table, at, updates);
  const auto found = std::ranges::find(k_combines, name, &CombineRow::name);
  if (found == std::end(k_combines)) call.refuse("reduction '" + name + "' is unknown");
  if (!found->combine && !is_constant) return by_distinct(table, at, updates);
  const std::optional<Tensor> known = call.importer.literal(call.names.frame, at);
  if (!known) call.unsupported("reduction " + name + " needs indices that are known before the graph runs");
  return by_rounds(call, table, *known, updates, found->combine);
}

std::vector<Value> scatter_elements(Call& call) {
  const Value x = call.in(0), indices = call.in(1), updates = call.in(2);
  const int axis = call.axis(call.integer("axis", 0), x.rank());
  if (indices.shape() != updates.shape()) call.refuse("indices and updates differ in shape");
  const std::int64_t n = indices.shape().elements();
  const Value at = reshape(element_positions(call, indices, x.shape(), axis), {n});
  const Value y = scattered(call, reshape(x, {x.shape().elements()}), at, reshape(updates, {n}),
                            indices.node().op == Op::constant);
  return {reshape(y, x.shape())};
}

std::vector<Value> scatter_nd(Call& call) {
  const Value x = call.in(0), indices = call.in(1), updates = call.in(2);
  const RowPositions rows = row_positions(call, indices, x.shape(), 0);
  Ints dims(rows.at.shape().begin(), rows.at.shape().end());
  dims.insert(dims.end(), rows.table.begin() + 1, rows.table.end());
  if (updates.shape() != Shape(dims))
    call.refuse("updates is " + updates.shape().text() + ", not " + Shape(dims).text());
  const std::int64_t n = rows.at.shape().elements();
  const Value y = scattered(call, reshape(x, rows.table), reshape(rows.at, {n}),
                            reshape(updates, rows.table.with(0, n)), indices.node().op == Op::constant);
  return {reshape(y, x.shape())};
}

std::vector<Value> cumulative_sum(Call& call) {
  Value x = call.in(0);
  const int axis = call.axis(call.integer(1), x.rank());
  const bool reverse = call.integer("reverse", 0) != 0, exclusive = call.integer("exclusive", 0) != 0;
  if (reverse) x = flipped(x, axis);
  if (exclusive) x = slice(pad(x, axis, 1, 0), axis, 0, x.shape()[axis]);
  const Value y = cumsum(x, axis);
  return {reverse ? flipped(y, axis) : y};
}

// Finds one maximum per step, the first among equals. NaN counts as the largest.
ScanResult largest_first(Value x, std::int64_t k) {
  const bool is_integer = x.dtype() == DType::i32;
  const double least = is_integer ? std::numeric_limits<std::int32_t>::min()
                                  : -std::numeric_limits<double>::infinity();
  const auto step = [least](const StepValues& at) -> StepResult {
    const Value taken = at.states[0], all = at.constants[0];
    const int last = all.rank() - 1;
    const Value most = reduce_max(select(taken, scalar_like(all, least), all), last, true);
    const Value is_most = logical_or(equal(all, most), not_equal(all, all));
    const Value index = argmax(cast(logical_and(logical_not(taken), is_most), DType::i32), last);
    const Value position = reshape(index, most.shape());
    const Value next = logical_or(taken, equal(iota(all.graph(), all.shape(), last), position));
    return {{next}, {reshape(most, index.shape()), index}};
  };
  const std::vector<Value> states{filled(x.graph(), {DType::b8, x.shape()}, 0)}, constants{x};
  return scan(states, {}, constants, step, {.reverse = false, .lengths = {}, .reset = {}, .steps = k});
}

std::vector<Value> top_k(Call& call) {
  const Value x = call.in(0);
  const std::int64_t k = call.opset() < 10 ? call.integer("k", -1) : call.integer(1);
  const int axis = call.axis(call.integer("axis", -1), x.rank());
  const bool largest = call.integer("largest", 1) != 0;
  call.integer("sorted", 1);
  if (k < 0 || k > x.shape()[axis]) call.refuse("k is outside of the axis");
  const Value moved = moved_axis(x, axis, x.rank() - 1);
  const auto reversed = [&](Value v) { return v.dtype() == DType::i32 ? -1.0 - v : neg(v); };  // -1 - v cannot overflow
  const ScanResult found = largest_first(largest ? moved : reversed(moved), k);
  const Value values = largest ? found.outputs[0] : reversed(found.outputs[0]);
  return {moved_axis(values, 0, axis), moved_axis(found.outputs[1], 0, axis)};
}

// The number of elements is a shape, so the input must be known.
std::vector<Value> non_zero(Call& call) {
  const Tensor x = call.literal(0);
  const Ints strides = strides_of(x.shape());
  std::vector<std::int32_t> found;
  call.importer.count_elements(x.elements());
  for (std::int64_t i = 0; i < x.elements(); ++i)
    if (x.at(i) != 0) found.push_back(call.narrow(i));
  std::vector<std::int32_t> list;
  for (int axis = 0; axis < x.shape().rank(); ++axis)
    for (const std::int32_t i : found) list.push_back(call.narrow(i / strides[axis] % x.shape()[axis]));
  return {constant(call.graph(), Tensor::from<std::int32_t>({x.shape().rank(), std::ssize(found)}, list))};
}

constexpr OperatorRow k_scatter_rows[] = {
    {"CumSum", 11, cumulative_sum},
    {"GatherElements", 11, gather_elements},
    {"GatherND", 11, gather_nd},
    {"NonZero", 9, non_zero},
    {"Scatter", 9, scatter_elements},
    {"ScatterElements", 11, scatter_elements},
    {"ScatterND", 11, scatter_nd},
    {"TopK", 1, top_k},
};

}  // namespace

std::span<const OperatorRow> scatter_rows() { return k_scatter_rows; }

}  // namespace unroll::onnx
