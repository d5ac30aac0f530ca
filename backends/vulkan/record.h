// SPDX-License-Identifier: Apache-2.0
// Records a program for bound buffers as command buffers that are submitted again and again. Loops are recorded step by
// step: the dispatches of the body with other offsets.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "backends/vulkan/program.h"

namespace unroll::vulkan {

// Where a value begins, and the memory around it that a kernel may address: that of all steps for a slice of a stacked
// value, so that steps share descriptor sets.
struct Place {
  const Block* block = nullptr;
  std::size_t begin = 0, bytes = 0;  // what is bound
  std::size_t at = 0;                // offset of the value in the block
};

// Memory of an executable.
struct Held {
  Range arena, constants, params, workspace;
  Range copies;  // outputs that are copied, where an order of the copies does not suffice
};

// Command buffers, and what they refer to; freed when it is destroyed, which must be after their work.
class Recording {
 public:
  explicit Recording(Context& context) : context_(context) {}
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  std::span<const VkCommandBuffer> commands() const { return commands_; }
  int dispatches() const { return dispatches_; }
  int barriers() const { return barriers_; }

 private:
  friend class Recorder;
  Context& context_;
  std::vector<VkCommandBuffer> commands_;
  std::vector<VkDescriptorPool> pools_;
  int dispatches_ = 0, barriers_ = 0;
};

// The value of places for the inputs and outputs of a plan.
struct Frame {
  std::vector<Place> inputs, outputs;
  Place arena;
};

class Recorder {
 public:
  Recorder(Context& context, const Program& program, const Held& held, Recording& out);
  void record(const Frame& frame);

 private:
  using Set = std::vector<std::pair<const Block*, std::pair<std::size_t, std::size_t>>>;
  void begin();
  void end();
  void barrier();
  void plan(const PlanProgram& program, const Frame& frame);
  void scan(const PlanProgram& program, const NodeWork& work, const Frame& frame);
  void dispatch(const PlanProgram& program, const Dispatch& dispatch, const Frame& frame);
  void output_copies(const PlanProgram& program, const Frame& frame);
  void copy(const Place& from, const Place& to, std::size_t bytes);
  Place place(const PlanProgram& program, const Operand& operand, const Frame& frame) const;
  Place place(const PlanProgram& program, ValueId id, const Frame& frame) const;
  VkDescriptorSet set(const Kernel& kernel, const Set& buffers);
  VkDescriptorSet allocate(const Kernel& kernel);
  std::size_t bound_begin(const Place& place) const;

  Context& context_;
  const Functions& f_;
  const Program& program_;
  const Held& held_;
  Recording& out_;
  VkCommandBuffer commands_ = nullptr;
  int in_commands_ = 0;     // dispatches and copies of the open command buffer
  std::uint64_t epoch_ = 0;  // barriers so far
  const Kernel* bound_ = nullptr;
  std::map<std::pair<const Layout*, Set>, VkDescriptorSet> sets_;
  std::uint32_t free_sets_ = 0, free_buffers_ = 0;  // of the newest pool
};

}  // namespace unroll::vulkan
