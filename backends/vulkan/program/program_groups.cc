// SPDX-License-Identifier: Apache-2.0
// Elementwise nodes, fused nodes and fused reductions as dispatches.
#include <algorithm>
#include <array>
#include <map>

#include "backends/common/walk.h"
#include "backends/vulkan/kernels/rows.h"
#include "backends/vulkan/program/program.h"
#include "unroll/support/error.h"

namespace unroll::vulkan {

using common::Expression;

void NodeCompiler::expression(NodeWork& work, Expression e, Operands operands) {
  if (e.shape.elements() == 0) return;
  const Expression simple = common::simplified(e);
  Operands separate = operands;
  const Buffers buffers = shared_buffers(operands);
  if (operands.size() > most_operands()) return expression_in_parts(work, e, separate);
  add(work, expression_key(simple, buffers), std::move(operands), expression_params(simple, buffers),
      static_cast<std::uint64_t>(simple.shape.elements()),
      [&] { return expression_shader(simple, buffers, setting()); }, 0,
      row_items(work.node, e.shape, e.shape.elements()));
}

namespace {

using Registers = std::vector<std::size_t>;

std::array<std::uint16_t, 3> reads_of(const common::Instruction& i) { return {i.a, i.b, i.c}; }

// Expressions that together compute one with too many operands. Values that a later part reads, and results, lie in
// workspace between them. Results are written at the end, because they may overwrite operands.
class ExpressionParts {
 public:
  struct Part {
    Expression expression = {};
    Registers inputs = {}, kept = {};  // registers of the whole expression
  };
  explicit ExpressionParts(const Expression& e)
      : e_(e), n_inputs_(e.inputs.size()), first_(n_inputs_ + e.constants.size()), n_(e.instructions.size()),
        dtypes_(common::register_dtypes(e)), dense_(common::dense_strides(e.shape)), last_use_(dtypes_.size(), 0) {
    for (std::size_t i = 0; i < n_; ++i)
      for (const std::uint16_t r : reads_of(e.instructions[i])) last_use_[r] = i + 1;
    for (const auto& result : e.results) last_use_[result.from] = n_ + 1;
  }

  std::vector<Part> parts(std::size_t most_operands) const {
    std::vector<Part> all;
    for (std::size_t r = 0; r < first_; ++r)
      if (last_use_[r] == n_ + 1) all.push_back(part(0, 0, {r}));
    for (std::size_t begin = 0, end; begin < n_; begin = end) {
      end = begin + 1;
      while (end < n_ && n_operands(part(begin, end + 1)) <= most_operands) ++end;
      all.push_back(part(begin, end));
    }
    return all;
  }
  // Copies kept results to their places.
  std::vector<Part> copies() const {
    std::vector<Part> all;
    for (const Expression::Result& result : e_.results) {
      Part part{.inputs = {result.from}};
      part.expression.shape = e_.shape;
      part.expression.inputs.push_back({dtypes_[result.from], dense_});
      part.expression.results.push_back({0, result.strides});
      all.push_back(std::move(part));
    }
    return all;
  }
  DType dtype(std::size_t r) const { return dtypes_[r]; }

 private:
  static std::size_t n_operands(const Part& part) { return part.inputs.size() + part.kept.size(); }

  // Instructions [begin, end), or inputs and constants `copied` alone.
  Part part(std::size_t begin, std::size_t end, const Registers& copied = {}) const {
    Part made{.kept = copied};
    Expression& part = made.expression;
    part.shape = e_.shape;
    part.constants = e_.constants;
    std::map<std::size_t, std::uint16_t> renamed;
    Registers read = copied;
    for (std::size_t i = begin; i < end; ++i) {
      const auto operands = reads_of(e_.instructions[i]);
      read.insert(read.end(), operands.begin(), operands.begin() + op_info(e_.instructions[i].op).max_inputs);
    }
    for (const std::size_t r : read) {
      const bool is_constant = r >= n_inputs_ && r < first_, is_made = r >= first_ + begin && r < first_ + end;
      if (is_constant || is_made || renamed.count(r)) continue;
      renamed[r] = static_cast<std::uint16_t>(part.inputs.size());
      part.inputs.push_back(r < n_inputs_ ? e_.inputs[r] : Expression::Input{dtypes_[r], dense_});
      made.inputs.push_back(r);
    }
    const std::size_t n_read = part.inputs.size();
    for (std::size_t k = 0; k < e_.constants.size(); ++k)
      renamed[n_inputs_ + k] = static_cast<std::uint16_t>(n_read + k);
    for (std::size_t i = begin; i < end; ++i) {
      common::Instruction instruction = e_.instructions[i];
      for (std::uint16_t* r : {&instruction.a, &instruction.b, &instruction.c})
        *r = renamed.count(*r) ? renamed.at(*r) : 0;
      renamed[first_ + i] = static_cast<std::uint16_t>(n_read + e_.constants.size() + part.instructions.size());
      part.instructions.push_back(instruction);
      if (last_use_[first_ + i] > end) made.kept.push_back(first_ + i);
    }
    for (const std::size_t r : made.kept) part.results.push_back({renamed.at(r), dense_});
    return made;
  }

