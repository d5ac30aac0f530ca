// SPDX-License-Identifier: Apache-2.0
#include "core/ir/shapes/shape_rules.h"

#include "core/ir/ops/composite.h"
#include "core/ir/ops/op_map.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

OpMap<ShapeRule> make_shape_rules() {
  OpMap<ShapeRule> table;
  for (const OpInfo& info : op_table()) table.set(info.op, elementwise_shape_rule(info.op));
  for (const auto rows : {basic_shape_rules(), structured_shape_rules()})
    for (const ShapeRow& row : rows) table.set(row.op, row.rule);
  return table;
}

// The last output of a claimed composite whose gradient reads what it saved; see docs/adding-a-backend.md.
void add_saved(const ShapeQuery& q, std::vector<Type>& outputs) {
  const std::int64_t bytes = q.attributes.get_or<std::int64_t>("saved_bytes", 0);
  if (bytes != 0) outputs.push_back({DType::b8, Shape{bytes}});
}

}  // namespace

std::vector<Type> infer_types(const ShapeQuery& query) {
  static const OpMap<ShapeRule> table = make_shape_rules();
  const OpInfo& info = op_info(query.op);
  const int n = static_cast<int>(query.inputs.size());
  if (n < info.min_inputs || (info.max_inputs >= 0 && n > info.max_inputs))
    throw Error(ErrorKind::graph, info.name,
                "takes " + std::to_string(info.min_inputs) +
                    (info.max_inputs < 0                  ? " or more"
                     : info.max_inputs == info.min_inputs ? ""
                                                          : " to " + std::to_string(info.max_inputs)) +
                    " inputs; got " + std::to_string(n));
  if (info.tier == OpTier::composite) {
    std::vector<Type> outputs = composite_types(query);
    add_saved(query, outputs);
    return outputs;
  }
  const ShapeRule rule = table.find(query.op);
  if (!rule) throw Error(ErrorKind::internal, info.name, "has no shape rule");
  return rule(query);
}

}  // namespace unroll
