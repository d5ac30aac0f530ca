// SPDX-License-Identifier: Apache-2.0
// Attributes as bytes, for hash tables of nodes and for graph hashes.
#pragma once

#include <string>

#include "unroll/graph.h"

namespace unroll {

// Equal for equal attributes and different for different ones.
std::string attribute_bytes(const Attributes& attributes);

}  // namespace unroll
