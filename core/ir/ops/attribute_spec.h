// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace unroll {

// In the order of the alternatives of Attribute.
enum class AttributeKind : std::uint8_t { integer, number, flag, text, integers, dtype, tensor };

// An attribute of an op. A flag may be omitted and is then false; any other is required, unless it is set later.
struct AttributeSpec {
  std::string_view name;
  AttributeKind kind;
  bool planned = false;  // set after the node was made, absent before
};

}  // namespace unroll
