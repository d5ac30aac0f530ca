// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/cost/costs.h"

#include <algorithm>
#include <cmath>

#include "unroll/ir/ops.h"

namespace unroll::cpu {

namespace {

double number(std::int64_t n) { return static_cast<double>(n); }
double elements(const Type& type) { return number(type.shape.elements()); }
double bytes(const Type& type) { return static_cast<double>(type.bytes()); }
double columns_of(const Shape& shape) { return shape.rank() == 0 ? 1 : number(shape[shape.rank() - 1]); }

// Ops whose result may be a view, depending on its storage.
bool may_be_view(Op op) {
  return op == Op::reshape || op == Op::slice || op == Op::broadcast || op == Op::transpose || op == Op::windows ||
         op == Op::stop_gradient;
}

// Calls f for each elementwise operation of a node or group.
template <class F>
void for_each_operation(const Node& node, F&& f) {
  if (node.op != Op::fused) return f(node);
  for (const Node& inner : node.body->nodes())
    if (is_elementwise(inner.op) && inner.op != Op::stop_gradient) f(inner);
}

}  // namespace

Costs::Costs(const MachineModel& machine, const Plan& plan, const LoopPlace* loop)
    : machine_(machine), plan_(plan), loop_(loop ? *loop : LoopPlace{}), in_loop_(loop != nullptr) {
  double sum = 0;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(plan.graph->nodes().size()); ++i) {
    touched_.push_back(sum);
    if (!is_call(i) && plan.graph->node(i).op != Op::scan) continue;
    const Node& node = plan.graph->node(i);
    for (const ValueId& id : node.inputs) sum += bytes(type(id));
    for (const Type& output : node.outputs) sum += bytes(output);
  }
  touched_.push_back(sum);
}

bool Costs::is_within(const ValueId& piece, const ValueId& whole) const {
  const Storage &p = storage(piece), &w = storage(whole);
  return p.place == w.place && p.index == w.index && p.offset >= w.offset && p.offset < w.offset + type(whole).bytes();
}

bool Costs::is_call(std::int32_t id) const {
  const Node& node = plan_.graph->node(id);
  if (node.op == Op::input || node.op == Op::constant || node.op == Op::scan) return false;
  if (may_be_view(node.op)) return !is_within({id, 0}, node.inputs[0]);
  if (node.op == Op::concat)
    return !std::all_of(node.inputs.begin(), node.inputs.end(), [&](const ValueId& in) {
      return is_within(in, {id, 0});
    });
  return true;
}

// ---- reuse distances

double Costs::distance(const ValueId& value, std::int32_t reader) const {
  ValueId origin = value;
  while (may_be_view(plan_.graph->node(origin.node).op) && !is_call(origin.node))
    origin = plan_.graph->node(origin.node).inputs[0];
  const Node& maker = plan_.graph->node(origin.node);
  if (maker.op == Op::input && in_loop_) return loop_.input_distances[storage(origin).index];
  if (maker.op == Op::input || maker.op == Op::constant) return touched_.back();
  return touched_[reader] - touched_[origin.node];
}

// Arena memory is reused, so an output's memory was last touched at most about two arena sizes ago.
double Costs::output_distance(const ValueId& value) const {
  const Storage& s = storage(value);
  if (s.place != Storage::Place::output) return std::min(touched_.back(), 2 * static_cast<double>(plan_.arena_bytes));
  return in_loop_ && s.index >= loop_.n_states ? loop_.stack_distance : touched_.back();
}

MachineModel::Bytes Costs::bytes_at(double distance, int parts) const {
  // Fractions of a cache's size: all data is found up to k_surely, none above k_hardly.
  constexpr double k_surely = 0.7, k_hardly = 1.5;
  MachineModel::Bytes sum{0, 0};
  double left = 1;
  for (std::size_t level = 0; level < k_n_levels; ++level) {
    const bool own = level + 2 < k_n_levels;  // each core has a private one
    const double filled = distance / (own ? parts : 1) / static_cast<double>(machine_.cache_bytes[level]);
    const bool last = level + 1 == k_n_levels;
    const double found =
        last ? left : std::min(left, std::clamp((k_hardly - filled) / (k_hardly - k_surely), 0.0, 1.0));
    const MachineModel::Bytes& bytes = (parts > 1 ? machine_.all : machine_.one)[level];
    sum.read_ns += found * bytes.read_ns;
    sum.write_ns += found * bytes.write_ns;
    left -= found;
  }
  return sum;
}

