// SPDX-License-Identifier: Apache-2.0
// Number formats by name, and those that a precision stands for.
#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "core/passes/formats.h"
#include "core/passes/passes.h"
#include "core/support/text/in_quotes.h"
#include "core/support/text/nearest_name.h"
#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll {

namespace {

struct Row {
  Precision precision;
  std::string_view name;
  Value (*round)(Value);          // operands of products; null: as they are
  std::optional<DType> storage;
};
constexpr std::array<Row, 4> k_rows{{{Precision::f32, "f32", nullptr, {}},
                                     {Precision::tf32, "tf32", round_tf32, {}},
                                     {Precision::bf16, "bf16", round_bf16, DType::bf16},
                                     {Precision::f16, "f16", round_f16, DType::f16}}};
const Row& row_of(Precision precision) { return k_rows[static_cast<std::size_t>(precision)]; }

struct WeightRow {
  WeightFormat format;
  std::string_view name;
};
constexpr std::array<WeightRow, 3> k_weight_rows{
    {{WeightFormat::f32, "f32"}, {WeightFormat::bf16, "bf16"}, {WeightFormat::int8, "int8"}}};

template <class Rows>
const auto& row_named(std::string_view name, const Rows& rows, const char* what) {
  std::vector<std::string_view> known;
  for (const auto& row : rows) {
    if (row.name == name) return row;
    known.push_back(row.name);
  }
  throw Error(ErrorKind::usage, what, std::string("unknown ") + what + " " + in_quotes(name),
              known_names(name, known));
}

}  // namespace

std::string_view precision_name(Precision precision) { return row_of(precision).name; }

Precision precision_from_name(std::string_view name) { return row_named(name, k_rows, "precision").precision; }

std::string_view weight_format_name(WeightFormat format) {
  return k_weight_rows[static_cast<std::size_t>(format)].name;
}
WeightFormat weight_format_from_name(std::string_view name) {
  return row_named(name, k_weight_rows, "weight format").format;
}

Claim Backend::claim_in(const Graph& graph, const Node& node, Precision precision) const {
  if (precision == Precision::f32) return claim(graph, node);
  return {.reason = "its kernel needs f32"};
}

std::shared_ptr<const Graph> set_precision(const Graph& graph, Precision precision, std::span<const DType> dtypes,
                                           PassLog* log) {
  const Row& row = row_of(precision);
  if (!row.round) return copy_graph(graph);
  const auto assigned = assign_format(graph, {row.round, row.storage}, log);
  const bool known = !row.storage || std::find(dtypes.begin(), dtypes.end(), *row.storage) != dtypes.end();
  return known ? assigned : without_dtype(*assigned, *row.storage, row.round);
}

}  // namespace unroll
