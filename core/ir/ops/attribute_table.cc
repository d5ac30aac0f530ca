// SPDX-License-Identifier: Apache-2.0
#include "core/ir/ops/attribute_table.h"

#include <array>

#include "core/ir/ops/composite.h"

namespace unroll {

namespace {

struct AttributeRow {
  Op op;
  AttributeSpec attribute;
};
using K = AttributeKind;

// Attributes of the primitives. Those of a composite are in its own row.
constexpr AttributeRow k_rows[] = {
    {Op::input, {"name", K::text}},
    {Op::input, {"dtype", K::dtype}},
    {Op::input, {"shape", K::integers}},
    {Op::input, {"least", K::integer, true}},  // core/ir/input_range.h
    {Op::input, {"most", K::integer, true}},
    {Op::input, {"most_is", K::text, true}},
    {Op::constant, {"value", K::tensor}},
    {Op::iota, {"shape", K::integers}},
    {Op::iota, {"axis", K::integer}},
    {Op::cast, {"dtype", K::dtype}},
    {Op::reshape, {"shape", K::integers}},
    {Op::transpose, {"permutation", K::integers}},
    {Op::slice, {"axis", K::integer}},
    {Op::slice, {"start", K::integer}},
    {Op::slice, {"size", K::integer}},
    {Op::pad, {"axis", K::integer}},
    {Op::pad, {"low", K::integer}},
    {Op::pad, {"high", K::integer}},
    {Op::concat, {"axis", K::integer}},
    {Op::broadcast, {"shape", K::integers}},
    {Op::windows, {"axis", K::integer}},
    {Op::windows, {"size", K::integer}},
    {Op::windows, {"stride", K::integer}},
    {Op::windows, {"dilation", K::integer}},
    {Op::matmul, {"transpose_a", K::flag}},
    {Op::matmul, {"transpose_b", K::flag}},
    {Op::matmul, {"dtype", K::dtype, true}},
    {Op::reduce_sum, {"axes", K::integers}},
    {Op::reduce_sum, {"keep", K::flag}},
    {Op::reduce_max, {"axes", K::integers}},
    {Op::reduce_max, {"keep", K::flag}},
    {Op::argmax, {"axis", K::integer}},
    {Op::scatter_add, {"rows", K::integer}},
    {Op::pack_lengths, {"steps", K::integer}},
    {Op::random_uniform, {"shape", K::integers}},
    {Op::random_uniform, {"rng_stream", K::integer}},
    {Op::scan, {"steps", K::integer}},
    {Op::scan, {"states", K::integer}},
    {Op::scan, {"sequences", K::integer}},
    {Op::scan, {"reverse", K::flag}},
    {Op::scan, {"lengths", K::flag}},
    {Op::scan, {"reset", K::flag}},
    {Op::scan, {"packed", K::flag}},
    {Op::scan, {"segments", K::flag}},
    {Op::fused_reduction, {"sums", K::integers, true}},
    {Op::fused_reduction, {"sum_rows", K::integer, true}},
    // gradient has those of the composite it belongs to as well
    {Op::gradient, {"of", K::text}},
    {Op::gradient, {"n_inputs", K::integer}},
    {Op::gradient, {"d_outputs", K::integers}},
    {Op::gradient, {"d_inputs", K::integers}},
};

// Further attributes of a claimed composite or gradient (docs/adding-a-backend.md).
constexpr AttributeSpec k_claimed[] = {
    {"claimed", K::flag, true},
    {"saved_bytes", K::integer, true},
    {"scratch_bytes", K::integer, true},
    {"format", K::dtype, true},
    {"tf32", K::flag, true},
};

}  // namespace

std::vector<AttributeSpec> attributes_of(Op op) {
  std::vector<AttributeSpec> list;
  if (const Composite* composite = find_composite(op)) list = composite->attributes;
  for (const AttributeRow& row : k_rows)
    if (row.op == op) list.push_back(row.attribute);
  const bool claimable = op_info(op).tier == OpTier::composite || op == Op::gradient;
  if (claimable) list.insert(list.end(), std::begin(k_claimed), std::end(k_claimed));
  return list;
}

std::string_view attribute_kind_name(AttributeKind kind) {
  constexpr std::array<std::string_view, 7> k_names{"an integer", "a number", "a flag",  "a text",
                                                    "integers",   "a dtype",  "a tensor"};
  return k_names[static_cast<std::size_t>(kind)];
}

}  // namespace unroll
