// SPDX-License-Identifier: Apache-2.0
#include "backends/common/host_buffer.h"
#include "backends/cpu/program.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/barriers.h"
#include "backends/cpu/packed_matmul.h"
#include "backends/cpu/state.h"
#include "backends/cpu/work.h"
#include "unroll/error.h"

namespace unroll::cpu {

namespace {

const Tensor& constant_of(const Node& node) { return *node.attributes.get<std::shared_ptr<const Tensor>>("value"); }

constexpr std::size_t k_nowhere = static_cast<std::size_t>(-1);

// Nodes of a packed scan's body that states or sequences of rows lead to.
std::vector<bool> what_has_rows(const Graph& body, const ScanLayout& scan) {
  const auto n_row_inputs = static_cast<std::size_t>(scan.n_states + scan.n_sequences);
  std::vector<bool> has_rows(body.nodes().size(), false);
  if (body.outputs().empty()) return has_rows;
  const Shape& rows = body.type(body.outputs()[0].value).shape;
  for (std::size_t i = 0; i < n_row_inputs && rows.rank() > 0; ++i) {
    const ValueId id = body.inputs()[i].value;
    const Shape& shape = body.type(id).shape;
    has_rows[static_cast<std::size_t>(id.node)] = shape.rank() > 0 && shape[0] == rows[0];
  }
  for (std::size_t i = 0; i < has_rows.size(); ++i)
    for (const ValueId& id : body.nodes()[i].inputs)
      has_rows[i] = has_rows[i] || has_rows[static_cast<std::size_t>(id.node)];
  return has_rows;
}


// Constants that only products read take no room: they are packed.
std::vector<bool> constants_in_block(const Plan& plan) {
  const Graph& graph = *plan.graph;
  std::vector<bool> wanted(graph.nodes().size(), false);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto inputs = std::span(graph.nodes()[i].inputs);
    const bool packed = is_constant_matmul(plan, static_cast<std::int32_t>(i));
    for (const ValueId& id : packed ? inputs.first(1) : inputs) wanted[static_cast<std::size_t>(id.node)] = true;
  }
  for (const NamedValue& output : graph.outputs()) wanted[static_cast<std::size_t>(output.value.node)] = true;
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = wanted[i] && graph.nodes()[i].op == Op::constant;
  return wanted;
}

}  // namespace

Ref PlanView::ref(const Storage& s) const {
  const auto index = static_cast<std::uint32_t>(s.index);
  const auto n_inputs = static_cast<std::uint32_t>(graph().inputs().size());
  switch (s.place) {
    case Storage::Place::arena: return {k_arena, s.offset};
    case Storage::Place::constant: return {k_constants, constant_offsets[static_cast<std::size_t>(s.index)] + s.offset};
    case Storage::Place::input: return {k_first_input + index, s.offset};
    case Storage::Place::output: return {k_first_input + n_inputs + index, s.offset};
    case Storage::Place::none: break;
  }
  throw Error(ErrorKind::internal, "cpu", "a value that is used has no place");
}

bool PlanView::is_apart(const Ref& result, std::span<const Ref> operands) const {
  const std::size_t first_output = k_first_input + graph().inputs().size();
  if (result.base < first_output || plan.donors[result.base - first_output] >= 0) return false;
  return std::none_of(operands.begin(), operands.end(), [&](const Ref& ref) { return ref.base == result.base; });
}

Strides PlanView::strides(const ValueId& id) const {
  const Ints& given = storage(id).strides;
  const Shape& shape = graph().type(id).shape;
  if (given.empty()) return dense_strides(shape);
  Strides strides{};
  std::copy(given.begin(), given.end(), strides.begin());
  return strides;
}

Strides PlanView::strides(const ValueId& id, const Shape& to) const {
  const Shape& from = graph().type(id).shape;
  const Strides own = strides(id);
  Strides result{};
  const int missing = to.rank() - from.rank();
  for (int d = 0; d < from.rank(); ++d)
    if (from[d] != 1) result[static_cast<std::size_t>(d + missing)] = own[static_cast<std::size_t>(d)];
  return result;
}

