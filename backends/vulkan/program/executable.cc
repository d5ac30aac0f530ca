// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/program/executable.h"

#include <algorithm>
#include <utility>

#include "unroll/ir/ops.h"
#include "unroll/support/error.h"

namespace unroll::vulkan {

namespace {

// One run of so many is timed, the first after those in which caches are cold.
constexpr std::int64_t k_timed_runs = 16, k_first_timed = 2;
constexpr std::size_t k_recordings = 8;  // kept for binding tuples; training alternates between two

Place place_of(const Buffer& buffer) {
  const Range& range = as_device(buffer).range();
  return {range.block, range.offset, range.bytes, range.offset};
}

std::string loop_text(std::int64_t steps, std::int64_t each) {
  return "recorded loop: " + std::to_string(steps) + " steps of " + std::to_string(each) +
         (each == 1 ? " dispatch" : " dispatches");
}

void report_plan(const PlanProgram& program, int depth, const Times& milliseconds, std::vector<ReportLine>& lines) {
  for (const NodeWork& work : program.works) {
    const Node& node = program.plan->graph->node(work.node);
    ReportLine line = device::report_line(*program.plan, work.node, depth);
    const std::size_t n = work.dispatches.size();
    const bool is_whole = node.op == Op::scan && !work.body;
    line.implementation = is_whole    ? "whole loop in " + std::to_string(n) + (n == 1 ? " dispatch" : " dispatches")
                          : work.body ? loop_text(scan_layout(node).steps, commands_per_step(*work.body))
                                    : std::to_string(n) + (n == 1 ? " dispatch" : " dispatches");
    if (const auto time = milliseconds.find(&work); time != milliseconds.end()) line.milliseconds = time->second;
    lines.push_back(std::move(line));
    if (work.body) report_plan(*work.body, depth + 1, milliseconds, lines);
  }
}

}  // namespace

VulkanExecutable::VulkanExecutable(std::shared_ptr<Context> context, std::shared_ptr<const Plan> plan)
    : context_(std::move(context)), plan_(std::move(plan)), program_(compile_program(*context_, plan_)) {
  const std::size_t copied = device::copied_bytes(*plan_);
  try {
    Memory& memory = context_->memory;
    held_.arena = memory.allocate(plan_->arena_bytes, Use::device);
    held_.constants = memory.allocate(program_.constants.size(), Use::device);
    held_.params = memory.allocate(program_.params.size() * sizeof(std::uint32_t), Use::device);
    held_.workspace = memory.allocate(program_.workspace_bytes, Use::device);
    if (copied > 0) held_.copies = memory.allocate(copied, Use::device);
    context_->queue.upload(held_.constants, 0, program_.constants);
    context_->queue.upload(held_.params, 0, std::as_bytes(std::span(program_.params)));
  } catch (...) {
    release();
    throw;
  }
  program_.constants = {};
}

VulkanExecutable::~VulkanExecutable() { release(); }

void VulkanExecutable::release() noexcept {
  for (const Recorded& recorded : recorded_)
    context_->queue.after_work([recording = recorded.recording]() mutable { recording.reset(); });
  recorded_.clear();
  running_.reset();
  for (const Range& range : {held_.arena, held_.constants, held_.params, held_.workspace, held_.copies})
    context_->memory.release(range);
}

const std::shared_ptr<Recording>& VulkanExecutable::recording_for(const Bindings& bindings, bool timed) {
  Key key;
  for (const auto* list : {&bindings.inputs, &bindings.outputs})
    for (const Buffer* buffer : *list) {
      const Range& range = as_device(*buffer).range();
      key.emplace_back(range.block->serial, range.offset);
    }
  const auto found = std::find_if(recorded_.begin(), recorded_.end(), [&](const Recorded& recorded) {
    return recorded.key == key && recorded.timed == timed;
  });
  if (found != recorded_.end()) {
    recorded_.splice(recorded_.begin(), recorded_, found);
    return recorded_.front().recording;
  }
  Frame frame;
  for (const Buffer* buffer : bindings.inputs) frame.inputs.push_back(place_of(*buffer));
  for (const Buffer* buffer : bindings.outputs) frame.outputs.push_back(place_of(*buffer));
  frame.arena = {held_.arena.block, held_.arena.offset, held_.arena.bytes, held_.arena.offset};
  auto recording = std::make_shared<Recording>(*context_);
  Recorder(*context_, program_, held_, *recording).record(frame, timed);
  recorded_.push_front({std::move(key), timed, std::move(recording)});
  if (recorded_.size() > k_recordings) {
    context_->queue.after_work([old = recorded_.back().recording]() mutable { old.reset(); });
    recorded_.pop_back();
  }
  return recorded_.front().recording;
}

void VulkanExecutable::run(const Bindings& bindings) {
  context_->device.require_sound();
  const bool timed = context_->device.limits().tick > 0 && runs_ % k_timed_runs == k_first_timed;
  const std::shared_ptr<Recording>& recording = recording_for(bindings, timed);
  if (timed && running_) {
    context_->queue.wait();
    take_times();
  }
  // One submission for each command buffer, so that each stays short.
  for (const VkCommandBuffer& commands : recording->commands()) context_->queue.submit({&commands, 1});
  if (timed) {
    running_ = recording;
    last_timed_ = runs_;
  }
  ++runs_;
}

void VulkanExecutable::take_times() const {
  const std::shared_ptr<Recording> finished = std::exchange(running_, nullptr);
  if (!finished) return;
  Times times;
  finished->times()->add_to(times);
  times_.add(std::move(times), last_timed_);
}

std::vector<ReportLine> VulkanExecutable::report() const {
  std::vector<ReportLine> lines;
  try {
    if (running_) context_->queue.finish();
    take_times();
  } catch (const Error&) {  // the next call throws it
  }
  report_plan(*program_.main, 0, times_.total(runs_), lines);
  return lines;
}

std::size_t VulkanExecutable::workspace_bytes() const {
  return held_.constants.bytes + held_.params.bytes + held_.workspace.bytes + held_.copies.bytes;
}

}  // namespace unroll::vulkan
