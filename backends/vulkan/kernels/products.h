// SPDX-License-Identifier: Apache-2.0
// Products of matrices: c[m, n] = sum over k of a[m, k] b[k, n], added up from the first k to the last. A workgroup
// computes a tile of c; its invocations share the parts of a and b for `depth` terms, and each keeps the sums of
// own_rows x own_columns elements. An epilogue, which is an expression, may follow in the same dispatch.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/vulkan/kernels/kernels.h"

namespace unroll::vulkan {

// Terms that are added up one after the other: the rounding errors of such a sum grow with them, and docs/numerics.md
// allows for the logarithm of all terms of a product. With 2,048 equal terms the error equals the tolerance.
constexpr std::uint32_t k_block_terms = 1024;

// Rows and columns are multiples of 4, because shared memory is accessed four elements at a time. The loop over `depth`
// is written out for `unrolled` terms.
struct Tile {
  std::uint32_t rows, columns, own_rows, own_columns, depth, unrolled;
  bool in_blocks = false;  // k_block_terms terms are added up, then their sum to those before
  std::uint32_t invocations() const { return rows / own_rows * (columns / own_columns); }
  friend bool operator==(const Tile&, const Tile&) = default;
};

// An elementwise node on the product. Its shape has m * units elements, row by row.
struct Epilogue {
  common::Expression expression;
  std::vector<int> gates = {};  // [input] the gate of the product that it is; -1: an operand; or
  static constexpr int k_ran_before = -2;  // whether the row ran in the step before, too
  Buffers buffers = {};         // of the operands that are left, then of the results
};

// Operands of the shader: a, b, [rows i32], [c], and those of the epilogue. Products of one a, each with its b and c,
// may share a dispatch (`members`), and with them the sums of the rows of a (`sums`): the gradients of weights and
// biases. Operands are then a, each b, each c, [the sums]; there are no matrices, rows, gates, parts and epilogue.
struct Product {
  Tile tile = {};
  int batch_rank = 0;         // axes of matrices, at most 4
  bool has_rows = false;      // the number of rows of a that count
  bool rows_limit_k = false;  // they are the axis that is summed over
  bool a_by_k = true, b_by_k = false;  // neighbors in memory are along k
  // Gates: with an epilogue, the columns are `gates` ranges of the same number of units, and a tile has the same units
  // of each.
  int gates = 1;
  bool stores = true;         // c is kept
  int members = 1;
  bool sums = false;
  const Epilogue* epilogue = nullptr;
  DType operands = DType::f32, result = DType::f32;  // in memory; sums are f32, and rounded once
};
// Sizes and strides in elements.
struct ProductSizes {
  std::uint32_t m = 0, units = 0;            // columns of a gate
  std::uint32_t k = 0, part = 0;             // terms; those of a part: a sum in parts is c [parts, m, n]
  std::uint32_t a_row = 0, a_column = 0, b_row = 0, b_column = 0, c_row = 0, c_part = 0;
  std::vector<std::uint32_t> first = {0};    // [gates] column of b, and of c
  std::vector<std::uint32_t> sizes = {}, a = {}, b = {}, c = {};  // [batch_rank] sizes and strides
  struct Member {
    std::uint32_t units, b_row, b_column, c_row;
  };
  std::vector<Member> others = {};               // behind the first
  std::uint32_t matrices() const;
  std::uint32_t parts() const { return k == 0 ? 1 : (k + part - 1) / part; }
};

// The tile and the length of a part that take the least time by a model (tiling.cc). By sizes and the kind of device
// alone. Nothing: with an epilogue, or unless the sum may be in parts, a shader's loops may be too short for k.
enum class Sum : std::uint8_t { in_parts, whole, epilogue };
struct Tiling {
  Tile tile;
  std::uint32_t part;
};
std::optional<Tiling> choose_tiling(const ProductSizes& sizes, int gates, Sum sum, const Limits& limits);

std::string product_key(const Product& product);
Words product_shader(const Product& product, const Setting& setting);
Params product_params(const Product& product, const ProductSizes& sizes);
std::uint64_t product_groups(const Product& product, const ProductSizes& sizes);

}  // namespace unroll::vulkan