// Time of all workers together, each its share.
double Costs::read_ns(std::int32_t id, std::size_t input, int parts) const {
  const ValueId& value = plan_.graph->node(id).inputs[input];
  return bytes(type(value)) * bytes_at(distance(value, id), parts).read_ns / parts;
}
double Costs::write_ns(std::int32_t id, int parts) const {
  const Node& node = plan_.graph->node(id);
  double ns = 0;
  for (std::size_t k = 0; k < node.outputs.size(); ++k)
    ns += bytes(node.outputs[k]) * bytes_at(output_distance({id, static_cast<std::int32_t>(k)}), parts).write_ns;
  return ns / parts;
}

LoopPlace Costs::place_of_loop(std::int32_t scan) const {
  const Node& node = plan_.graph->node(scan);
  const ScanLayout layout = scan_layout(node);
  LoopPlace place;
  place.n_states = layout.n_states;
  place.first_constant = layout.n_states + layout.n_sequences;
  place.stack_distance = touched_.back();
  double step = 0;  // bytes that one step touches
  const Graph& body = *plan_.bodies[scan]->graph;
  for (const Node& inner : body.nodes())
    if (inner.op != Op::input && inner.op != Op::constant)
      for (const Type& output : inner.outputs) step += 2 * bytes(output);
  for (const NamedValue& input : body.inputs()) step += bytes(body.type(input.value));
  for (int i = 0; i < static_cast<int>(body.inputs().size()); ++i) {
    const bool sequence = i >= layout.n_states && i < place.first_constant;
    place.input_distances.push_back(
        sequence && i < std::ssize(node.inputs) ? distance(node.inputs[i], scan) + bytes(type(node.inputs[i])) : step);
  }
  return place;
}

// ---- matmul

bool Costs::is_packed(const Node& product) const {
  if (product.attributes.get<bool>("transpose_a")) return false;
  if (plan_.graph->node(product.inputs[1].node).op == Op::constant) return true;
  const Storage& b = storage(product.inputs[1]);
  return in_loop_ && b.place == Storage::Place::input && b.index >= loop_.first_constant && b.strides.empty() &&
         type(product.inputs[1]).shape.rank() == 2;
}

// Row tiles of equal height over each panel; the first ones fetch the panel.
double Costs::tiles_ns(const MachineModel::Products& products, double m, double n, double k) const {
  constexpr double k_row_blocks = 20;  // consecutive tiles on one panel
  if (m < 1 || n < 1) return 0;
  const double panels = std::ceil(n / products.panel_columns), tiles = std::ceil(m / products.tile_rows);
  const double blocks = std::ceil(tiles / k_row_blocks);
  const auto at = [&](const std::array<double, k_tile_rows>& ns, double rows) {
    const double low = std::floor(rows), part = rows - low;
    const auto i = static_cast<std::size_t>(std::max(low, 1.0)) - 1;
    return part == 0 ? ns[i] : (1 - part) * ns[i] + part * ns[std::min(i + 1, k_tile_rows - 1)];
  };
  const double rows = m / tiles;
  const double first = at(products.first_rows_ns, rows), next = at(products.next_rows_ns, rows);
  return panels * (k * (blocks * first + (tiles - blocks) * next) + tiles * products.tile_ns);
}

double Costs::packed_matmul_ns(const Node& node, const Matmul& mm, Share share, int parts) const {
  constexpr double k_few_rows = 4;
  const MachineModel::Products& products = machine_.products(mm.dtype);
  const double m = number(mm.m), n = number(mm.n), k = number(mm.k);
  const WeightFormat format =
      plan_.graph->node(node.inputs[1].node).op == Op::constant ? plan_.weights : WeightFormat::f32;
  const double smaller = m > k_few_rows                 ? 1
                         : format == WeightFormat::int8 ? 0.3
                         : format == WeightFormat::bf16 ? 0.6
                                                        : 1;
  const double sharing = share == Share::columns || share == Share::calls ? parts : 1;
  const double weights = n * k * products.element_bytes / sharing;
  const double fetched = weights * std::max(0.0, bytes_at(weights, 1).read_ns - machine_.one[1].read_ns);
  const double tiles = share == Share::rows   ? tiles_ns(products, std::ceil(m / parts), n, k)
                       : share == Share::none ? tiles_ns(products, m, n, k)
                                              : tiles_ns(products, m, std::ceil(n / parts), k);
  return smaller * (tiles + fetched);
}

