// SPDX-License-Identifier: Apache-2.0
// The shaders. In all of them push constant 0 is where their parameters begin in buffer 0, push constant 1 + k where
// operand k begins in buffer 1 + k: in elements, which are words, or bytes for b8. One invocation makes one element of
// a result, or one partial result, unless stated. Comments give the loop iterations of an invocation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/common/expression.h"
#include "backends/vulkan/code.h"
#include "backends/vulkan/limits.h"

namespace unroll::vulkan {

using Params = std::vector<std::uint32_t>;

struct Setting {
  std::uint32_t local_size;
  bool preserve_nan;
};
ModuleOptions module_options(const Setting& setting, int operands);
// Parameter `index` of a shader.
Term parameter(Code& c, int index);
Kind kind_of(DType dtype);  // throws Error(unsupported) for dtypes that shaders do not compute in
Term load_element(Code& c, int operand, Term index, DType dtype);  // index from the operand's beginning
void store_element(Code& c, int operand, Term index, Term value);

// Pointwise groups, simplified (common/walk.h): operands are the inputs, then the results. No loops.
std::string expression_key(const common::Expression& expression);
Words expression_shader(const common::Expression& expression, const Setting& setting);
Params expression_params(const common::Expression& expression);
// One instruction of the expression IR on registers.
Term instruction_term(Code& c, const common::Instruction& i, Term a, Term b, Term other);

// c[m, n] = (accumulates ? c : 0) + sum over k in [k_begin, k_end) of a[m, k] b[k, n]; operands a, b, c, [rows i32].
// A workgroup makes a tile of tile x tile elements. ceil((k_end - k_begin) / tile) iterations.
struct Product {
  int batch_rank = 0;        // axes of matrices, at most 4
  bool has_rows = false;     // the number of rows of a that count
  bool rows_limit_k = false; // they are the axis that is summed over
};
struct ProductSizes {
  std::uint32_t m, n, k_begin, k_end, a_row, a_column, b_row, b_column, c_row;  // strides in elements
  std::uint32_t accumulates;
  std::vector<std::uint32_t> sizes, a, b, c;  // [batch_rank] sizes and strides
};
std::uint32_t product_tile(const Setting& setting);
std::uint32_t product_invocations(const Setting& setting);
Words product_shader(const Product& product, const Setting& setting);
Params product_params(const ProductSizes& sizes);

// Sums and maxima. Invocation o * chunks + c makes element [o, c] of the result from `length` elements of chunk c, in
// order. Elements of x are those of `kept` axes for o, and of `reduced` axes. `length` iterations.
enum class Reduction : std::uint8_t { sum, max, argmax };  // argmax: i32, the first; one chunk
struct ReductionSizes {
  std::uint32_t outputs, chunks, length, total;
  std::vector<std::uint32_t> kept, kept_strides, reduced, reduced_strides;
};
std::string reduction_key(Reduction reduction, DType dtype, const ReductionSizes& sizes);
Words reduction_shader(Reduction reduction, DType dtype, std::size_t kept, std::size_t reduced, const Setting& setting);
Params reduction_params(const ReductionSizes& sizes);

// gather: operands table, indices, result; parameters n, rows, row size.
Words gather_shader(DType dtype, const Setting& setting);
// scatter_add: operands indices, updates, result; parameters n, row size, first index, end of indices, accumulates.
// (end - first) iterations: the updates of an element are added in order.
Words scatter_shader(DType dtype, const Setting& setting);
// iota: operand result; parameters n, inner, size of the axis.
Words iota_shader(const Setting& setting);
// random_uniform: operands key, [step], result; parameters n, site.
Words random_shader(bool has_step, const Setting& setting);
// pack_lengths: operands lengths, batch_sizes, order, rank, pack, unpack, rows; parameters B, T. B iterations.
Words pack_shader(const Setting& setting);

}  // namespace unroll::vulkan
