// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/program.h"

#include <algorithm>
#include <cstring>

#include "unroll/error.h"
#include "unroll/ops.h"

namespace unroll::vulkan {

namespace {

constexpr std::size_t k_alignment = 256;

std::size_t aligned(std::size_t bytes) { return (bytes + k_alignment - 1) / k_alignment * k_alignment; }

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::unsupported, "vulkan", what, "Use the cpu backend");
}

void require_supported(const Node& node) {
  if (node.op == Op::gradient || op_info(node.op).tier == OpTier::composite)
    refuse("runs primitive ops only; the plan contains " + std::string(op_info(node.op).name));
  for (const Type& type : node.outputs) kind_of(type.dtype);
  if (node.op != Op::scan) return;
  const ScanLayout l = scan_layout(node);
  if (l.packed) refuse("has no kernels for packed scans");
  if (l.has_lengths || l.has_reset) refuse("has no kernels for scans with masks: passes lower them");
}

// Steps of the body run one after the other.
std::shared_ptr<PlanProgram> compile_plan(Context& context, Program& out, std::shared_ptr<const Plan> plan,
                                          std::shared_ptr<const common::Hazards> hazards) {
  auto made = std::make_shared<PlanProgram>();
  made->plan = plan;
  made->hazards = hazards;
  const auto nodes = plan->graph->nodes();
  made->constants.resize(nodes.size());
  NodeCompiler compiler(context, out, *plan);
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const Node& node = nodes[n];
    require_supported(node);
    if (node.op == Op::constant) {
      const auto bytes = node.attributes.get<std::shared_ptr<const Tensor>>("value")->bytes();
      made->constants[n] = out.constants.size();
      out.constants.resize(aligned(out.constants.size() + std::max<std::size_t>(bytes.size(), 1)));
      if (!bytes.empty()) std::memcpy(out.constants.data() + made->constants[n], bytes.data(), bytes.size());
    }
    if (hazards->tasks[n].writes.empty()) continue;  // nothing to do, or nothing that is kept
    NodeWork work{static_cast<std::int32_t>(n)};
    if (node.op == Op::scan) {
      work.body = compile_plan(context, out, plan->bodies[n], hazards->bodies[n]);
      const int n_states = scan_layout(node).n_states;
      for (std::size_t k = 0; k < node.outputs.size(); ++k) {
        const bool lost = plan->storage[n][k].place == Storage::Place::none && static_cast<int>(k) >= n_states;
        work.unread.push_back(lost ? compiler.workspace(node.outputs[k].bytes()) : Operand{});
      }
    } else {
      compiler.compile(work);
    }
    made->works.push_back(std::move(work));
  }
  return made;
}

}  // namespace

Program compile_program(Context& context, std::shared_ptr<const Plan> plan) {
  Program out;
  if (plan->weights != WeightFormat::f32) refuse("keeps weights in f32 only");
  auto hazards = std::make_shared<const common::Hazards>(common::hazards_of(*plan));
  out.main = compile_plan(context, out, std::move(plan), std::move(hazards));
  if (out.params.size() * sizeof(std::uint32_t) > context.device.limits().range)
    refuse("the plan has more parameters than the device binds");
  return out;
}

Operand NodeCompiler::workspace(std::size_t bytes) {
  Operand operand{{Storage::Place::none, 0, out_.workspace_bytes, {}}, bytes, true, 4};
  out_.workspace_bytes = aligned(out_.workspace_bytes + std::max<std::size_t>(bytes, 1));
  return operand;
}

bool NodeCompiler::is_stored(ValueId id) const {
  return plan_.storage[static_cast<std::size_t>(id.node)][static_cast<std::size_t>(id.output)].place !=
         Storage::Place::none;
}

Operand NodeCompiler::operand(ValueId id) {
  if (!is_stored(id)) {
    Operand unread = workspace(type(id).bytes());
    unread.element = dtype_bytes(type(id).dtype);
    return unread;
  }
  const Storage& storage = plan_.storage[static_cast<std::size_t>(id.node)][static_cast<std::size_t>(id.output)];
  std::size_t bytes = type(id).bytes();
  if (!storage.strides.empty() && bytes > 0) {
    std::int64_t last = 0;
    for (int axis = 0; axis < type(id).shape.rank(); ++axis)
      last += storage.strides[static_cast<std::size_t>(axis)] * (type(id).shape[axis] - 1);
    bytes = static_cast<std::size_t>(last + 1) * dtype_bytes(type(id).dtype);
  }
  return {storage, bytes, false, dtype_bytes(type(id).dtype)};
}

common::Strides NodeCompiler::strides(ValueId id, const Shape& shape) const {
  const Shape& own = type(id).shape;
  const Ints at = common::strides_of(plan_, id);
  common::Strides out{};
  for (int axis = 0, shift = shape.rank() - own.rank(); axis < own.rank(); ++axis)
    if (own[axis] != 1) out[static_cast<std::size_t>(axis + shift)] = at[static_cast<std::size_t>(axis)];
  return out;
}

Dispatch& NodeCompiler::add(NodeWork& work, const std::string& key, Operands operands, Params params,
                            std::uint64_t invocations, const std::function<Words()>& make, std::uint32_t local_size) {
  const Limits& limits = context_.device.limits();
  Dispatch dispatch;
  dispatch.kernel = &context_.pipelines.get(key, static_cast<int>(operands.size()) + 1, make);
  dispatch.operands = std::move(operands);
  dispatch.params = static_cast<std::uint32_t>(out_.params.size());
  out_.params.insert(out_.params.end(), params.begin(), params.end());
  const std::uint64_t size = local_size > 0 ? local_size : limits.local_size;
  dispatch.groups = (invocations + size - 1) / size;
  if (dispatch.groups > std::uint64_t{limits.groups_x} * limits.groups_y || invocations > 0xffffffffu)
    refuse("a value of " + std::to_string(invocations) + " elements is more than the device dispatches at once");
  work.dispatches.push_back(std::move(dispatch));
  return work.dispatches.back();
}

void NodeCompiler::require_iterations(const Node& node, std::int64_t iterations, const std::string& what) const {
  const std::uint32_t most = context_.device.limits().iterations;
  if (iterations > most)
    refuse(std::string(op_info(node.op).name) + " over " + std::to_string(iterations) + " " + what +
           "; a shader may loop " + std::to_string(most) + " times on this device");
}

}  // namespace unroll::vulkan
