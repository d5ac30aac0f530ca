// SPDX-License-Identifier: Apache-2.0
#include "backends/common/host_buffer.h"
#include "backends/cpu/program/program.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/cost/work.h"
#include "backends/cpu/program/barriers.h"
#include "backends/cpu/program/elementwise_call.h"
#include "backends/cpu/program/packed_matmul.h"
#include "backends/cpu/program/state.h"
#include "unroll/support/error.h"

namespace unroll::cpu {

namespace {

const Tensor& constant_of(const Node& node) { return *node.attributes.get<std::shared_ptr<const Tensor>>("value"); }

constexpr std::size_t k_nowhere = -1;

// Returns the nodes of a packed scan's body that depend on states or sequences of rows.
std::vector<bool> what_has_rows(const Graph& body, const ScanLayout& scan) {
  const std::size_t n_row_inputs = scan.n_states + scan.n_sequences;
  std::vector<bool> has_rows(body.nodes().size(), false);
  if (body.outputs().empty()) return has_rows;
  const Shape& rows = body.type(body.outputs()[0].value).shape;
  for (std::size_t i = 0; i < n_row_inputs && rows.rank() > 0; ++i) {
    const ValueId id = body.inputs()[i].value;
    const Shape& shape = body.type(id).shape;
    has_rows[id.node] = shape.rank() > 0 && shape[0] == rows[0];
  }
  for (std::size_t i = 0; i < has_rows.size(); ++i)
    for (const ValueId& id : body.nodes()[i].inputs)
      has_rows[i] = has_rows[i] || has_rows[id.node];
  return has_rows;
}


// Constants that only matmuls read need no block memory: they are packed.
std::vector<bool> constants_in_block(const Plan& plan) {
  const Graph& graph = *plan.graph;
  std::vector<bool> wanted(graph.nodes().size(), false);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto inputs = std::span(graph.nodes()[i].inputs);
    const bool packed = is_constant_matmul(plan, static_cast<std::int32_t>(i));
    for (const ValueId& id : packed ? inputs.first(1) : inputs) wanted[id.node] = true;
  }
  for (const NamedValue& output : graph.outputs()) wanted[output.value.node] = true;
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = wanted[i] && graph.nodes()[i].op == Op::constant;
  return wanted;
}

}  // namespace

namespace {

std::vector<Access> accesses_of_outputs(const PlanView& view, int n_states) {
  std::vector<Access> accesses;
  for (const OutputPiece& piece : output_pieces(view, n_states)) {
    accesses.push_back({piece.from, piece.type.bytes(), {}, false});
    accesses.push_back({piece.to, piece.type.bytes(), {}, true});
  }
  return accesses;
}

Loop loop_of(const Graph& body, const ScanBody& scan) {
  Loop loop{static_cast<int>(body.inputs().size()), scan.layout().n_states, {}, scan.kept};
  const auto outputs = body.outputs();
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    std::size_t first = 0;
    while (outputs[first].value != outputs[k].value) ++first;
    loop.same_as.push_back(static_cast<int>(first));
  }
  loop.kept.resize(outputs.size(), false);
  return loop;
}

}  // namespace

