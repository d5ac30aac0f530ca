// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/program/record.h"

#include <algorithm>


namespace unroll::vulkan {

namespace {

constexpr int k_most_in_commands = 1024;  // weight of a command buffer: a submission stays short for watchdogs
constexpr std::uint32_t k_most_spans = 8192;  // of time in a recording
constexpr std::int64_t k_timed_steps = 16;     // one step of so many is timed
constexpr std::uint32_t k_pool_sets = 256, k_pool_buffers = 2048;

Place whole(const Range& range) { return {range.block, range.offset, range.bytes, range.offset}; }
const Block& block_of(const Place& place) { return *static_cast<const Block*>(place.memory); }

}  // namespace

Recording::~Recording() {
  const Functions& f = context_.device.f();
  const VkDevice device = context_.device.handle();
  if (!commands_.empty())
    f.FreeCommandBuffers(device, context_.queue.pool(), static_cast<std::uint32_t>(commands_.size()), commands_.data());
  for (const VkDescriptorPool pool : pools_) f.DestroyDescriptorPool(device, pool, nullptr);
}

Recorder::Recorder(Context& context, const Program& program, const Held& held, Recording& out)
    : PlanWalk({whole(held.constants), whole(held.workspace), whole(held.copies), whole(held.params)}),
      context_(context), f_(context.device.f()), program_(program), held_(held), out_(out) {}

void Recorder::record(const Frame& frame, bool timed, CommandLog* log) {
  log_ = log;
  begin();
  if (timed) {
    out_.times_ = std::make_unique<TimeStamps>(context_);
    out_.times_->create(k_most_spans, commands_);
  }
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
  touched_.clear();
  if (log_) log_->push_back({.is_barrier = true});
  ++out_.barriers_;
}

void Recorder::order_before(const std::vector<device::Touch>& touches) {
  if (touched_.conflicts(touches)) barrier();
  touched_.add(touches);
}

void Recorder::plan(const PlanProgram& program, const Frame& frame) {
  TimeStamps* const times = weight_ > 0 ? out_.times_.get() : nullptr;
  for (const NodeWork& work : program.works) {
    if (work.last_state >= 0 && !(frame.is_last && frame.kept_states[work.last_state])) continue;
    if (times) {  // spans of time do not overlap
      barrier();
      times->begin(commands_, &work, weight_);
    }
    if (work.body) {
      const double outside = weight_;
      around(program, work, work.before, frame);
      loop(program, work.loop, frame);
      around(program, work, work.after, frame);
      weight_ = outside;
    } else {
      dispatches(program, work, frame);
    }
    if (times) times->end(commands_);
  }
  if (copies_outputs(program)) output_copies(program, frame);
}

void Recorder::dispatches(const PlanProgram& program, const NodeWork& work, const Frame& frame) {
  const auto& list = frame.previous && !work.carried.empty() ? work.carried : work.dispatches;
  if (std::none_of(list.begin(), list.end(), [](const Dispatch& each) { return each.groups > 0; })) return;
  const std::vector<device::Touch> touches = touches_of(program, work, frame);
  std::vector<device::Touch> all = touches;
  for (const Dispatch& each : list) {
    const auto bound = bound_by(program, each, frame, touches);
    all.insert(all.end(), bound.begin(), bound.end());
  }
  order_before(all);
  ++units_;
  for (const Dispatch& each : list) {
    if (each.follows) {
      barrier();
      touched_.add(all);
    }
    dispatch(program, each, frame);
    if (log_ && each.groups > 0) log_dispatch(program, work, each, frame, touches);
  }
}

// Dispatches before or behind a loop.
void Recorder::around(const PlanProgram& program, const NodeWork& work, const std::vector<Dispatch>& list,
                      const Frame& frame) {
  for (const Dispatch& each : list) {
    std::vector<device::Touch> touches = bound_by(program, each, frame, {});
    for (std::size_t k = 0; k < touches.size(); ++k) touches[k].writes = k + each.results >= touches.size();
    order_before(touches);
    ++units_;
    dispatch(program, each, frame);
    if (log_) log_->push_back({.unit = units_, .work = &work, .touches = touches, .operands = touches});
  }
}

std::size_t Recorder::bound_begin(const Place& place) const {
  return place.begin / context_.device.limits().alignment * context_.device.limits().alignment;
}

void Recorder::dispatch(const PlanProgram& program, const Dispatch& d, const Frame& frame) {
  if (d.groups == 0) return;
  Set buffers{{held_.params.block, {held_.params.offset, held_.params.bytes}}};
  std::vector<std::uint32_t> push{d.params};
  for (const Operand& operand : d.operands) {
    const Place p = place(program, operand, operand.previous ? *frame.previous : frame);
    const std::size_t begin = bound_begin(p), end = (p.begin + p.bytes + 3) / 4 * 4;
    buffers.push_back({&block_of(p), {begin, end - begin}});
    // Elements of one and two bytes lie at multiples of that, words at multiples of 4.
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
  in_commands_ += d.weight;
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
  const std::vector<device::Touch> touches{{from.memory, from.at, from.at + bytes, false},
                                           {to.memory, to.at, to.at + bytes, true}};
  order_before(touches);
  const VkBufferCopy region{from.at, to.at, bytes};
  f_.CmdCopyBuffer(commands_, block_of(from).buffer, block_of(to).buffer, 1, &region);
  ++units_;
  if (log_) log_->push_back({.unit = units_, .touches = touches});
  ++in_commands_;
}

// One step in k_timed_steps is timed and stands for all of them.
void Recorder::step(const device::PlanPlaces& body, const Frame& frame, std::int64_t number, std::int64_t steps) {
  const std::int64_t timed = (steps + k_timed_steps - 1) / k_timed_steps;
  if (number == 0) outside_.push_back(weight_);
  const double each = static_cast<double>(steps) / static_cast<double>(timed);
  weight_ = number % k_timed_steps == 0 ? outside_.back() * each : 0;
  plan(static_cast<const PlanProgram&>(body), frame);
  if (number == steps - 1) outside_.pop_back();
}

}  // namespace unroll::vulkan
