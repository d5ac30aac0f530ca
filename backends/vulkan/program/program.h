// SPDX-License-Identifier: Apache-2.0
// A plan as dispatches: which kernel, on which values, with which parameters. The recording for bound buffers
// (record.h) adds the places of values.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "backends/common/hazards.h"
#include "backends/device/packed.h"
#include "backends/device/walk.h"
#include "backends/vulkan/kernels/products.h"
#include "backends/vulkan/program/context.h"
#include "backends/vulkan/scan/loops.h"
#include "unroll/passes/backend.h"

namespace unroll::vulkan {

using device::JoinedConcat;
using device::Joined;
using device::LoopOutputs;
using device::Operand;
using device::Operands;

struct Dispatch {
  const Kernel* kernel = nullptr;
  std::vector<Operand> operands;
  std::uint32_t params = 0;  // index of the first
  std::uint64_t groups = 0;
  bool follows = false;      // reads or overwrites what earlier dispatches of its node wrote
  int weight = 1;            // dispatches that take as long; submissions are bounded by it
  std::size_t results = 0;   // before and behind loops: operands at the end that are written
};

struct PlanProgram;

// A node, in order of the plan; nodes without work have none.
struct NodeWork {
  std::int32_t node = -1;
  std::vector<Dispatch> dispatches = {};
  std::vector<Dispatch> carried = {};            // in steps after the first, where there are some: with a product of
                                                 // the step before
  std::vector<std::int32_t> joined = {};         // other nodes whose work this is too
  std::int32_t in_tile = -1;                     // product whose result the dispatch keeps to itself
  std::int32_t carried_product = -1;             // product of `carried`
  std::int32_t carried_through = -1;             // what makes a state of that product; -1: it is the state
  std::vector<int> ahead = {};                   // outputs of the body that get values of others, or a state for the
                                                 // next step
  std::vector<Dispatch> before = {}, after = {};  // of a scan
  int last_state = -1;                           // runs in the last step only, if the loop keeps this state
  std::shared_ptr<const PlanProgram> body = {};  // of a scan
  device::LoopPlaces loop = {};                  // likewise
};

struct PlanProgram : device::PlanPlaces {
  std::shared_ptr<const common::Hazards> hazards;
  std::vector<NodeWork> works;
};

struct Program {
  std::shared_ptr<const PlanProgram> main;
  Params params;
  std::vector<std::byte> constants;
  std::size_t workspace_bytes = 0;
};

// Dispatches and copies of a step of a loop that is neither the first nor the last; of the loops within it, of all
// their steps.
std::int64_t commands_per_step(const PlanProgram& body);

// Throws Error(unsupported) naming the op and the reason.
Program compile_program(Context& context, std::shared_ptr<const Plan> plan);

// Products of one matrix, and the sum of its rows, that run as one dispatch where the first of them stands.
struct SharedProducts {
  std::vector<std::int32_t> products;
  std::int32_t sum = -1, first = -1;  // nodes
};

// The work that computes a node, or moves an output of a packed loop.
struct Assignment {
  enum class Kind : std::uint8_t {
    none,                 // no work of its own; `group`: the node whose work computes it
    node,                 // the dispatches of the node alone
    last_step,            // the same, in the last step only, for state `group`; else the next step computes it
    epilogue,             // in one dispatch with the product of joined products `group`
    epilogue_of_carried,  // the same in steps after the first, with the product of the step before
    shared_products,      // shared products `group`
    loop,
    moved_output          // output `group` of the body
  };
  std::int32_t node = -1;
  Kind kind = Kind::none;
  std::int32_t group = -1;
};

// The dispatches of the nodes of one plan. program_nodes.cc has those of the ops.
class NodeCompiler : public device::Lowering {
 public:
  NodeCompiler(Context& context, Program& program, const Plan& plan)
      : Lowering(plan, program.workspace_bytes), context_(context), out_(program) {}
  // Replaces the dispatches of `work`.
  void compile(NodeWork& work);
  // A product with its epilogue as one dispatch, or nothing: no tile fits, or apart they are faster.
  struct JoinedWork {
    Joined nodes;
    Product product;
    ProductSizes sizes;
    Epilogue epilogue;
    std::vector<Operand> operands;
  };
  std::optional<JoinedWork> join(const Joined& joined);
  void compile(NodeWork& work, const JoinedWork& joined);
  // program_shared.cc. Groups of nodes with dispatches of their own.
  std::vector<SharedProducts> shared_products(const common::Hazards& hazards,
                                              const std::vector<Assignment>& assignments);
  void compile(NodeWork& work, const SharedProducts& group);
  // A scan as dispatches of one kernel that runs its steps; false: its steps are dispatches (loops.h).
  bool whole_loop(NodeWork& work, const common::Hazards& body);
  // program_packed.cc.
  void move_output(NodeWork& work, int output);
  // True if a product that is a state may run with the next step: its final rows are those of the last step, or nobody
  // reads them.
  bool may_carry(int state) const;
  // Adds the work before and after the steps of a packed loop.
  void around_packed(NodeWork& work);
  Operand live_rows(NodeWork& work);  // [T, 2] rows of each step, and of all steps before it
  void set_concats(std::vector<JoinedConcat> concats) { concats_ = std::move(concats); }
  // Lets nodes that compute a state store it for the next step too, where the loop stacks it (StatePlaces::shifted).
  void store_ahead(device::StatePlaces& states);

