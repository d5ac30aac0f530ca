// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/record.h"

#include <algorithm>

#include "unroll/ops.h"

namespace unroll::vulkan {

namespace {

constexpr int k_most_in_commands = 1024;  // dispatches of a command buffer: a submission stays short for watchdogs
constexpr std::uint32_t k_pool_sets = 256, k_pool_buffers = 2048;

Place whole(const Range& range) { return {range.block, range.offset, range.bytes, range.offset}; }

// `step` bytes further, within the same bound memory.
Place moved(Place place, std::size_t bytes) {
  place.at += bytes;
  return place;
}
// The place as all that is bound.
Place only(const Block* block, std::size_t at, std::size_t bytes) { return {block, at, bytes, at}; }

std::size_t slice_bytes(const Type& stacked) {
  return stacked.shape[0] == 0 ? 0 : stacked.bytes() / static_cast<std::size_t>(stacked.shape[0]);
}

}  // namespace

Recording::~Recording() {
  const Functions& f = context_.device.f();
  const VkDevice device = context_.device.handle();
  if (!commands_.empty())
    f.FreeCommandBuffers(device, context_.queue.pool(), static_cast<std::uint32_t>(commands_.size()), commands_.data());
  for (const VkDescriptorPool pool : pools_) f.DestroyDescriptorPool(device, pool, nullptr);
}

Recorder::Recorder(Context& context, const Program& program, const Held& held, Recording& out)
    : context_(context), f_(context.device.f()), program_(program), held_(held), out_(out) {}

void Recorder::record(const Frame& frame) {
  begin();
  plan(*program_.main, frame);
  end();
}

void Recorder::begin() {
  VkCommandBufferAllocateInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, nullptr, context_.queue.pool(),
                                   VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
  context_.device.check(f_.AllocateCommandBuffers(context_.device.handle(), &info, &commands_),
                        "vkAllocateCommandBuffers");
  out_.commands_.push_back(commands_);
  VkCommandBufferBeginInfo start{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, nullptr,
                                 VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT, nullptr};
  context_.device.check(f_.BeginCommandBuffer(commands_, &start), "vkBeginCommandBuffer");
  in_commands_ = 0;
  bound_ = nullptr;
  barrier();
}
void Recorder::end() { context_.device.check(f_.EndCommandBuffer(commands_), "vkEndCommandBuffer"); }

void Recorder::barrier() {
  if (in_commands_ >= k_most_in_commands) {
    end();
    return begin();  // which has a barrier
  }
  context_.queue.barrier(commands_);
  ++out_.barriers_;
  ++epoch_;
}

Place Recorder::place(const PlanProgram& program, const Operand& operand, const Frame& frame) const {
  const Storage& s = operand.storage;
  const auto index = static_cast<std::size_t>(s.index);
  if (operand.bytes == 0) return whole(held_.params);  // never read; a binding must not be empty
  if (operand.workspace) return only(held_.workspace.block, held_.workspace.offset + s.offset, operand.bytes);
  switch (s.place) {
    case Storage::Place::input:
      return moved(frame.inputs[index], s.offset);
    case Storage::Place::output:
      return moved(frame.outputs[index], s.offset);
    case Storage::Place::constant:
      return only(held_.constants.block, held_.constants.offset + program.constants[index] + s.offset, operand.bytes);
    default:
      return only(frame.arena.block, frame.arena.at + s.offset, operand.bytes);
  }
}

Place Recorder::place(const PlanProgram& program, ValueId id, const Frame& frame) const {
  const Storage& storage =
      program.plan->storage[static_cast<std::size_t>(id.node)][static_cast<std::size_t>(id.output)];
  return place(program, Operand{storage, program.plan->graph->type(id).bytes(), false}, frame);
}

void Recorder::plan(const PlanProgram& program, const Frame& frame) {
  const auto& edges = program.hazards->edges;
  std::vector<std::uint64_t> done(program.hazards->tasks.size(), 0);  // [task] epoch in which it ended
  std::map<int, std::vector<int>> before;
  for (const auto& [a, b] : edges) before[b].push_back(a);
  const auto order = [&](int task) {
    for (const int earlier : before[task])
      if (done[static_cast<std::size_t>(earlier)] == epoch_) return barrier();
  };
  for (const NodeWork& work : program.works) {
    order(work.node);
    if (work.body) scan(program, work, frame);
    for (const Dispatch& each : work.dispatches) {
      if (each.follows) barrier();
      dispatch(program, each, frame);
    }
    done[static_cast<std::size_t>(work.node)] = epoch_;
  }
  const auto copies = static_cast<int>(program.hazards->tasks.size()) - 1;
  if (program.hazards->tasks.back().writes.empty()) return;
  order(copies);
  output_copies(program, frame);
}

std::size_t Recorder::bound_begin(const Place& place) const {
  return place.begin / context_.device.limits().alignment * context_.device.limits().alignment;
}

void Recorder::dispatch(const PlanProgram& program, const Dispatch& d, const Frame& frame) {
  if (d.groups == 0) return;
  Set buffers{{held_.params.block, {held_.params.offset, held_.params.bytes}}};
  std::vector<std::uint32_t> push{d.params};
  for (const Operand& operand : d.operands) {
    const Place p = place(program, operand, frame);
    const std::size_t begin = bound_begin(p), end = (p.begin + p.bytes + 3) / 4 * 4;
    buffers.push_back({p.block, {begin, end - begin}});
    // Elements of b8 are bytes; all others are words, which lie at multiples of 4.
    push.push_back(static_cast<std::uint32_t>((p.at - begin) / operand.element));
  }
  if (bound_ != d.kernel) f_.CmdBindPipeline(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, d.kernel->pipeline);
  bound_ = d.kernel;
  const VkDescriptorSet bound = set(*d.kernel, buffers);
  f_.CmdBindDescriptorSets(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, d.kernel->layout->pipeline, 0, 1, &bound, 0,
                           nullptr);
  f_.CmdPushConstants(commands_, d.kernel->layout->pipeline, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                      static_cast<std::uint32_t>(push.size() * sizeof(std::uint32_t)), push.data());
  const std::uint64_t width = std::min<std::uint64_t>(d.groups, context_.device.limits().groups_x);
  f_.CmdDispatch(commands_, static_cast<std::uint32_t>(width),
                 static_cast<std::uint32_t>((d.groups + width - 1) / width), 1);
  ++in_commands_;
  ++out_.dispatches_;
}

VkDescriptorSet Recorder::allocate(const Kernel& kernel) {
  const auto n = static_cast<std::uint32_t>(kernel.layout->buffers);
  if (free_sets_ == 0 || free_buffers_ < n) {
    const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, k_pool_buffers};
    VkDescriptorPoolCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
    info.maxSets = k_pool_sets;
    info.poolSizeCount = 1;
    info.pPoolSizes = &size;
    VkDescriptorPool pool = VK_NULL_HANDLE;
    context_.device.check(f_.CreateDescriptorPool(context_.device.handle(), &info, nullptr, &pool),
                          "vkCreateDescriptorPool");
    out_.pools_.push_back(pool);
    free_sets_ = k_pool_sets;
    free_buffers_ = k_pool_buffers;
  }
  VkDescriptorSetAllocateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO, nullptr, out_.pools_.back(), 1,
                                   &kernel.layout->set};
  VkDescriptorSet made = VK_NULL_HANDLE;
  context_.device.check(f_.AllocateDescriptorSets(context_.device.handle(), &info, &made), "vkAllocateDescriptorSets");
  --free_sets_;
  free_buffers_ -= n;
  return made;
}

