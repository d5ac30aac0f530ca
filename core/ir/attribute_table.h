// SPDX-License-Identifier: Apache-2.0
// The attributes of each op. Flags may be omitted and are then false. Attributes added by planning may be missing. All
// others are required.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "unroll/graph.h"

namespace unroll {

// In the order of the alternatives of Attribute.
enum class AttributeKind : std::uint8_t { integer, number, flag, text, integers, dtype, tensor };

struct AttributeSpec {
  std::string_view name;
  AttributeKind kind;
  bool planned = false;  // set by passes, absent before
};

std::vector<AttributeSpec> attributes_of(Op op);
std::string_view attribute_kind_name(AttributeKind kind);

}  // namespace unroll
