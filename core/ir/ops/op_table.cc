// SPDX-License-Identifier: Apache-2.0
// The op table as data, and the sets of ops that passes use.
#include <array>

#include "unroll/ir/graph.h"

namespace unroll {

namespace {

constexpr OpInfo k_table[] = {
#define UNROLL_OP(name, tier, kind, min_inputs, max_inputs, gradient, cost) \
  {Op::name, #name, OpTier::tier, OpKind::kind, min_inputs, max_inputs, OpGradient::gradient, OpCost::cost},
#include "unroll/ir/op_table.def"
};

}  // namespace

std::span<const OpInfo> op_table() { return k_table; }

const OpInfo& op_info(Op op) { return k_table[static_cast<std::size_t>(op)]; }

const OpInfo* find_op(std::string_view name) {
  for (const OpInfo& info : k_table)
    if (info.name == name) return &info;
  return nullptr;
}

bool is_elementwise(Op op) {
  switch (op_info(op).kind) {
    case OpKind::unary:
    case OpKind::binary:
    case OpKind::compare:
    case OpKind::logical:
    case OpKind::select:
    case OpKind::cast: return true;
    default: return false;
  }
}

}  // namespace unroll
