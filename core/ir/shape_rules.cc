// SPDX-License-Identifier: Apache-2.0
#include "core/ir/shape_rules.h"

#include "core/ir/op_map.h"

namespace unroll {

namespace {

OpMap<ShapeRule> make_table() {
  OpMap<ShapeRule> table;
  for (const auto rows : {basic_shape_rules(), structured_shape_rules(), composite_shape_rules()})
    for (const ShapeRow& row : rows) table.set(row.op, row.rule);
  return table;
}

// The last output of a claimed composite whose gradient reads what it saved; see docs/adding-a-backend.md.
void add_saved(const ShapeQuery& q, std::vector<Type>& outputs) {
  const std::int64_t bytes = q.attributes.get_or<std::int64_t>("saved_bytes", 0);
  if (op_info(q.op).tier == OpTier::composite && bytes != 0) outputs.push_back({DType::b8, Shape{bytes}});
}

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

std::vector<Type> infer_types(const ShapeQuery& query) {
  static const OpMap<ShapeRule> table = make_table();
  const OpInfo& info = op_info(query.op);
  const int n = static_cast<int>(query.inputs.size());
  if (n < info.min_inputs || (info.max_inputs >= 0 && n > info.max_inputs))
    throw Error(ErrorKind::graph, info.name,
                "takes " + std::to_string(info.min_inputs) +
                    (info.max_inputs < 0                  ? " or more"
                     : info.max_inputs == info.min_inputs ? ""
                                                          : " to " + std::to_string(info.max_inputs)) +
                    " inputs; got " + std::to_string(n));
  const ShapeRule rule = table.find(query.op);
  if (!rule) throw Error(ErrorKind::internal, info.name, "has no shape rule");
  std::vector<Type> outputs = rule(query);
  add_saved(query, outputs);
  return outputs;
}

}  // namespace unroll