Program::Program(PlanView view, const ScanBody* scan)
    : steps_(view.state.trace, scan ? static_cast<double>(scan->layout().steps) / scan->apart : 1) {
  const Plan& plan = view.plan;
  const auto costs_by = [&](const MachineModel& machine) {
    return scan ? Costs(machine, plan, scan->place) : Costs(machine, plan);
  };
  const Costs costs = costs_by(usual_machine()), predicted = costs_by(view.state.machine);
  view.costs = &costs;
  view.predicted = &predicted;
  view.whole = !scan;
  view.packed = scan && (scan->layout().packed || scan->by_rows());
  constexpr int k_timed_steps = 16;  // one in k_timed_steps steps of a loop is timed
  steps_.time_one_in(plan.one_thread ? 0 : scan ? k_timed_steps : 1);
  n_bases_ = k_first_input + plan.graph->inputs().size() + plan.graph->outputs().size();
  std::size_t n_bytes = 0;
  const std::vector<bool> in_block = constants_in_block(plan);
  for (std::size_t i = 0; i < in_block.size(); ++i) {
    view.constant_offsets.push_back(in_block[i] ? n_bytes : k_nowhere);
    if (in_block[i]) n_bytes += aligned(constant_of(plan.graph->nodes()[i]).bytes().size());
  }
  constants_ = Bytes(at_least_one(n_bytes));
  for (std::size_t i = 0; i < in_block.size(); ++i) {
    if (!in_block[i] || constant_of(plan.graph->nodes()[i]).elements() == 0) continue;
    const auto bytes = constant_of(plan.graph->nodes()[i]).bytes();
    std::memcpy(constants_.data() + view.constant_offsets[i], bytes.data(), bytes.size());
  }
  if (scan) add_body(view, *scan);
  else add_plan(view);
}


namespace {

Step step_of(const PlanView& view, std::int32_t i, std::unique_ptr<Call> call) {
  const Node& node = view.graph().node(i);
  Step step{std::move(call), "%" + std::to_string(i) + " " + std::string(op_info(node.op).name), i};
  for (const Type& type : node.outputs) step.bytes += type.bytes();
  step.alone = step.call->alone();
  return step;
}

double barrier_ns(const MachineModel& machine, int parts) { return parts > 1 ? machine.barrier_ns : 0; }

Step step_of_outputs(const PlanView& view, int n_states, std::unique_ptr<Call> copies) {
  Step step{std::move(copies), "outputs"};
  const std::size_t first = k_first_input + view.graph().inputs().size();
  for (const OutputPiece& piece : output_pieces(view, n_states))
    step.predicted_ns +=
        view.predicted->copy_ns(piece.type, static_cast<std::int32_t>(piece.to.base - first), view.parts);
  return step;
}

std::unique_ptr<Call> call_of(const PlanView& view, std::int32_t i, std::size_t& scratch_bytes) {
  if (is_constant_matmul(view.plan, i)) return make_constant_matmul(view, i);
  return view.graph().node(i).op == Op::scan ? make_scan(view, i, scratch_bytes) : make_call(view, i, scratch_bytes);
}

// The step of a matmul also computes its epilogue.
void add_epilogue(Step& step, const PlanView& view, const ProductGroup& group, Share share, int parts) {
  step.name += " to %" + std::to_string(group.epilogue);
  for (const Type& type : view.graph().node(group.epilogue).outputs) step.bytes += type.bytes();
  step.predicted_ns += view.predicted->call_ns(group.epilogue, share, parts);
}

// Returns the group of this matmul if its epilogue is the next call before `end`.
const ProductGroup* group_at(const PlanView& view, const std::vector<ProductGroup>& groups, std::int32_t product,
                             std::int32_t end) {
  const auto is_here = [&](const ProductGroup& group) { return group.product == product; };
  const auto at = std::find_if(groups.begin(), groups.end(), is_here);
  if (at == groups.end() || at->epilogue >= end) return nullptr;
  for (std::int32_t i = product + 1; i < at->epilogue; ++i)
    if (view.graph().node(i).op == Op::scan || view.predicted->is_call(i)) return nullptr;
  return &*at;
}

}  // namespace

void add_nodes(const PlanView& view, std::int32_t begin, std::int32_t end, Steps& steps, std::size_t& scratch_bytes) {
  const std::vector<ProductGroup> groups = product_groups(view.graph());
  for (std::int32_t i = begin; i < end; ++i) {
    const ProductGroup* group = group_at(view, groups, i, end);
    auto call = group ? make_product_group(view, *group, scratch_bytes) : nullptr;
    if (!call) group = nullptr;
    if (!group) call = call_of(view, i, scratch_bytes);
    if (!call) continue;
    Step step = step_of(view, i, std::move(call));
    step.predicted_ns = view.predicted->call_ns(i, Share::calls, view.parts);
    if (group) {
      add_epilogue(step, view, *group, Share::calls, view.parts);
      i = group->epilogue;
    }
    if (step.predicted_ns > 0) step.predicted_ns += barrier_ns(view.state.machine, view.parts);
    steps.add(std::move(step));
  }
}

