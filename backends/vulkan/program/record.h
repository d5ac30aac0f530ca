// SPDX-License-Identifier: Apache-2.0
// Records a program for bound buffers as command buffers that are submitted again and again. Loops are recorded step by
// step: the dispatches of the body with other offsets.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "backends/vulkan/program/program.h"
#include "backends/vulkan/program/times.h"
#include "unroll/ir/ops.h"

namespace unroll::vulkan {

using device::Frame;
using device::Place;

// Memory of an executable.
struct Held {
  Range arena, constants, params, workspace;
  Range copies;  // outputs that are copied, where an order of the copies does not suffice
};

// A recorded command and what it touches, for tests that check and count recordings.
struct Command {
  bool is_barrier = false;
  // Number of the node's run, or of the copy. Only dispatches of a run that follow need a barrier before them.
  int unit = -1;
  bool follows = false;
  const NodeWork* work = nullptr;           // null: a copy
  std::vector<device::Touch> touches = {};   // bytes of the whole unit
  std::vector<device::Touch> operands = {};  // what the dispatch binds: at least the bytes that it touches
  std::size_t workspace_bytes = 0;           // of its operands
};
using CommandLog = std::vector<Command>;

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
  const TimeStamps* times() const { return times_.get(); }  // null: the runs are not timed

 private:
  friend class Recorder;
  Context& context_;
  std::vector<VkCommandBuffer> commands_;
  std::vector<VkDescriptorPool> pools_;
  int dispatches_ = 0, barriers_ = 0;
  std::unique_ptr<TimeStamps> times_;
};

class Recorder : private device::PlanWalk {
 public:
  Recorder(Context& context, const Program& program, const Held& held, Recording& out);
  // Appends the commands to `log`, if there is one.
  void record(const Frame& frame, bool timed = false, CommandLog* log = nullptr);

 private:
  using Set = std::vector<std::pair<const Block*, std::pair<std::size_t, std::size_t>>>;
  void begin();
  void end();
  void order() override {}  // each command is ordered by what it touches
  void plan(const PlanProgram& program, const Frame& frame);
  void step(const device::PlanPlaces& body, const Frame& frame, std::int64_t number, std::int64_t steps) override;
  void dispatches(const PlanProgram& program, const NodeWork& work, const Frame& frame);
  void around(const PlanProgram& program, const NodeWork& work, const std::vector<Dispatch>& list, const Frame& frame);
  void dispatch(const PlanProgram& program, const Dispatch& dispatch, const Frame& frame);
  void copy(const Place& from, const Place& to, std::size_t bytes) override;
  void barrier();
  // Puts a barrier before a command that touches this, if it needs one.
  void order_before(const std::vector<device::Touch>& touches);
  // touches.cc: the bytes of all dispatches of a node in this step, and what one of them binds. The validation layer
  // sees only the latter.
  std::vector<device::Touch> touches_of(const PlanProgram& program, const NodeWork& work, const Frame& frame) const;
  std::vector<device::Touch> bound_by(const PlanProgram& program, const Dispatch& dispatch, const Frame& frame,
                                      const std::vector<device::Touch>& touches) const;
  void log_dispatch(const PlanProgram& program, const NodeWork& work, const Dispatch& dispatch, const Frame& frame,
                    const std::vector<device::Touch>& touches);
  VkDescriptorSet set(const Kernel& kernel, const Set& buffers);
  VkDescriptorSet allocate(const Kernel& kernel);
  std::size_t bound_begin(const Place& place) const;

  Context& context_;
  const Functions& f_;
  const Program& program_;
  const Held& held_;
  Recording& out_;
  VkCommandBuffer commands_ = nullptr;
  double weight_ = 1;             // of a span of time: the steps that a timed step stands for
  std::vector<double> outside_;   // [loop] the weight around it
  int in_commands_ = 0;     // weight of dispatches, and copies, of the open command buffer
  device::Touched touched_;  // since the last barrier
  CommandLog* log_ = nullptr;
  int units_ = 0;  // nodes and copies so far, of the log
  const Kernel* bound_ = nullptr;
  std::map<std::pair<const Layout*, Set>, VkDescriptorSet> sets_;
  std::uint32_t free_sets_ = 0, free_buffers_ = 0;  // of the newest pool
};

}  // namespace unroll::vulkan
