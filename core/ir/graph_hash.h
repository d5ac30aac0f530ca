// SPDX-License-Identifier: Apache-2.0
// What attributes hold as bytes, for tables of nodes and hashes.
#pragma once

#include <string>

#include "unroll/graph.h"

namespace unroll {

// Equal for equal attributes and different for different ones.
std::string attribute_bytes(const Attributes& attributes);

}  // namespace unroll
