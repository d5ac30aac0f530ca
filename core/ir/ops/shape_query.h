// SPDX-License-Identifier: Apache-2.0
// The view of a node that shape rules check.
#pragma once

#include <span>
#include <string>

#include "unroll/ir/graph.h"

namespace unroll {

// Its functions throw Error(shape|type) that names the op.
struct ShapeQuery {
  Op op;
  std::span<const Type> inputs;
  const Attributes& attributes;
  const Graph* body;

  const Type& in(std::size_t i) const { return inputs[i]; }
  const Shape& shape(std::size_t i) const { return inputs[i].shape; }
  std::int64_t integer(std::string_view name) const { return attributes.get<std::int64_t>(name); }
  bool flag(std::string_view name) const { return attributes.get_or<bool>(name, false); }

  [[noreturn]] void fail(const std::string& what) const;            // Error(shape)
  [[noreturn]] void fail_type(const std::string& what) const;       // Error(type)
  void require(bool ok, const std::string& what) const { if (!ok) fail(what); }
  void require_shape(std::size_t i, const Shape& wanted, std::string_view name) const;
  void require_dtype(std::size_t i, DType wanted, std::string_view name) const;
  void require_float(std::size_t i) const;   // f32 or f64
  void require_number(std::size_t i) const;  // these or i32: what arithmetic works on
  void require_same_dtype() const;
  std::int64_t axis(int rank) const;  // attribute axis, checked against rank
};

}  // namespace unroll
