// SPDX-License-Identifier: Apache-2.0
#include "core/ir/ops/shape_query.h"

#include "unroll/support/error.h"

namespace unroll {

namespace {

std::string name_of(Op op) { return std::string(op_info(op).name); }

}  // namespace

void ShapeQuery::fail(const std::string& what) const { throw Error(ErrorKind::shape, name_of(op), what); }
void ShapeQuery::fail_type(const std::string& what) const { throw Error(ErrorKind::type, name_of(op), what); }

void ShapeQuery::require_shape(std::size_t i, const Shape& wanted, std::string_view name) const {
  if (shape(i) != wanted) fail(std::string(name) + " must be " + wanted.text() + "; got " + shape(i).text());
}
void ShapeQuery::require_dtype(std::size_t i, DType wanted, std::string_view name) const {
  if (in(i).dtype != wanted)
    fail_type(std::string(name) + " must be " + std::string(dtype_name(wanted)) + "; got " +
              std::string(dtype_name(in(i).dtype)));
}
void ShapeQuery::require_float(std::size_t i) const {
  if (!is_float(in(i).dtype)) fail_type("needs a float operand; got " + in(i).text());
}
void ShapeQuery::require_number(std::size_t i) const {
  if (is_half(in(i).dtype)) fail_type("works on f32; got " + in(i).text() + ", which needs a cast");
  if (in(i).dtype == DType::b8) fail_type("needs numbers; got " + in(i).text());
}
void ShapeQuery::require_same_dtype() const {
  for (const Type& t : inputs)
    if (t.dtype != inputs[0].dtype)
      fail_type("operands must have one dtype; got " + inputs[0].text() + " and " + t.text());
}
std::int64_t ShapeQuery::axis(int rank) const {
  const std::int64_t a = integer("axis");
  require(a >= 0 && a < rank, "axis " + std::to_string(a) + " is outside rank " + std::to_string(rank));
  return a;
}

}  // namespace unroll
