// SPDX-License-Identifier: Apache-2.0
// The shaders. In all of them push constant 0 is where their parameters begin in buffer 0, push constant 1 + k where
// operand k begins in buffer 1 + k: in elements, which are words, bytes for b8, or 16 bits. One invocation makes one
// element of a result, or one partial result, unless stated. Comments give the loop iterations of an invocation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/common/expression.h"
#include "backends/vulkan/device/limits.h"
#include "backends/vulkan/kernels/code.h"

namespace unroll::vulkan {

using Params = std::vector<std::uint32_t>;

struct Setting {
  std::uint32_t local_size;
  bool preserve_nan;
  const LiveRows* live = nullptr;  // of a step of a packed loop
};
ModuleOptions module_options(const Setting& setting, int operands);
// Parameter `index` of a shader.
Term parameter(Code& c, int index);
// Registers of 16-bit formats hold their bits. Throws Error(unsupported) for dtypes that shaders lack.
Kind kind_of(DType dtype);
Term load_element(Code& c, int operand, Term index, DType dtype);  // index from the operand's beginning
void store_element(Code& c, int operand, Term index, Term value, DType dtype);
// Between registers of a 16-bit format and f32. Others stay.
Term widened(DType from, Term value);
Term narrowed(DType to, Term value);

// Bits of the start of a maximum, of f32 and of i32.
inline constexpr std::uint32_t k_minus_infinity = 0xff800000u, k_lowest = 0x80000000u;

// The buffers of a shader's operands. Operands that share one state their distance from the first in it, in elements.
struct Buffers {
  std::vector<int> of;                  // [operand] number of its buffer, among those that count
  std::vector<std::uint32_t> distance;  // [operand] from the first in its buffer; wraps around
  int count = 0;
  bool is_first(std::size_t operand) const;
};
Buffers separate_buffers(std::size_t operands);  // one for each

// Pointwise groups, simplified (common/walk.h): operands are the inputs, then the results. No loops.
std::string expression_key(const common::Expression& expression, const Buffers& buffers);
Words expression_shader(const common::Expression& expression, const Buffers& buffers, const Setting& setting);
Params expression_params(const common::Expression& expression, const Buffers& buffers);
// An expression within a shader: its first operand and parameter, and the buffers of the operands that are not given.
struct ExpressionPlace {
  int operand, param;
  const Buffers* buffers;
};
// Computes one element and stores its results. `given`: [input] values that are no operands; empty: there are none.
void write_expression(Code& c, const common::Expression& expression, const ExpressionPlace& place, Term element,
                      const std::vector<Term>& given = {});
Term constant_term(Code& c, const std::pair<DType, double>& constant);
// One instruction of the expression IR on registers.
Term instruction_term(Code& c, const common::Instruction& i, Term a, Term b, Term other);

// Sums and maxima. Invocation o * chunks + c makes element [o, c] of the result from `length` elements of chunk c, in
// order. Elements of x are those of `kept` axes for o, and of `reduced` axes. `length` iterations.
enum class Reduction : std::uint8_t { sum, max, argmax };  // argmax: i32, the first; one chunk from `first` on
struct ReductionSizes {
  std::uint32_t outputs, chunks, length, total;
  std::vector<std::uint32_t> kept, kept_strides, reduced, reduced_strides;
  std::uint32_t first = 0;
};
// Numbers of 16 bits are added up in f32, and their sums are f32.
std::string reduction_key(Reduction reduction, DType dtype, const ReductionSizes& sizes);
Words reduction_shader(Reduction reduction, DType dtype, std::size_t kept, std::size_t reduced, const Setting& setting);
Params reduction_params(const ReductionSizes& sizes);

// gather: operands table, indices, result; parameters n, rows, row size.
Words gather_shader(DType dtype, const Setting& setting);
// scatter_add: operands indices, updates, result; parameters n, row size, first index, end of indices, accumulates.
// (end - first) iterations: the updates of an element are added in order.
Words scatter_shader(DType dtype, const Setting& setting);
// Links between updates of one row of scatter_add: operands indices, links [2, n]; parameter n. The next update of the
// row, or k_no_link; and whether none comes before. n iterations.
inline constexpr std::uint32_t k_no_link = 0xffffffffu;
Words links_shader(const Setting& setting);
// scatter_add into zeros by links: operands indices, updates, links, result; parameters n * row size, n, rows, row
// size. n iterations: the updates of an element are added in order.
Words linked_scatter_shader(DType dtype, const Setting& setting);
// iota: operand result; parameters n, inner, size of the axis.
Words iota_shader(const Setting& setting);
// random_uniform: operands key, [step], result; parameters n, rng_stream.
Words random_shader(bool has_step, const Setting& setting);
// Rows of each step of a packed loop, and of all steps before it: operands batch_sizes, result [T, 2]; parameters T, B.
// T iterations.
Words live_rows_shader(const Setting& setting);
// The states behind a packed loop: operands the rows of each step, first states, two copies that steps wrote in turn,
// result; parameters n, row size, T, elements from copy to copy, whether the loop is reversed. About log2(T)
// iterations.
Words final_states_shader(DType dtype, const Setting& setting);
// pack_lengths: operands lengths, batch_sizes, order, rank, pack, unpack, rows; parameters B, T. B iterations.
Words pack_shader(const Setting& setting);

}  // namespace unroll::vulkan