void Program::add_plan(const PlanView& view) {
  std::int32_t done = 0;
  for (const Fork& fork : view.plan.forks) {
    if (view.parts == 1) break;
    add_nodes(view, done, fork.bounds.front(), steps_, scratch_bytes_);
    const std::int32_t last = fork.bounds.back() - 1;
    steps_.add({make_fork(view, fork, scratch_bytes_),
                "%" + std::to_string(fork.bounds.front()) + " to %" + std::to_string(last)});
    done = fork.bounds.back();
  }
  add_nodes(view, done, static_cast<std::int32_t>(view.graph().nodes().size()), steps_, scratch_bytes_);
  std::int32_t exchange = -1;
  if (auto await = make_await_exchanges(view, exchange)) steps_.add(step_of(view, exchange, std::move(await)));
  if (auto copies = make_output_copies(view, 0)) steps_.add(step_of_outputs(view, 0, std::move(copies)));
}

void Program::add_body(const PlanView& view, const ScanBody& scan) {
  const Graph& graph = view.graph();
  const std::vector<bool> has_rows = what_has_rows(graph, scan.layout());
  const Share share = share_of(scan.schedule);
  const int n_states = scan.layout().n_states;
  const auto split = scan.by_columns() ? std::make_unique<ColumnSplit>(view, scan.form) : nullptr;
  const std::vector<ProductGroup> groups = product_groups(graph);
  std::vector<std::vector<Access>> accesses;
  const auto add = [&](Step step, std::vector<Access> all) {
    std::vector<Access> own = step.call->accesses();
    accesses.push_back(own.empty() ? std::move(all) : std::move(own));
    steps_.add(std::move(step));
  };
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph.nodes().size()); ++i) {
    std::unique_ptr<Call> call;
    const ProductGroup* group = nullptr;
    if (!is_constant_matmul(view.plan, i) && is_packed_matmul(view, i, scan.form)) {
      auto product = make_packed_matmul(view, i, split.get());
      if (!split) group = group_at(view, groups, i, static_cast<std::int32_t>(graph.nodes().size()));
      const bool same_rows = group && has_rows[i] == has_rows[group->epilogue];
      if (auto epilogue = same_rows ? block_epilogue(view, *group) : std::nullopt) product->add(std::move(*epilogue));
      else group = nullptr;
      scan.packed.push_back(product.get());
      call = std::move(product);
    } else if (split && split->splits(i)) {
      call = make_column_call(view, i, *split);
    } else {
      call = call_of(view, i, scratch_bytes_);
    }
    if (!call) continue;
    Step step = step_of(view, i, std::move(call));
    step.has_rows = has_rows[i];
    step.predicted_ns = view.predicted->call_ns(i, share, scan.sharers) + barrier_ns(view.state.machine, view.parts);
    if (group) add_epilogue(step, view, *group, share, scan.sharers);
    add(std::move(step), accesses_of_node(view, i));
    if (group) i = group->epilogue;
  }
  bool by_columns = split != nullptr;
  auto copies = by_columns ? make_column_output_copies(view, n_states, by_columns) : nullptr;
  if (!by_columns) copies = make_output_copies(view, n_states);
  if (copies) add(step_of_outputs(view, n_states, std::move(copies)), accesses_of_outputs(view, n_states));
  if (!split) return;
  const Loop loop = loop_of(graph, scan);
  const std::vector<bool> waits = find_barriers(accesses, &loop);
  for (std::size_t i = 0; i < waits.size(); ++i) {
    steps_[i].wait = waits[i];
    if (!waits[i]) steps_[i].predicted_ns -= barrier_ns(view.state.machine, view.parts);
  }
}

}  // namespace unroll::cpu
