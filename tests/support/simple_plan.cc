// SPDX-License-Identifier: Apache-2.0
#include "tests/support/simple_plan.h"

#include "core/support/checked_size.h"

namespace unroll::testing {

namespace {

constexpr std::uint64_t k_alignment = 64;

// The next `bytes` of the arena.
std::size_t place(Plan& plan, std::size_t bytes) {
  const std::size_t offset = plan.arena_bytes;
  plan.arena_bytes =
      (CheckedSize(offset) + bytes).aligned(k_alignment).require(ErrorKind::memory, "simple_plan", "too large");
  return offset;
}

// Room for the body's arena and two copies of every state.
std::size_t scan_scratch(const Graph& graph, const Node& node, const Plan& body) {
  CheckedSize bytes = CheckedSize(body.arena_bytes).aligned(k_alignment);
  for (int i = 0; i < static_cast<int>(node.attributes.get<std::int64_t>("states")); ++i)
    bytes +=
        CheckedSize(2) * CheckedSize(graph.type(node.inputs[static_cast<std::size_t>(i)]).bytes()).aligned(k_alignment);
  return bytes.require(ErrorKind::memory, "simple_plan", "too large");
}

}  // namespace

std::shared_ptr<const Plan> simple_plan(std::shared_ptr<const Graph> graph) {
  auto plan = std::make_shared<Plan>();
  const auto nodes = graph->nodes();
  plan->storage.resize(nodes.size());
  plan->bodies.resize(nodes.size());
  plan->scratch_offset.resize(nodes.size());
  plan->scratch_bytes.resize(nodes.size());
  for (std::size_t id = 0; id < nodes.size(); ++id) {
    for (const Type& type : nodes[id].outputs) {
      const auto index = static_cast<std::int32_t>(id);
      if (nodes[id].op == Op::constant) plan->storage[id].push_back({Storage::Place::constant, index, 0});
      else if (nodes[id].op == Op::input) plan->storage[id].push_back({Storage::Place::input, 0, 0});
      else plan->storage[id].push_back({Storage::Place::arena, 0, place(*plan, type.bytes())});
    }
    if (nodes[id].op != Op::scan) continue;
    plan->bodies[id] = simple_plan(nodes[id].body);
    plan->scratch_bytes[id] = scan_scratch(*graph, nodes[id], *plan->bodies[id]);
    plan->scratch_offset[id] = place(*plan, plan->scratch_bytes[id]);
  }
  for (std::size_t i = 0; i < graph->inputs().size(); ++i)
    plan->storage[static_cast<std::size_t>(graph->inputs()[i].value.node)][0].index = static_cast<std::int32_t>(i);
  for (const NamedValue& output : graph->outputs())
    plan->outputs.push_back(
        plan->storage[static_cast<std::size_t>(output.value.node)][static_cast<std::size_t>(output.value.output)]);
  plan->donors.assign(graph->outputs().size(), -1);
  plan->graph = std::move(graph);
  return plan;
}

TensorMap run_plan(const std::shared_ptr<const Plan>& plan, Backend& backend, const TensorMap& inputs) {
  const Graph& graph = *plan->graph;
  std::vector<std::unique_ptr<Buffer>> buffers;
  Bindings bindings;
  for (const NamedValue& input : graph.inputs()) {
    const Tensor& tensor = inputs.at(input.name);
    buffers.push_back(backend.allocate(tensor.bytes().size()));
    backend.upload(*buffers.back(), 0, tensor.bytes());
    bindings.inputs.push_back(buffers.back().get());
  }
  for (const NamedValue& output : graph.outputs()) {
    buffers.push_back(backend.allocate(graph.type(output.value).bytes()));
    bindings.outputs.push_back(buffers.back().get());
  }
  const auto executable = backend.compile(plan);
  executable->run(bindings);
  backend.wait();
  TensorMap results;
  for (std::size_t k = 0; k < graph.outputs().size(); ++k) {
    Tensor tensor(graph.type(graph.outputs()[k].value));
    backend.download(*bindings.outputs[k], 0, tensor.bytes());
    results.insert_or_assign(graph.outputs()[k].name, std::move(tensor));
  }
  return results;
}

}  // namespace unroll::testing
