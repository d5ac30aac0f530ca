// SPDX-License-Identifier: Apache-2.0
// The ops by name and kind.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "unroll/support/export.h"

namespace unroll {

// Ops in the order of op_table.def. docs/conventions.md documents each of them.
enum class Op : std::uint16_t {
#define UNROLL_OP(name, ...) name,
#include "unroll/ir/op_table.def"
};

enum class OpTier : std::uint8_t { primitive, structured, composite };
enum class OpKind : std::uint8_t {
  source,
  unary,
  binary,
  compare,
  logical,
  select,
  cast,
  move,
  matmul,
  reduce,
  index,
  random,
  body,
  composite
};
enum class OpCost : std::uint8_t { free, cheap, expensive };  // the cost to recompute it
enum class OpGradient : std::uint8_t { yes, none };

struct OpInfo {
  Op op;
  std::string_view name;
  OpTier tier;
  OpKind kind;
  int min_inputs;
  int max_inputs;  // -1: any number
  OpGradient gradient;
  OpCost cost;
};
UNROLL_API const OpInfo& op_info(Op op);
UNROLL_API std::span<const OpInfo> op_table();
UNROLL_API const OpInfo* find_op(std::string_view name);  // null when unknown
// True for ops that work element by element with NumPy broadcasting: unary, binary, compare, logical, select, cast.
UNROLL_API bool is_elementwise(Op op);

}  // namespace unroll