namespace {

// All that a call may touch when it does not say itself.
std::vector<Access> accesses_of_node(const PlanView& view, std::int32_t id) {
  const Node& node = view.graph().node(id);
  std::vector<Access> accesses{{{k_scratch, 0}, 1, {}, true}};
  const auto add = [&](const ValueId& value, bool writes) {
    if (view.storage(value).place == Storage::Place::none) return;
    const Shape& shape = view.graph().type(value).shape;
    const Strides strides = view.strides(value);
    std::int64_t reach = shape.elements() > 0 ? 1 : 0;
    for (int axis = 0; axis < shape.rank() && reach > 0; ++axis)
      reach += (shape[axis] - 1) * strides[static_cast<std::size_t>(axis)];
    accesses.push_back(
        {view.ref(value), static_cast<std::size_t>(reach) * dtype_bytes(view.graph().type(value).dtype), {}, writes});
  };
  for (const ValueId& input : node.inputs)
    if (view.graph().node(input.node).op != Op::constant) add(input, false);
  for (std::size_t k = 0; k < node.outputs.size(); ++k) add({id, static_cast<std::int32_t>(k)}, true);
  const auto i = static_cast<std::size_t>(id);
  if (view.plan.scratch_bytes[i] > 0)
    accesses.push_back({{k_arena, view.plan.scratch_offset[i]}, view.plan.scratch_bytes[i], {}, true});
  return accesses;
}

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
  const auto costs_by = [&](const Rates& rates) { return scan ? Costs(rates, plan, scan->place) : Costs(rates, plan); };
  const Costs costs = costs_by(usual_rates()), predicted = costs_by(view.state.rates);
  view.costs = &costs;
  view.predicted = &predicted;
  view.whole = !scan;
  view.packed = scan && (scan->layout().packed || scan->by_rows());
  constexpr int k_timed_steps = 16;  // one in so many steps of a loop is timed
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

double barrier_ns(const Rates& rates, int parts) { return parts > 1 ? rates.barrier_ns : 0; }

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

}  // namespace

void add_nodes(const PlanView& view, std::int32_t begin, std::int32_t end, Steps& steps, std::size_t& scratch_bytes) {
  for (std::int32_t i = begin; i < end; ++i) {
    auto call = call_of(view, i, scratch_bytes);
    if (!call) continue;
    Step step = step_of(view, i, std::move(call));
    step.predicted_ns = view.predicted->call_ns(i, Share::calls, view.parts);
    if (step.predicted_ns > 0) step.predicted_ns += barrier_ns(view.state.rates, view.parts);
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
  if (auto copies = make_output_copies(view, 0)) steps_.add(step_of_outputs(view, 0, std::move(copies)));
}

void Program::add_body(const PlanView& view, const ScanBody& scan) {
  const Graph& graph = view.graph();
  const std::vector<bool> has_rows = what_has_rows(graph, scan.layout());
  const Share share = share_of(scan.schedule);
  const int n_states = scan.layout().n_states;
  const auto split = scan.by_columns() ? std::make_unique<ColumnSplit>(view, scan.form) : nullptr;
  std::vector<std::vector<Access>> accesses;
  const auto add = [&](Step step, std::vector<Access> all) {
    std::vector<Access> own = step.call->accesses();
    accesses.push_back(own.empty() ? std::move(all) : std::move(own));
    steps_.add(std::move(step));
  };
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph.nodes().size()); ++i) {
    std::unique_ptr<Call> call;
    if (!is_constant_matmul(view.plan, i) && is_packed_matmul(view, i, scan.form)) {
      auto product = make_packed_matmul(view, i, split.get());
      scan.packed.push_back(product.get());
      call = std::move(product);
    } else if (split && split->splits(i)) {
      call = make_column_call(view, i, *split);
    } else {
      call = call_of(view, i, scratch_bytes_);
    }
    if (!call) continue;
    Step step = step_of(view, i, std::move(call));
    step.has_rows = has_rows[static_cast<std::size_t>(i)];
    step.predicted_ns = view.predicted->call_ns(i, share, scan.sharers) + barrier_ns(view.state.rates, view.parts);
    add(std::move(step), accesses_of_node(view, i));
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
    if (!waits[i]) steps_[i].predicted_ns -= barrier_ns(view.state.rates, view.parts);
  }
}

}  // namespace unroll::cpu
