// SPDX-License-Identifier: Apache-2.0
// One function per op without a body. Opset 17; only types that ONNX Runtime supports: float, double, int32, bool.
#include <algorithm>
#include <limits>

#include "frontends/onnx/write/emitter.h"

namespace unroll::onnx {
namespace {

using Integers = std::vector<std::int64_t>;

constexpr std::int64_t k_to_the_end = std::numeric_limits<std::int64_t>::max();  // an end of Slice

struct NamedOp {
  Op op;
  const char* name;
};
// Ops with the same meaning in ONNX, operands in order.
constexpr NamedOp k_same[] = {
    {Op::neg, "Neg"},          {Op::abs, "Abs"},        {Op::sign, "Sign"},      {Op::erf, "Erf"},
    {Op::exp, "Exp"},          {Op::log, "Log"},        {Op::sqrt, "Sqrt"},
    {Op::tanh, "Tanh"},        {Op::sigmoid, "Sigmoid"}, {Op::stop_gradient, "Identity"},
    {Op::add, "Add"},          {Op::sub, "Sub"},        {Op::mul, "Mul"},
    {Op::maximum, "Max"},      {Op::minimum, "Min"},    {Op::less, "Less"},
    {Op::less_equal, "LessOrEqual"}, {Op::equal, "Equal"}, {Op::logical_and, "And"},
    {Op::logical_or, "Or"},    {Op::logical_not, "Not"},
};

std::vector<Operand> same(const Site& at) {
  const auto row = std::find_if(std::begin(k_same), std::end(k_same), [&](const NamedOp& r) {
    return r.op == at.node().op;
  });
  std::vector<std::string> inputs;
  for (std::size_t k = 0; k < at.n_inputs(); ++k) inputs.push_back(at.in(k));
  return {{at.emit.node(row->name, inputs)}};
}

// 0 for an integer division by 0, which would abort the process.
std::vector<Operand> div(const Site& at) {
  if (at.dtype(0) != DType::i32) return {{at.emit.node("Div", {at.in(0), at.in(1)})}};
  Emitter& e = at.emit;
  const std::string zero = e.scalar(DType::i32, 0), is_zero = e.node("Equal", {at.in(1), zero});
  const std::string by = e.node("Where", {is_zero, e.scalar(DType::i32, 1), at.in(1)});
  return {{e.node("Where", {is_zero, zero, e.node("Div", {at.in(0), by})})}};
}

// e^x - 1 loses all digits near 0; 2 t / (1 - t) with t = tanh(x / 2) keeps them.
std::vector<Operand> expm1(const Site& at) {
  Emitter& e = at.emit;
  const DType d = at.dtype(0);
  const std::string x = at.in(0), one = e.scalar(d, 1);
  const std::string t = e.node("Tanh", {e.node("Mul", {x, e.scalar(d, 0.5)})});
  const std::string near = e.node("Div", {e.node("Add", {t, t}), e.node("Sub", {one, t})});
  const std::string is_near = e.node("Less", {e.node("Abs", {x}), one});
  return {{e.node("Where", {is_near, near, e.node("Sub", {e.node("Exp", {x}), one})})}};
}

// log(u) x / (u - 1) with u = 1 + x rounded (Higham, Accuracy and Stability of Numerical Algorithms, section 1.14.1).
std::vector<Operand> log1p(const Site& at) {
  Emitter& e = at.emit;
  const DType d = at.dtype(0);
  const std::string x = at.in(0), one = e.scalar(d, 1), u = e.node("Add", {x, one});
  const std::string scaled = e.node("Mul", {e.node("Log", {u}), e.node("Div", {x, e.node("Sub", {u, one})})});
  return {{e.node("Where", {e.node("Equal", {u, one}), x, scaled})}};
}

// x - x is 0, or NaN for an infinity or NaN.
std::vector<Operand> is_finite(const Site& at) {
  return {{at.emit.node("Equal", {at.emit.node("Sub", {at.in(0), at.in(0)}), at.emit.scalar(at.dtype(0), 0)})}};
}

std::vector<Operand> select(const Site& at) {
  return {{at.emit.select(at.in(0), at.in(1), at.in(2), at.out_dtype())}};
}

std::vector<Operand> cast(const Site& at) { return {{at.emit.cast(at.in(0), at.out_dtype())}}; }

// The axes whose size is 1 in all builds. `others` receives the sizes of the others, build by build.
Integers axes_of_one(const Site& at, auto&& shape_in, std::vector<std::int64_t>& others) {
  Integers ones;
  for (int axis = 0; axis < shape_in(*at.builds[0]).rank(); ++axis)
    if (std::ranges::all_of(at.builds, [&](const Graph* g) { return shape_in(*g)[axis] == 1; })) ones.push_back(axis);
  for (const Graph* graph : at.builds)
    for (int axis = 0; axis < shape_in(*graph).rank(); ++axis)
      if (std::ranges::count(ones, axis) == 0) others.push_back(shape_in(*graph)[axis]);
  return ones;
}

std::vector<Operand> reshape(const Site& at) {
  const std::vector<Extent> to = at.extents("shape");
  Integers before, after;
  const Integers squeezed = axes_of_one(
      at, [&](const Graph& g) -> const Shape& { return g.type(g.node(at.id).inputs[0]).shape; }, before);
  const Integers added =
      axes_of_one(at, [&](const Graph& g) -> const Shape& { return g.node(at.id).outputs[0].shape; }, after);
  const bool is_unknown = std::ranges::any_of(to, [](const Extent& e) { return e.terms.empty(); });
  if (!is_unknown || before != after) return {{at.emit.reshaped(at.in(0), to)}};
  Emitter& e = at.emit;
  const std::string x = squeezed.empty() ? at.in(0) : e.node("Squeeze", {at.in(0), e.integers(squeezed)});
  return {{added.empty() ? x : e.node("Unsqueeze", {x, e.integers(added)})}};
}

std::vector<Operand> transpose(const Site& at) {
  return {{at.emit.node("Transpose", {at.in(0)}, {{"perm", at.node().attributes.get<Ints>("permutation")}})}};
}

Extent sum(Extent a, const Extent& b) {
  if (a.terms.empty() || b.terms.empty()) return {};
  for (std::size_t k = 0; k < a.terms.size(); ++k) a.terms[k] += b.terms[k];
  return a;
}

// True if the slice ends where its operand ends, for all sizes.
bool is_at_end(const Site& at) {
  return std::ranges::all_of(at.builds, [&](const Graph* graph) {
    const Node& node = graph->node(at.id);
    const auto integer = [&](const char* name) { return node.attributes.get<std::int64_t>(name); };
    const Shape& shape = graph->type(node.inputs[0]).shape;
    return integer("start") + integer("size") == shape[static_cast<int>(integer("axis"))];
  });
}

std::vector<Operand> slice(const Site& at) {
  const Extent start = at.extent("start"), size = at.extent("size"), end = sum(start, size);
  const std::string axis = at.emit.integers({at.integer("axis")});
  if (start.terms.empty() && size.is_constant() && size.constant() > 0 && is_at_end(at)) {
    const std::string from = at.emit.integers({-size.constant()}), to = at.emit.integers({k_to_the_end});
    return {{at.emit.node("Slice", {at.in(0), from, to, axis})}};
  }
  return {{at.emit.node("Slice", {at.in(0), at.emit.size(start), at.emit.size(end), axis})}};
}

std::vector<Operand> pad(const Site& at) {
  const std::size_t axis = at.integer("axis"), rank = at.rank(0);
  const Extent zero{Integers(at.emit.sizes().builds() - 1)};
  std::vector<Extent> pads(2 * rank, zero);
  pads[axis] = at.extent("low");
  pads[rank + axis] = at.extent("high");
  return {{at.emit.node("Pad", {at.in(0), at.emit.shape(pads)})}};
}

std::vector<Operand> concat(const Site& at) {
  std::vector<std::string> parts;
  for (std::size_t k = 0; k < at.n_inputs(); ++k) parts.push_back(at.in(k));
  return {{at.emit.node("Concat", parts, {{"axis", at.integer("axis")}})}};
}

// Unchanged sizes of the operand need not be known.
std::vector<Operand> broadcast(const Site& at) {
  std::vector<Extent> to = at.extents("shape");
  const std::vector<Extent> from = at.in_shape(0);
  Extent one{Integers(at.emit.sizes().builds() - 1)};
  one.terms[0] = 1;
  for (std::size_t k = 0; k < from.size(); ++k) {
    Extent& target = to[to.size() - from.size() + k];
    if (target == from[k] && !target.is_constant()) target = one;
  }
  return {{at.emit.node("Expand", {at.in(0), at.emit.shape(to)})}};
}

std::vector<Operand> iota(const Site& at) {
  const std::vector<Extent> shape = at.extents("shape");
  const std::size_t axis = at.integer("axis");
  const std::string range = at.emit.indices(shape[axis]);
  if (shape.size() == 1) return {{range}};
  Integers column(shape.size() - axis, 1);
  column[0] = -1;
  std::string along = at.emit.node("Reshape", {range, at.emit.integers(column)});
  return {{at.emit.node("Expand", {along, at.emit.shape(shape)})}};
}

std::string transposed_operand(const Site& at, std::size_t k) {
  if (at.inputs[k].tensor && at.rank(k) == 2) return at.emit.transposed(at.inputs[k]);
  Integers permutation;
  for (int i = 0; i < at.rank(k); ++i) permutation.push_back(i);
  std::swap(permutation.back(), permutation[permutation.size() - 2]);
  return at.emit.node("Transpose", {at.in(k)}, {{"perm", permutation}});
}

std::vector<Operand> matmul(const Site& at) {
  if (at.n_inputs() > 2) at.refuse("products of some rows only are not written");
  const Attributes& a = at.node().attributes;
  const std::string left = a.get_or<bool>("transpose_a", false) ? transposed_operand(at, 0) : at.in(0);
  const std::string right = a.get_or<bool>("transpose_b", false) ? transposed_operand(at, 1) : at.in(1);
  return {{at.emit.node("MatMul", {left, right})}};
}

std::vector<Operand> reduce(const Site& at) {
  const Integers axes = at.node().attributes.get<Ints>("axes");
  const auto keep = static_cast<std::int64_t>(at.node().attributes.get_or<bool>("keep", false));
  if (axes.empty()) return {{at.emit.node("Identity", {at.in(0)})}};
  if (at.node().op == Op::reduce_max)
    return {{at.emit.node("ReduceMax", {at.in(0)}, {{"axes", axes}, {"keepdims", keep}})}};
  return {{at.emit.node("ReduceSum", {at.in(0), at.emit.integers(axes)}, {{"keepdims", keep}})}};
}

std::vector<Operand> argmax(const Site& at) {
  const AttributeList attributes{{"axis", at.integer("axis")}, {"keepdims", std::int64_t{0}}};
  return {{at.emit.cast(at.emit.node("ArgMax", {at.in(0)}, attributes), DType::i32)}};
}

// An index out of range reads zeros; ONNX reports an error or counts from the end.
std::vector<Operand> gather(const Site& at) {
  Emitter& e = at.emit;
  const std::vector<Extent> table = at.in_shape(0), rows = at.out_shape();
  const std::string ids = at.in(1), zero = e.scalar(DType::i32, 0);
  const std::string n = e.cast(e.node("Squeeze", {e.size(table[0])}), DType::i32);
  const std::string last = e.node("Sub", {n, e.scalar(DType::i32, 1)});
  const std::string inside = e.node("Min", {e.node("Max", {ids, zero}), last});
  const std::string read = e.node("Gather", {at.in(0), inside}, {{"axis", std::int64_t{0}}});
  std::vector<Extent> mask = at.in_shape(1);
  std::string is_inside = e.node("Equal", {ids, inside});
  Extent one{Integers(e.sizes().builds() - 1)};
  one.terms[0] = 1;
  if (mask.size() < rows.size() && !mask.empty()) {
    mask.resize(rows.size(), one);
    is_inside = e.reshaped(is_inside, mask);
  }
  return {{e.select(is_inside, read, e.scalar(at.out_dtype(), 0), at.out_dtype())}};
}

// Position i of all windows is a slice with steps; the slices are stacked before the last axis.
std::vector<Operand> windows(const Site& at) {
  Emitter& e = at.emit;
  const std::int64_t axis = at.integer("axis"), size = at.integer("size"), dilation = at.integer("dilation");
  const std::string axes = e.integers({axis}), stack_axis = e.integers({at.rank(0) - 1});
  const std::string stride = e.integers({at.integer("stride")});
  std::vector<std::string> parts;
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t behind = (size - 1 - i) * dilation;  // positions that no window has as its i-th one
    const std::int64_t end = behind == 0 ? k_to_the_end : -behind;
    const std::string part = e.node("Slice", {at.in(0), e.integers({i * dilation}), e.integers({end}), axes, stride});
    parts.push_back(e.node("Unsqueeze", {part, stack_axis}));
  }
  return {{e.node("Concat", parts, {{"axis", std::int64_t{at.rank(0) - 1}}})}};
}

// ONNX has one batch axis and the channels before the positions. Empty if this convolution has another form.
std::vector<Operand> conv(const Site& at) {
  const Attributes& a = at.node().attributes;
  const Integers axes = a.get<Ints>("axes"), low = a.get<Ints>("low"), high = a.get<Ints>("high");
  const auto rank = static_cast<std::int64_t>(at.rank(0)), n = std::ssize(axes);
  const bool is_cut = std::ranges::any_of(low, [](auto p) { return p < 0; }) ||
                      std::ranges::any_of(high, [](auto p) { return p < 0; });
  if (rank != n + 2 || is_cut) return {};
  Integers to{0}, from(rank), pads = low;  // the permutations before and after the node
  for (std::int64_t axis = 0; axis + 1 < rank; ++axis)
    if (std::ranges::count(axes, axis) == 0) to[0] = axis;
  to.push_back(rank - 1);
  to.insert(to.end(), axes.begin(), axes.end());
  for (std::int64_t k = 0; k < rank; ++k) from[to[k]] = k;
  pads.insert(pads.end(), high.begin(), high.end());
  Integers of_weight{0, n + 1};
  for (std::int64_t k = 1; k <= n; ++k) of_weight.push_back(k);
  Emitter& e = at.emit;
  std::vector<std::string> inputs{e.node("Transpose", {at.in(0)}, {{"perm", to}}),
                                  e.node("Transpose", {at.in(1)}, {{"perm", of_weight}})};
  if (at.n_inputs() > 2) inputs.push_back(at.in(2));
  const std::string y = e.node("Conv", inputs, {{"strides", Integers(a.get<Ints>("stride"))},
                                                {"dilations", Integers(a.get<Ints>("dilation"))},
                                                {"pads", pads},
                                                {"group", a.get<std::int64_t>("groups")}});
  return {{e.node("Transpose", {y}, {{"perm", from}})}};
}

std::vector<Operand> softmax(const Site& at) {
  const char* const name = at.node().op == Op::softmax ? "Softmax" : "LogSoftmax";
  return {{at.emit.node(name, {at.in(0)}, {{"axis", std::int64_t{-1}}})}};
}

constexpr EmitRow k_plain_rows[] = {
    {Op::neg, same},          {Op::abs, same},          {Op::sign, same},        {Op::exp, same},
    {Op::erf, same},
    {Op::log, same},          {Op::sqrt, same},         {Op::tanh, same},        {Op::sigmoid, same},
    {Op::stop_gradient, same}, {Op::add, same},         {Op::sub, same},         {Op::mul, same},
    {Op::maximum, same},      {Op::minimum, same},      {Op::less, same},        {Op::less_equal, same},
    {Op::equal, same},        {Op::logical_and, same},  {Op::logical_or, same},  {Op::logical_not, same},
    {Op::div, div},           {Op::expm1, expm1},       {Op::log1p, log1p},      {Op::is_finite, is_finite},
    {Op::select, select},     {Op::cast, cast},         {Op::reshape, reshape},  {Op::transpose, transpose},
    {Op::slice, slice},       {Op::pad, pad},           {Op::concat, concat},    {Op::broadcast, broadcast},
    {Op::iota, iota},         {Op::matmul, matmul},     {Op::reduce_sum, reduce}, {Op::reduce_max, reduce},
    {Op::argmax, argmax},     {Op::gather, gather},     {Op::softmax, softmax},  {Op::log_softmax, softmax},
    {Op::windows, windows},   {Op::conv, conv},
};

}  // namespace

std::span<const EmitRow> plain_rows() { return k_plain_rows; }

}  // namespace unroll::onnx