 private:
  std::size_t most_operands() const;  // of a dispatch, beside the parameters
  // `row_items`: of the work of a row, where the step of a packed loop leaves out rows; 0: it does all work.
  Dispatch& add(NodeWork& work, std::string key, Operands operands, Params params, std::uint64_t invocations,
                const std::function<Words()>& make, std::uint32_t local_size = 0, std::uint32_t row_items = 0);
  Setting setting() const;
  // In a packed loop: marks the operands that begin at the rows of the step, or end with them.
  void mark_live(std::string& key, Operands& operands, Params& params, std::uint32_t row_items);
  std::uint32_t row_items(std::int32_t node, const Shape& shape, std::int64_t items) const;

  // An elementwise or fused node with its operands: inputs that are no gate, then the results that are kept.
  // And copies of gates and of parts of concatenations. `gates` becomes that of the expression's inputs.
  common::Expression pointwise(std::int32_t node, const Joined& joined, Operands& operands, std::vector<int>& gates);
  common::Expression with_inputs(std::int32_t node, const std::vector<int>& gates, Operands& operands);
  void start_rows(int state, std::vector<std::size_t> registers, common::Expression& expression, Operands& operands,
                  std::vector<int>& gates);
  void expression(common::Expression expression, Operands operands) override;
  void expression(NodeWork& work, common::Expression expression, Operands operands);
  // For more operands than a shader binds.
  void expression_in_parts(NodeWork& work, const common::Expression& expression, const Operands& operands);
  // Leaves one operand for each buffer.
  Buffers shared_buffers(Operands& operands) const;
  Buffers shared_buffers(Operands& operands, std::size_t span) const;
  // A product, or a sum over rows, with its matrix a.
  struct Factor {
    std::int32_t node = -1;
    bool is_product = false;
    Product product = {};
    ProductSizes sizes = {};
    Operand a = {};
  };
  struct SharedWork {
    Product product;
    ProductSizes sizes;
    Operands operands = {};
  };
  std::optional<Factor> factor_of(std::int32_t node);
  bool shares(const Factor& product, const Factor& other) const;
  std::optional<SharedWork> tile_of(const SharedProducts& group);
  void elementwise(NodeWork& work);
  void fused_reduction(NodeWork& work, const Node& node);
  void pack_weights(NodeWork& work, LoopStep& step, std::vector<Operand>& packed);
  LoopOperands loop_operands(NodeWork& work, const LoopStep& step, const std::vector<Operand>& packed,
                             Operands& operands);
  void matmul(NodeWork& work, const Node& node);
  ProductSizes product_sizes(const Node& node, ValueId c, Product& product) const;
  void reduce(NodeWork& work, const Node& node);
  void add_reduction(NodeWork& work, Reduction kind, DType dtype, ReductionSizes sizes, Operand from, const Operand& to,
                     bool follows);
  void gather(NodeWork& work, const Node& node);
  void scatter_add(NodeWork& work, const Node& node);
  void linked_scatter(NodeWork& work, const Node& node);
  void iota(NodeWork& work, const Node& node);
  void random_uniform(NodeWork& work, const Node& node);
  void pack_lengths(NodeWork& work, const Node& node);
  // Throws Error(unsupported) where a kernel would loop too often.
  void require_iterations(const Node& node, std::int64_t iterations, const std::string& what) const;

  Context& context_;
  Program& out_;
  NodeWork* work_ = nullptr;  // that is being compiled
  std::vector<JoinedConcat> concats_;
  std::optional<LiveRows> live_;  // of the dispatch that is being added
};

inline std::uint32_t word(std::int64_t n) { return static_cast<std::uint32_t>(n); }
inline std::vector<std::uint32_t> words(const std::vector<std::int64_t>& numbers) {
  return {numbers.begin(), numbers.end()};
}

}  // namespace unroll::vulkan
