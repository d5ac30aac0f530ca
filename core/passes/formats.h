// SPDX-License-Identifier: Apache-2.0
// Assigns number formats to the f32 values of a graph by what reads them.
#pragma once

#include <memory>
#include <optional>

#include "core/passes/log.h"
#include "unroll/ir/graph.h"

namespace unroll {

struct ProductFormat {
  Value (*round)(Value);            // to the format, in f32
  std::optional<DType> storage;     // of the format; none: values are rounded and stay f32
};

// Operands of products get the format; with a storage dtype also what loops with products read and stack step by step,
// states that a step reads as such operands only, and results of products that nothing else reads.
std::shared_ptr<const Graph> assign_format(const Graph& graph, const ProductFormat& format, PassLog* log);
// The same numbers without values of the dtype: casts to it become roundings, and values of it f32.
std::shared_ptr<const Graph> without_dtype(const Graph& graph, DType dtype, Value (*round)(Value));

}  // namespace unroll