  const Expression& e_;
  std::size_t n_inputs_, first_, n_;  // inputs, the register of the first instruction, instructions
  std::vector<DType> dtypes_;
  common::Strides dense_;
  Registers last_use_;  // 1 + the instruction; results are used at the end
};

}  // namespace

void NodeCompiler::expression_in_parts(NodeWork& work, const Expression& e, const Operands& operands) {
  const ExpressionParts whole(e);
  const bool is_ordered = !work.dispatches.empty();
  std::map<std::size_t, Operand> kept;  // [register] where it is in workspace
  const auto emit = [&](const ExpressionParts::Part& part, std::optional<Operand> result = {}) {
    Operands list;
    for (const std::size_t r : part.inputs) list.push_back(r < e.inputs.size() && !result ? operands[r] : kept.at(r));
    for (const std::size_t r : part.kept) {
      const std::size_t element = dtype_bytes(whole.dtype(r));
      kept[r] = workspace(e.shape.elements() * element);
      kept[r].element = element;
      list.push_back(kept[r]);
    }
    if (result) list.push_back(*result);
    const std::size_t before = work.dispatches.size();
    expression(work, part.expression, std::move(list));
    for (std::size_t k = before; k < work.dispatches.size(); ++k) work.dispatches[k].follows = is_ordered || k > 0;
  };
  for (const auto& part : whole.parts(most_operands())) emit(part);
  const auto copies = whole.copies();
  for (std::size_t k = 0; k < copies.size(); ++k) emit(copies[k], operands[e.inputs.size() + k]);
}

namespace {

// Inserts the select c ? from : b, and replaces reads of register `from` by its result.
void insert_select(Expression& e, std::size_t from, std::size_t c, std::size_t b) {
  const std::size_t first = e.inputs.size() + e.constants.size(), at = std::max(from + 1, first);
  const DType dtype = common::register_dtypes(e)[from];
  const auto rename = [&](std::uint16_t& r) {
    r = static_cast<std::uint16_t>(r == from ? at : r >= at ? r + 1u : r);
  };
  const auto place = e.instructions.begin() + static_cast<std::ptrdiff_t>(at - first);
  for (auto i = place; i != e.instructions.end(); ++i)
    for (std::uint16_t* r : {&i->a, &i->b, &i->c}) rename(*r);
  for (auto& result : e.results) rename(result.from);
  const auto r = [](std::size_t k) { return static_cast<std::uint16_t>(k); };
  e.instructions.insert(place, {Op::select, dtype, dtype, r(c), r(from), r(b)});
}

// The expression with its inputs that are gates replaced by what `maker` computes; its inputs come last.
// `made`: the register of what it computes.
Expression inlined(const Expression& e, const std::vector<int>& gates, const Expression& maker, std::size_t& made) {
  Expression out;
  out.shape = e.shape;
  const auto n = [](const auto& list) { return list.size(); };
  const std::size_t kept = n(e.inputs) - std::count(gates.begin(), gates.end(), 0);
  const std::size_t constants = kept + n(maker.inputs), instructions = constants + n(e.constants) + n(maker.constants);
  std::vector<std::size_t> of_maker, of_e;  // [register] where it is now
  for (std::size_t k = 0; k < n(maker.inputs); ++k) of_maker.push_back(kept + k);
  for (std::size_t k = 0; k < n(maker.constants); ++k) of_maker.push_back(constants + n(e.constants) + k);
  for (std::size_t k = 0; k < n(maker.instructions); ++k) of_maker.push_back(instructions + k);
  made = of_maker[maker.results[0].from];
  for (std::size_t k = 0; k < n(e.inputs); ++k) {
    of_e.push_back(gates[k] == 0 ? made : n(out.inputs));
    if (gates[k] != 0) out.inputs.push_back(e.inputs[k]);
  }
  for (std::size_t k = 0; k < n(e.constants); ++k) of_e.push_back(constants + k);
  for (std::size_t k = 0; k < n(e.instructions); ++k) of_e.push_back(instructions + n(maker.instructions) + k);
  out.inputs.insert(out.inputs.end(), maker.inputs.begin(), maker.inputs.end());
  for (const auto& [from, places] : {std::pair(&maker, &of_maker), std::pair(&e, &of_e)})
    for (common::Instruction i : from->instructions) {
      for (std::uint16_t* r : {&i.a, &i.b, &i.c}) *r = static_cast<std::uint16_t>((*places)[*r]);
      out.instructions.push_back(i);
    }
  out.constants = e.constants;
  out.constants.insert(out.constants.end(), maker.constants.begin(), maker.constants.end());
  out.results = e.results;
  for (auto& result : out.results) result.from = static_cast<std::uint16_t>(of_e[result.from]);
  return out;
}

}  // namespace

void NodeCompiler::store_ahead(device::StatePlaces& states) {
  for (auto& each : states.shifted) {
    const ValueId value = graph().outputs()[each.state].value;
    const Node& node = graph().node(value.node);
    if (states.after[each.state] < 0 || (node.op != Op::fused_reduction && !device::is_pointwise(node))) continue;
    each.in_step = true;
    ahead_.emplace_back(value, each.output);
  }
}

// Rows that did not run in the step before begin with the state as it lies in memory.
void NodeCompiler::start_rows(int state, std::vector<std::size_t> registers, Expression& e, Operands& operands,
                              std::vector<int>& gates) {
  const ValueId input = graph().inputs()[state].value;
  for (std::size_t& r : registers) r += r >= e.inputs.size() ? 2 : 0;
  const std::size_t start = device::append_input(e, {type(input).dtype, strides(input, e.shape)});
  const std::size_t ran = device::append_input(e, {DType::b8, common::dense_strides(e.shape)});
  operands.push_back(operand(input));
  gates.insert(gates.end(), {-1, Epilogue::k_ran_before});
  for (const std::size_t r : registers) insert_select(e, r, ran, start);
}

Expression NodeCompiler::with_inputs(std::int32_t id, const std::vector<int>& gates, Operands& operands) {
  const Node& node = graph().node(id);
  Expression e =
      node.op == Op::fused ? common::expression_of_body(*node.body) : common::expression_of_node(graph(), node);
  for (std::size_t k = 0; k < node.inputs.size(); ++k) {
    if (k < gates.size() && gates[k] >= 0) {
      e.inputs[k].strides = common::dense_strides(e.shape);  // it is not read
      continue;
    }
    e.inputs[k].strides = strides(node.inputs[k], e.shape);
    operands.push_back(operand(node.inputs[k]));
  }
  return e;
}

Expression NodeCompiler::pointwise(std::int32_t id, const Joined& joined, Operands& operands, std::vector<int>& gates) {
  gates = joined.gates;
  Expression e = with_inputs(id, gates, operands);
  std::vector<std::size_t> states;  // registers of the state that a product is
  for (std::size_t k = 0; k < gates.size() && joined.state >= 0; ++k)
    if (gates[k] == 0) states.push_back(k);
  if (joined.through >= 0) {
    std::vector<int> maker_gates;
    for (const ValueId in : graph().node(joined.through).inputs)
      maker_gates.push_back(in.node == joined.product ? 0 : -1);
    Operands before;
    const Expression maker = with_inputs(joined.through, maker_gates, before);
    for (Operand& operand : before) operand.previous = true;
    operands.insert(operands.end(), before.begin(), before.end());
    states.resize(1);
    e = inlined(e, gates, maker, states[0]);
    gates.assign(e.inputs.size() - maker_gates.size(), -1);
    gates.insert(gates.end(), maker_gates.begin(), maker_gates.end());
  }
  if (packed_ && joined.state >= 0) start_rows(joined.state, std::move(states), e, operands, gates);
  const std::vector<Passed> passed = pass_through(id, e, operands, gates);
  const std::vector<Expression::Result> results = e.results;
  keep_results(id, e, operands);
  add_parts(concats_, id, [&](std::int32_t output) { return results[output].from; }, e, operands);
  for (const auto& [copy, gate] : joined.kept) {
    if (device::is_overwritten(plan_, joined, copy)) continue;
    const auto input = std::find(gates.begin(), gates.end(), gate) - gates.begin();
    e.results.push_back({static_cast<std::uint16_t>(input), strides({copy, 0}, e.shape)});
    operands.push_back(operand({copy, 0}));
  }
  add_ahead(id, e, operands);
  store_passed(passed, e, operands);
  return e;
}

void NodeCompiler::elementwise(NodeWork& work) {
  Operands operands;
  std::vector<int> gates;
  Expression e = pointwise(work.node, {}, operands, gates);
  expression(work, std::move(e), std::move(operands));
}

std::optional<NodeCompiler::JoinedWork> NodeCompiler::join(const Joined& joined) {
  const Node& node = graph().node(joined.product);
  JoinedWork out;
  out.nodes = joined;
  out.product.stores = joined.stores;
  out.product.gates = joined.n_gates;
  out.sizes = product_sizes(node, {joined.product, 0}, out.product);
  if (out.product.batch_rank > 0) return std::nullopt;
  const Limits& limits = context_.device.limits();
  const auto apart = choose_tiling(out.sizes, 1, Sum::in_parts, limits);
  if (apart->part < out.sizes.k) return std::nullopt;  // in parts it has more workgroups
  out.sizes.units /= static_cast<std::uint32_t>(joined.n_gates);
  const auto tiling = choose_tiling(out.sizes, joined.n_gates, Sum::epilogue, limits);
  if (!tiling) return std::nullopt;
  out.product.tile = tiling->tile;
  out.sizes.part = tiling->part;
  out.sizes.first.clear();
  for (std::uint32_t g = 0; g < word(joined.n_gates); ++g) out.sizes.first.push_back(g * out.sizes.units);

  for (const ValueId in : node.inputs) {
    out.operands.push_back(operand(in));
    out.operands.back().previous = joined.state >= 0;
  }
  if (joined.stores) out.operands.push_back(operand({joined.product, 0}));
  Operands others;
  std::vector<int> gates;
  const Expression e = pointwise(joined.epilogue, joined, others, gates);
  out.epilogue = {common::simplified(e), gates, shared_buffers(others)};
  out.operands.insert(out.operands.end(), others.begin(), others.end());
  if (out.operands.size() > most_operands()) return std::nullopt;
  return out;
}

void NodeCompiler::compile(NodeWork& work, const JoinedWork& joined) {
  Product product = joined.product;
  product.epilogue = &joined.epilogue;
  const std::uint32_t local = product.tile.invocations();
  NodeWork made;
  add(made, product_key(product), joined.operands, product_params(product, joined.sizes),
      product_groups(product, joined.sizes) * local, [&] { return product_shader(product, setting()); }, local,
      row_items(joined.nodes.product, type({joined.nodes.product, 0}).shape, joined.sizes.m));
  if (joined.nodes.state >= 0) {
    work.carried = std::move(made.dispatches);
    work.carried_product = joined.nodes.product;
    work.carried_through = joined.nodes.through;
    return;
  }
  work.dispatches = std::move(made.dispatches);
  work.joined.push_back(joined.nodes.product);
  if (!joined.nodes.stores) work.in_tile = joined.nodes.product;
  for (const auto& [copy, gate] : joined.nodes.kept) work.joined.push_back(copy);
}

void NodeCompiler::fused_reduction(NodeWork& work, const Node& node) {
  Operands operands;
  Expression e = node_expression(work.node, operands);
  const Buffers buffers = shared_buffers(operands);
  const RowSchedule schedule(e);
  const RowLayout layout = row_layout(schedule, context_.device.limits());
  require_iterations(node, static_cast<std::int64_t>(schedule.iterations(layout.lanes)), "iterations");
  if (const std::uint32_t words = spill_words(schedule, layout); words > 0) {
    const std::size_t rows = e.shape.removed(e.shape.rank() - 1).elements();
    operands.push_back(workspace(rows * words * sizeof(std::uint32_t)));
  }
  const std::uint32_t local = layout.lanes * layout.teams;
  const std::uint64_t groups = (row_units(e) + layout.teams - 1) / layout.teams;
  add(work, rows_key(e, buffers, layout), std::move(operands), rows_params(e, buffers), groups * local,
      [&] { return rows_shader(e, buffers, layout, setting()); }, local,
      row_items(work.node, e.shape, static_cast<std::int64_t>(row_units(e))));
}

}  // namespace unroll::vulkan