double Costs::matmul_ns(std::int32_t id, Share share, int parts) const {
  const Node& node = plan_.graph->node(id);
  const Matmul matmul =
      make_matmul(type(node.inputs[0]), type(node.inputs[1]), node.attributes.get<bool>("transpose_a"),
                  node.attributes.get<bool>("transpose_b"));
  if (is_packed(node)) return packed_matmul_ns(node, matmul, share, parts);
  if (share == Share::none) parts = 1;
  const MachineModel::Products& products = machine_.products(matmul.dtype);
  const MatmulCut cut =
      cut_matmul(matmul, std::llround(products.panel_columns), std::llround(products.tile_rows), parts);
  const Matmul& mm = cut.matmul;
  const double m = number(mm.m), n = number(mm.n), k = number(mm.k), panels = number(cut.panels);
  const double batch = m * n == 0 ? 0 : number(mm.batch.elements()) / (cut.by_batch ? parts : 1);
  const double sharers = cut.by_batch ? 1 : parts;
  const double columns = std::ceil(panels / sharers) * products.panel_columns;
  switch (cut.kernel) {
    case MatmulCut::Kernel::dots: return batch * m * n * k * machine_.dot_ns / sharers;
    case MatmulCut::Kernel::rows: return batch * tiles_ns(products, m, columns, k);
    case MatmulCut::Kernel::blocks: break;
  }
  const double beyond_l2 = bytes_at(distance(node.inputs[1], id), parts).read_ns - machine_.one[1].read_ns;
  const double pack = mm.transpose_b ? products.pack_transposed_ns : products.pack_ns;
  const double fetch = number(element_bytes(mm.dtype)) * std::max(0.0, beyond_l2);
  double ns = n * k * (pack + fetch) / sharers;
  ns += cut.by_rows ? tiles_ns(products, std::ceil(m / sharers), n, k) : tiles_ns(products, m, columns, k);
  const double groups = std::ceil(panels / products.panels_at_once);
  if (mm.transpose_a) ns += m * k * groups * products.turn_ns / (cut.by_rows ? sharers : 1);
  return batch * ns;
}

double Costs::pack_ns(std::int32_t id, int parts) const {
  const Node& node = plan_.graph->node(id);
  if (node.op != Op::matmul || !is_packed(node) || plan_.graph->node(node.inputs[1].node).op == Op::constant) return 0;
  const MachineModel::Products& products = machine_.products(type(node.inputs[0]).dtype);
  const double each = node.attributes.get<bool>("transpose_b") ? products.pack_transposed_ns : products.pack_ns;
  return elements(type(node.inputs[1])) * each / parts;
}

// ---- other calls

double Costs::elementwise_ns(const Node& node, double rows, double columns) const {
  constexpr double k_most_tile = 1024;
  const double all = rows * columns;
  if (all == 0) return machine_.program_ns;
  double each = 0, operations = 0;
  for_each_operation(node, [&](const Node& operation) {
    const double wide = operation.outputs[0].dtype == DType::f64 ? 2 : 1;
    each += wide * machine_.element_ns[static_cast<std::size_t>(operation.op)];
    ++operations;
  });
  for (const ValueId& in : node.inputs)  // one element for each row, or one for all
    if (elements(type(in)) > 1 && columns_of(type(in).shape) == 1 && columns > 1) each += machine_.splat_ns;
  const double across = columns / std::ceil(columns / k_most_tile);
  const double tile = std::min(all, across * std::max(1.0, std::floor(k_most_tile / across)));
  const double operands = static_cast<double>(node.inputs.size() + node.outputs.size());
  return machine_.program_ns + all * each + all / across * operations * machine_.row_ns +
         std::ceil(all / tile) * (operations * machine_.operation_ns + operands * machine_.operand_ns);
}

