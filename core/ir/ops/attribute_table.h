// SPDX-License-Identifier: Apache-2.0
// The attributes of each op.
#pragma once

#include <string_view>
#include <vector>

#include "core/ir/ops/attribute_spec.h"
#include "unroll/ir/graph.h"

namespace unroll {

std::vector<AttributeSpec> attributes_of(Op op);
std::string_view attribute_kind_name(AttributeKind kind);

}  // namespace unroll
