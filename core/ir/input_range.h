// SPDX-License-Identifier: Apache-2.0
// Ranges of i32 inputs such as lengths and indices. Builders of a graph declare them; code that binds a tensor in host
// memory checks them. A range is a mark on the input's node: no result, hash or text depends on it.
#pragma once

#include <cstdint>
#include <string_view>

#include "unroll/ir/graph.h"
#include "unroll/support/error.h"

namespace unroll {

// Every element of `value` must lie in [least, most]; `most_is` names the upper end: "the number of steps". Marks the
// inputs whose elements `value` has unchanged, checks constants at once, and leaves computed values alone.
UNROLL_API void require_range(Value value, std::int64_t least, std::int64_t most, std::string_view most_is);
// Lengths of sequences with so many steps. Does nothing for an empty value.
UNROLL_API void require_lengths(Value lengths, std::int64_t steps);
bool has_ranges(const Graph& graph);
// The ranges of the inputs of `source` for the values that replace them, in order; more values may follow.
void copy_ranges(const Graph& source, std::span<const Value> values);

// Throws an Error of this kind, which names `who`, the input and the element, on a value out of range. Tensors without
// an input of their name, and inputs without a tensor, are left to others.
UNROLL_API void check_range(const Graph& graph, const NamedValue& input, const Tensor& tensor, ErrorKind kind,
                            std::string_view who);
UNROLL_API void check_ranges(const Graph& graph, const TensorMap& tensors, ErrorKind kind, std::string_view who);

}  // namespace unroll