VkDescriptorSet Recorder::set(const Kernel& kernel, const Set& buffers) {
  const auto [at, added] = sets_.try_emplace({kernel.layout, buffers}, VK_NULL_HANDLE);
  if (!added) return at->second;
  at->second = allocate(kernel);
  std::vector<VkDescriptorBufferInfo> infos;
  for (const auto& [block, range] : buffers) infos.push_back({block->buffer, range.first, range.second});
  VkWriteDescriptorSet write{};
  write.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
  write.dstSet = at->second;
  write.descriptorCount = static_cast<std::uint32_t>(infos.size());
  write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
  write.pBufferInfo = infos.data();
  f_.UpdateDescriptorSets(context_.device.handle(), 1, &write, 0, nullptr);
  return at->second;
}

void Recorder::copy(const Place& from, const Place& to, std::size_t bytes) {
  if (bytes == 0) return;
  const VkBufferCopy region{from.at, to.at, bytes};
  f_.CmdCopyBuffer(commands_, from.block->buffer, to.block->buffer, 1, &region);
  ++in_commands_;
}

// Reads all before it writes any: where an output has its donor's buffer, another output may still be read there.
void Recorder::output_copies(const PlanProgram& program, const Frame& frame) {
  const Plan& plan = *program.plan;
  std::vector<std::pair<Place, std::size_t>> from;
  std::vector<Place> to;
  for (std::size_t k = 0; k < plan.outputs.size(); ++k) {
    const Storage& s = plan.outputs[k];
    if (s.place == Storage::Place::output && s.index == static_cast<std::int32_t>(k)) continue;
    const std::size_t bytes = plan.graph->type(plan.graph->outputs()[k].value).bytes();
    if (bytes == 0) continue;
    from.emplace_back(place(program, Operand{s, bytes, false}, frame), bytes);
    to.push_back(frame.outputs[k]);
  }
  const auto touches = [](const Place& a, const Place& b, std::size_t a_bytes, std::size_t b_bytes) {
    return a.block == b.block && a.at < b.at + b_bytes && b.at < a.at + a_bytes;
  };
  bool clash = false;
  for (std::size_t i = 0; i < from.size(); ++i)
    for (std::size_t j = 0; j < to.size(); ++j)
      clash = clash || touches(from[i].first, to[j], from[i].second, from[j].second);
  if (clash) {
    std::size_t at = held_.copies.offset;
    for (auto& [place, bytes] : from) {
      const Place aside = only(held_.copies.block, at, bytes);
      copy(place, aside, bytes);
      place = aside;
      at += (bytes + 3) / 4 * 4;
    }
    barrier();
  }
  for (std::size_t i = 0; i < from.size(); ++i) copy(from[i].first, to[i], from[i].second);
}

