// SPDX-License-Identifier: Apache-2.0
// Row tiling: a reduction over the last axis (layer norm, softmax) and its elementwise neighbors work row by row. The
// group becomes a scan without states over blocks of rows. Its values stay in the cache of a core, and the blocks are
// independent. [L, W]: leading dimensions, one row.
#include <algorithm>

#include "core/passes/groups.h"
#include "core/passes/passes.h"
#include "core/passes/rewrite.h"
#include "unroll/ops.h"

namespace unroll {

namespace {

std::int64_t last(const Shape& shape) { return shape[shape.rank() - 1]; }
Shape leading(const Shape& shape) { return shape.removed(shape.rank() - 1); }
bool is_shared(const Shape& shape) { return shape.rank() <= 1; }  // [W] or a scalar: the same for every row
bool acts_on_last(const Node& node, const Shape& shape) {
  return node.attributes.get<std::int64_t>("axis") == shape.rank() - 1;
}

// Whether row l of the node's result depends on row l of its operands alone.
bool is_by_rows(const Graph& graph, const Node& node) {
  if (node.outputs.size() != 1 || node.inputs.empty()) return false;
  const Shape& shape = node.outputs[0].shape;
  if (shape.rank() < 2) return false;
  const auto same_rows = [&](const ValueId& id) {
    const Shape& in = graph.type(id).shape;
    return in.rank() == shape.rank() && leading(in) == leading(shape);
  };
  const auto rows_or_shared = [&](const ValueId& id) { return same_rows(id) || is_shared(graph.type(id).shape); };
  switch (node.op) {
    case Op::slice:
    case Op::concat:
    case Op::pad:
      return acts_on_last(node, shape) && std::all_of(node.inputs.begin(), node.inputs.end(), same_rows);
    case Op::reduce_sum:
    case Op::reduce_max:
      return same_rows(node.inputs[0]) && node.attributes.get<Ints>("axes") == Ints{shape.rank() - 1};
    case Op::broadcast: return rows_or_shared(node.inputs[0]);
    default: return is_elementwise(node.op) && std::all_of(node.inputs.begin(), node.inputs.end(), rows_or_shared);
  }
}

// The node on blocks of rows, [rows, W].
Value append_on_block(Graph& body, const Node& node, std::span<const Value> operands, std::int64_t rows) {
  Attributes attributes = node.attributes;
  if (attributes.has("axis")) attributes.set("axis", std::int64_t{1});
  if (attributes.has("axes")) attributes.set("axes", Ints{1});
  if (attributes.has("shape")) attributes.set("shape", Ints{rows, last(node.outputs[0].shape)});
  return body.append_one(node.op, operands, attributes);
}

std::int64_t rows_of(const Graph& graph, const std::vector<int>& members) {
  return leading(graph.node(members[0]).outputs[0].shape).elements();
}
struct Blocking {
  std::int64_t rows;   // of a block; divides the rows
  std::int64_t bytes;  // of the widest value of a block
};
Blocking blocking_of(const Graph& graph, const std::vector<int>& members, const Tuning& tuning) {
  std::int64_t row_bytes = 1;
  for (const int m : members) {
    const Type& type = graph.node(m).outputs[0];
    row_bytes = std::max(row_bytes, last(type.shape) * static_cast<std::int64_t>(dtype_bytes(type.dtype)));
  }
  const std::int64_t rows = rows_of(graph, members);
  std::int64_t block =
      std::max<std::int64_t>(1, std::min(rows / tuning.fewest_row_blocks, tuning.row_block_bytes / row_bytes));
  while (rows % block != 0) --block;
  return {block, block * row_bytes};
}

// What only one unit reads, the slice of an input say, joins it wherever it stands: no cycle can come of it.
void pull_producers(const Graph& graph, const std::vector<bool>& by_rows, Units& units) {
  constexpr int k_nobody = -2, k_several = -1;
  std::vector<int> reader(graph.nodes().size(), k_nobody);  // the unit that reads a node
  for (const NamedValue& output : graph.outputs()) reader[static_cast<std::size_t>(output.value.node)] = k_several;
  for (std::size_t i = graph.nodes().size(); i-- > 0;) {
    const auto same_rows = [&](int unit) {
      const int m = units.members[static_cast<std::size_t>(unit)][0];
      return leading(graph.node(m).outputs[0].shape) == leading(graph.nodes()[i].outputs[0].shape);
    };
    if (units.of[i] < 0 && by_rows[i] && reader[i] >= 0 && same_rows(reader[i])) {
      units.of[i] = reader[i];
      auto& members = units.members[static_cast<std::size_t>(reader[i])];
      members.insert(std::lower_bound(members.begin(), members.end(), static_cast<int>(i)), static_cast<int>(i));
    }
    for (const ValueId& id : graph.nodes()[i].inputs) {
      int& by = reader[static_cast<std::size_t>(id.node)];
      by = by == k_nobody || by == units.of[i] ? units.of[i] : k_several;
    }
  }
}

// Why a group of ops with a reduction stays apart, op by op; empty when it becomes a loop over blocks.
std::string refusal(const Graph& graph, const std::vector<int>& members, const Tuning& tuning) {
  const std::int64_t rows = rows_of(graph, members);
  if (members.size() < 2) return "no elementwise op can join the reduction";
  if (rows < tuning.fewest_rows) return std::to_string(rows) + " rows are too few for several threads";
  const std::int64_t bytes = blocking_of(graph, members, tuning).bytes;
  if (bytes >= tuning.least_row_block_bytes) return "";
  return "a block of " + std::to_string(bytes) + " bytes is too small to pay for a call";
}

Units row_units(const Graph& graph, const Tuning& tuning, PassLog* log) {
  const auto nodes = graph.nodes();
  std::vector<bool> by_rows;
  for (const Node& node : nodes) by_rows.push_back(is_by_rows(graph, node));
  const auto depth = group_depths(graph, by_rows);
  NodeSets sets(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i)
    for (const ValueId& id : nodes[i].inputs) {
      const auto from = static_cast<std::size_t>(id.node);
      if (by_rows[i] && by_rows[from] && depth[i] == depth[from])
        sets.join(static_cast<int>(from), static_cast<int>(i));
    }
  std::map<int, std::vector<int>> groups;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (by_rows[i]) groups[sets.root(static_cast<int>(i))].push_back(static_cast<int>(i));
  Units units{{}, std::vector<int>(nodes.size(), -1)};
  for (auto& [root, members] : groups) {
    const bool reduces = std::any_of(members.begin(), members.end(), [&](int m) {
      return op_info(graph.node(m).op).kind == OpKind::reduce;
    });
    if (!reduces) continue;
    if (const std::string why = refusal(graph, members, tuning); !why.empty()) {
      if (log) log->add("left " + node_text(graph.node(members.back())) + " and its operands untiled", why);
      continue;
    }
    for (const int m : members) units.of[static_cast<std::size_t>(m)] = static_cast<int>(units.members.size());
    units.members.push_back(std::move(members));
  }
  pull_producers(graph, by_rows, units);
  return units;
}

// The scan over blocks that stands for a unit. It has at least one sequence, what the reduction reads, because
// constants and shared values alone have no rows.
void emit(const Graph& graph, const std::vector<int>& members, const Boundary& boundary, std::int64_t block,
          Graph& target, ValueMap& values) {
  const std::int64_t n_blocks = rows_of(graph, members) / block;
  auto body = std::make_shared<Graph>();
  ValueMap inner;
  std::vector<Value> inputs;
  const auto take = [&](const ValueId& id, Value outer, Type type) {
    inner[id] = body->input("in" + std::to_string(inputs.size()), std::move(type));
    inputs.push_back(outer);
  };
  std::int64_t n_sequences = 0;
  for (const ValueId& id : boundary.operands) {
    const Type& type = graph.type(id);
    if (is_shared(type.shape)) continue;
    const Shape shape{block, last(type.shape)};
    take(id, reshape(values.at(id), shape.inserted(0, n_blocks)), {type.dtype, shape});
    ++n_sequences;
  }
  for (const ValueId& id : boundary.operands)
    if (is_shared(graph.type(id).shape) && !is_scalar_constant(graph, id)) take(id, values.at(id), graph.type(id));
  for (const int m : members) {
    std::vector<Value> operands;
    for (const ValueId& id : graph.node(m).inputs) {
      Value& value = inner[id];
      if (!value) value = body->append_one(Op::constant, {}, graph.node(id.node).attributes);
      operands.push_back(value);
    }
    inner[{m, 0}] = append_on_block(*body, graph.node(m), operands, block);
  }
  for (std::size_t k = 0; k < boundary.results.size(); ++k)
    body->output("out" + std::to_string(k), inner.at(boundary.results[k]));
  const Attributes attributes{{"steps", n_blocks},  {"states", std::int64_t{0}}, {"sequences", n_sequences},
                              {"reverse", false}, {"lengths", false},          {"reset", false}};
  const auto stacks = target.append(Op::scan, inputs, attributes, body);
  for (std::size_t k = 0; k < stacks.size(); ++k)
    values[boundary.results[k]] = reshape(stacks[k], graph.type(boundary.results[k]).shape);
}

void note_blocks(PassLog* log, const Graph& graph, const std::vector<int>& members, const Blocking& blocking) {
  if (!log) return;
  const std::string blocks = std::to_string(rows_of(graph, members) / blocking.rows) + " blocks of ";
  log->add("tiled " + std::to_string(members.size()) + " row ops into " + blocks +
               std::to_string(blocking.rows) + " rows",
           "the widest value of a block, " + std::to_string(blocking.bytes) + " bytes, fits the cache of a core");
}

std::shared_ptr<const Graph> map_rows_of(const Graph& source, const Tuning& tuning, PassLog* log) {
  const auto graph = drop_dead(source);
  return with_units(*graph, row_units(*graph, tuning, log),
                    [&](const std::vector<int>& members, const Boundary& boundary, Graph& target, ValueMap& values) {
                      const Blocking blocking = blocking_of(*graph, members, tuning);
                      note_blocks(log, *graph, members, blocking);
                      emit(*graph, members, boundary, blocking.rows, target, values);
                    });
}

}  // namespace

std::shared_ptr<const Graph> map_rows(const Graph& graph, const Tuning& tuning, PassLog* log) {
  return with_bodies(graph, [&](const Graph& g) { return map_rows_of(g, tuning, log); }, log);
}

}  // namespace unroll
