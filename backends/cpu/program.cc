// SPDX-License-Identifier: Apache-2.0
#include "backends/common/host_buffer.h"
#include "backends/cpu/program.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "unroll/error.h"

namespace unroll::cpu {

namespace {

const Tensor& constant_of(const Node& node) { return *node.attributes.get<std::shared_ptr<const Tensor>>("value"); }

constexpr std::size_t k_nowhere = static_cast<std::size_t>(-1);

// Nodes of a packed scan's body, or of a scan over blocks of its rows, that states or sequences of rows lead to.
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

Program::Program(PlanView view, const ScanLayout* scan, std::vector<PackedMatmul*>* packed) {
  const Plan& plan = view.plan;
  view.packed = scan && scan->packed;
  const std::vector<bool> has_rows = scan ? what_has_rows(*plan.graph, *scan) : std::vector<bool>();
  timed_ = !plan.one_thread;  // two looks at the clock take longer than a small call
  const auto n = static_cast<std::int32_t>(plan.graph->nodes().size());
  n_bases_ = k_first_input + plan.graph->inputs().size() + plan.graph->outputs().size();
  std::size_t n_bytes = 0;
  const std::vector<bool> in_block = constants_in_block(plan);
  for (std::size_t i = 0; i < in_block.size(); ++i) {
    view.constant_offsets.push_back(in_block[i] ? n_bytes : k_nowhere);
    if (in_block[i]) n_bytes += aligned(constant_of(plan.graph->nodes()[i]).bytes().size());
  }
  constants_ = Bytes(at_least_one(n_bytes));
  for (std::int32_t i = 0; i < n; ++i) {
    const Node& node = plan.graph->node(i);
    if (in_block[static_cast<std::size_t>(i)] && constant_of(node).elements() > 0)
      std::memcpy(constants_.data() + view.constant_offsets[static_cast<std::size_t>(i)],
                  constant_of(node).bytes().data(), constant_of(node).bytes().size());
    std::unique_ptr<Call> call;
    if (is_constant_matmul(plan, i)) {
      call = make_constant_matmul(view, i);
    } else if (auto product = scan ? make_packed_matmul(view, i, scan->n_states + scan->n_sequences) : nullptr) {
      packed->push_back(product.get());
      call = std::move(product);
    } else {
      call = node.op == Op::scan ? make_scan(view, i, scratch_bytes_) : make_call(view, i, scratch_bytes_);
    }
    if (!call) continue;
    std::size_t bytes = 0;
    for (const Type& type : node.outputs) bytes += type.bytes();
    const bool alone = call->alone();
    steps_.push_back({std::move(call), "%" + std::to_string(i) + " " + std::string(op_info(node.op).name), bytes,
                      has_rows.empty() || has_rows[static_cast<std::size_t>(i)], alone});
  }
  if (auto copies = make_output_copies(view, scan ? scan->n_states : 0)) steps_.push_back({std::move(copies), "outputs"});
}

void Program::run_steps(std::size_t begin, std::size_t end, const Frame& frame, const Part& part) {
  using Clock = std::chrono::steady_clock;
  const Frame whole{frame.bases, frame.scratch};
  auto before = timed_ ? Clock::now() : Clock::time_point();
  for (std::size_t i = begin; i < end; ++i) {
    Step& step = steps_[i];
    const Frame& seen = step.has_rows ? frame : whole;
    if (!step.alone) step.call->run(seen, part);
    else if (part.index == 0) step.call->run(seen, Part{});
    part.sync();
    if (!timed_ || part.index != 0) continue;
    const auto now = Clock::now();
    step.nanoseconds += std::chrono::duration_cast<std::chrono::nanoseconds>(now - before).count();
    before = now;
  }
}

void Program::report(std::vector<ReportLine>& lines, const std::string& indent) const {
  for (const Step& step : steps_) {
    lines.push_back({indent + step.name, step.call->implementation(), step.bytes, static_cast<double>(step.nanoseconds) * 1e-6});
    std::vector<ReportLine> inner;
    step.call->report(inner);
    for (ReportLine& line : inner) lines.push_back({indent + "  " + line.step, line.implementation, line.bytes, line.milliseconds});
  }
}

}  // namespace unroll::cpu