// Time of the slowest worker. Each operation on a block is a call.
double Costs::fused_reduction_ns(const Node& node, int parts) const {
  constexpr double k_tile_elements = 6 * 1024, k_live_values = 8;
  const Graph& body = *node.body;
  const Type& first = body.type(body.outputs()[0].value);
  const double rows = std::ceil(elements(first) / columns_of(first.shape) / parts);
  double each = 0, operations = 0, widest = 1;
  for (const Node& inner : body.nodes()) {
    if (inner.op == Op::input || inner.op == Op::constant || inner.outputs[0].shape.rank() < 2) continue;
    const double wide = inner.outputs[0].dtype == DType::f64 ? 2 : 1, columns = columns_of(inner.outputs[0].shape);
    widest = std::max(widest, columns);
    const OpKind kind = op_info(inner.op).kind;
    if (kind == OpKind::move) continue;
    ++operations;
    if (kind == OpKind::reduce)
      each += machine_.line_call_ns + columns_of(body.type(inner.inputs[0]).shape) * wide * machine_.line_ns;
    else each += columns * wide * machine_.element_ns[static_cast<std::size_t>(inner.op)];
  }
  const double block = std::max(1.0, k_tile_elements / (k_live_values * widest));
  const double operands = static_cast<double>(node.inputs.size() + node.outputs.size());
  return machine_.program_ns + rows * (each + operations * machine_.row_ns) +
         std::ceil(rows / block) * (operations * machine_.operation_ns + operands * machine_.operand_ns);
}

double Costs::other_ns(std::int32_t id) const {
  const Node& node = plan_.graph->node(id);
  const double out = elements(node.outputs[0]);
  const double in = node.inputs.empty() ? 0 : elements(type(node.inputs[0]));
  switch (op_info(node.op).kind) {
    case OpKind::reduce: {
      const Shape& x = type(node.inputs[0]).shape;
      const Ints axes =
          node.op == Op::argmax ? Ints{node.attributes.get<std::int64_t>("axis")} : node.attributes.get<Ints>("axes");
      const bool lines = x.rank() > 0 && std::find(axes.begin(), axes.end(), x.rank() - 1) != axes.end();
      return lines ? in * machine_.line_ns + in / std::max(1.0, columns_of(x)) * machine_.line_call_ns
                   : in * machine_.rows_ns;
    }
    case OpKind::random: return out * machine_.random_ns;
    case OpKind::move: {
      const Ints* order = node.op == Op::transpose ? &node.attributes.get<Ints>("permutation") : nullptr;
      const bool across = order && !order->empty() && order->back() + 1 != static_cast<std::int64_t>(order->size());
      if (across) return out * machine_.cross_ns;
      double lines = 0;
      for (const ValueId& piece : node.inputs)
        lines += std::min(elements(type(piece)), out) /
                 std::max(1.0, std::min(columns_of(type(piece).shape), columns_of(node.outputs[0].shape)));
      return out * machine_.copy_ns + lines * machine_.copy_line_ns;
    }
    default: {
      double all = 0;
      for (const Type& output : node.outputs) all += elements(output);
      return (all + (node.op == Op::scatter_add ? in : 0)) * machine_.copy_ns;
    }
  }
}

double Costs::copy_ns(const Type& result, std::int32_t output, int parts) const {
  const double there = in_loop_ && output >= loop_.n_states ? loop_.stack_distance : touched_.back();
  return (elements(result) * machine_.copy_ns + bytes(result) * bytes_at(there, parts).write_ns) / parts;
}

double Costs::call_ns(std::int32_t id, Share share, int parts) const {
  if (!is_call(id)) return 0;
  const Node& node = plan_.graph->node(id);
  if (op_info(node.op).tier == OpTier::composite || node.op == Op::gradient) return 0;  // another library's kernel
  if (share == Share::none) parts = 1;
  double touch = write_ns(id, parts);
  // The matmul time includes reading the second operand.
  const std::size_t n_read = node.op == Op::matmul ? 1 : node.inputs.size();
  for (std::size_t i = 0; i < n_read; ++i) touch += read_ns(id, i, parts);
  if (node.op == Op::matmul) return machine_.call_ns + matmul_ns(id, share, parts) + touch;
  if (node.op == Op::fused_reduction) return machine_.call_ns + fused_reduction_ns(node, parts) + touch;
  if (node.op != Op::fused && !is_elementwise(node.op)) return machine_.call_ns + other_ns(id) / parts + touch;
  const double columns = columns_of(node.outputs[0].shape), rows = elements(node.outputs[0]) / std::max(columns, 1.0);
  const double ns = share == Share::columns ? elementwise_ns(node, rows, std::ceil(columns / parts))
                                            : elementwise_ns(node, std::ceil(rows / parts), columns);
  return machine_.call_ns + ns + touch;
}

}  // namespace unroll::cpu
