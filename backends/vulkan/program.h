// SPDX-License-Identifier: Apache-2.0
// A plan as dispatches: which kernel, on which values, with which parameters. Where values lie is known when a program
// is recorded for bound buffers (record.h).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/common/hazards.h"
#include "backends/vulkan/context.h"
#include "unroll/backend.h"

namespace unroll::vulkan {

// Bytes of a value: of one of the plan's places, or of the executable's workspace.
struct Operand {
  Storage storage = {};
  std::size_t bytes = 0;
  bool workspace = false;  // storage.offset is then in the workspace
  std::size_t element = 4;  // bytes of an element: 1 for b8
};

struct Dispatch {
  const Kernel* kernel = nullptr;
  std::vector<Operand> operands;
  std::uint32_t params = 0;  // index of the first
  std::uint64_t groups = 0;
  bool follows = false;      // reads or overwrites what earlier dispatches of its node wrote
};

struct PlanProgram;

// A node, in order of the plan; nodes without work have none.
struct NodeWork {
  std::int32_t node = -1;
  std::vector<Dispatch> dispatches = {};
  std::shared_ptr<const PlanProgram> body = {};  // of a scan
  std::vector<Operand> unread = {};              // [output] of a scan: workspace for those that are not stored
};

struct PlanProgram {
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<const common::Hazards> hazards;
  std::vector<NodeWork> works;
  std::vector<std::size_t> constants;  // [node] offset of a constant among the constants of the executable
};

struct Program {
  std::shared_ptr<const PlanProgram> main;
  Params params;
  std::vector<std::byte> constants;
  std::size_t workspace_bytes = 0;
};

// Throws Error(unsupported) naming the op and the reason.
Program compile_program(Context& context, std::shared_ptr<const Plan> plan);

// The dispatches of the nodes of one plan. program_nodes.cc has those of the ops.
class NodeCompiler {
 public:
  NodeCompiler(Context& context, Program& program, const Plan& plan) : context_(context), out_(program), plan_(plan) {}
  // Replaces the dispatches of `work`.
  void compile(NodeWork& work);
  Operand workspace(std::size_t bytes);

 private:
  using Operands = std::vector<Operand>;
  const Graph& graph() const { return *plan_.graph; }
  const Type& type(ValueId id) const { return graph().type(id); }
  bool is_stored(ValueId id) const;
  Operand operand(ValueId id);  // workspace when it is not stored
  common::Strides strides(ValueId id, const Shape& shape) const;  // of a value read as if it had that shape
  Dispatch& add(NodeWork& work, const std::string& key, Operands operands, Params params, std::uint64_t invocations,
                const std::function<Words()>& make, std::uint32_t local_size = 0);

  void expression(NodeWork& work, common::Expression expression, Operands operands);
  void elementwise(NodeWork& work, const Node& node);
  // Elements of `from` at `from_offset` to `to` at `to_offset`, over a shape, with strides; offsets in elements.
  struct Side {
    Operand operand;
    std::int64_t offset = 0;
    common::Strides strides = {};
  };
  void move(NodeWork& work, DType dtype, const Shape& shape, const Side& from, const Side& to);
  void fill_zero(NodeWork& work, DType dtype, const Shape& shape, const Side& to);
  void move_node(NodeWork& work, const Node& node);
  void concat(NodeWork& work, const Node& node);
  void pad(NodeWork& work, const Node& node);
  void matmul(NodeWork& work, const Node& node);
  void reduce(NodeWork& work, const Node& node);
  void gather(NodeWork& work, const Node& node);
  void scatter_add(NodeWork& work, const Node& node);
  void iota(NodeWork& work, const Node& node);
  void random_uniform(NodeWork& work, const Node& node);
  void pack_lengths(NodeWork& work, const Node& node);
  // Throws Error(unsupported) where a kernel would loop too often.
  void require_iterations(const Node& node, std::int64_t iterations, const std::string& what) const;

  Context& context_;
  Program& out_;
  const Plan& plan_;
};

}  // namespace unroll::vulkan