void Recorder::scan(const PlanProgram& program, const NodeWork& work, const Frame& frame) {
  const Node& node = program.plan->graph->node(work.node);
  const Graph& graph = *program.plan->graph;
  const Plan& body = *work.body->plan;
  const ScanLayout l = scan_layout(node);
  const auto n_states = static_cast<std::size_t>(l.n_states), n_sequences = static_cast<std::size_t>(l.n_sequences);
  const auto is_stored = [&](std::size_t k) {
    return program.plan->storage[static_cast<std::size_t>(work.node)][k].place != Storage::Place::none;
  };
  const auto output = [&](std::size_t k) {
    if (!is_stored(k) && k >= n_states) return place(program, work.unread[k], frame);
    return place(program, ValueId{work.node, static_cast<std::int32_t>(k)}, frame);
  };
  // The arena of the body, then two copies of each state.
  const std::size_t scratch = frame.arena.at + program.plan->scratch_offset[static_cast<std::size_t>(work.node)];
  std::vector<Place> copies[2];
  std::size_t at = scratch + body.arena_bytes;
  for (std::size_t i = 0; i < n_states; ++i)
    for (auto& copy : copies) {
      const std::size_t bytes = graph.type(node.inputs[i]).bytes(), unit = program.plan->alignment;
      copy.push_back(only(frame.arena.block, at, std::max<std::size_t>(bytes, 1)));
      at += (bytes + unit - 1) / unit * unit;
    }
  Frame inner;
  inner.arena = only(frame.arena.block, scratch, body.arena_bytes);
  inner.inputs.resize(body.graph->inputs().size());
  inner.outputs.resize(body.graph->outputs().size());
  for (std::int64_t step = 0; step < l.steps; ++step) {
    const auto t = static_cast<std::size_t>(l.reverse ? l.steps - 1 - step : step);
    for (std::size_t i = 0; i < inner.inputs.size(); ++i) {
      if (i < n_states && step > 0) {
        inner.inputs[i] = copies[(step - 1) % 2][i];
        continue;
      }
      inner.inputs[i] = place(program, node.inputs[i], frame);
      if (i >= n_states && i < n_states + n_sequences)
        inner.inputs[i] = moved(inner.inputs[i], t * slice_bytes(graph.type(node.inputs[i])));
    }
    for (std::size_t k = 0; k < inner.outputs.size(); ++k) {
      if (k < n_states) inner.outputs[k] = step == l.steps - 1 && is_stored(k) ? output(k) : copies[step % 2][k];
      else if (!is_stored(k)) inner.outputs[k] = output(k);
      else inner.outputs[k] = moved(output(k), t * slice_bytes(node.outputs[k]));
    }
    if (step > 0) barrier();
    plan(*work.body, inner);
  }
  for (std::size_t i = 0; l.steps == 0 && i < n_states; ++i)
    if (is_stored(i)) copy(place(program, node.inputs[i], frame), output(i), node.outputs[i].bytes());
}

}  // namespace unroll::vulkan
