// SPDX-License-Identifier: Apache-2.0
// A plan as kernel launches: which kernel, on which values, with which sizes. The recording for bound buffers
// (record.h) adds the places of values.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/kernels/kernels.h"
#include "backends/cuda/library/blas.h"
#include "backends/cuda/library/products.h"
#include "backends/cuda/library/recurrent.h"
#include "backends/cuda/scan/loops.h"
#include "backends/device/packed.h"
#include "backends/device/walk.h"
#include "unroll/passes/backend.h"

namespace unroll::cuda {

// Elements of an operand that go to or come from the device of another rank.
struct Transfer {
  bool sends;
  int peer;
  std::size_t elements;
  DType dtype;
};

struct Launch {
  int kernel = -1;  // -1: a call of a library, or transfers, one for each operand
  device::Operands operands;
  std::vector<std::byte> sizes;  // the struct of sizes, as the kernel gets it
  unsigned blocks = 1, threads = 1;
  std::vector<Transfer> transfers = {};
  std::shared_ptr<const LibraryCall> library = {};
  std::vector<UnitAccess> accesses = {};  // by units, in a resident loop; none: by any block
  std::size_t alignment = 1;              // of operand 0
  ExchangeUse exchange = {};              // in a resident loop
};

struct PlanProgram;

// The weights of a layer whose parameters are inputs of the plan, as cuDNN reads them. They stay from run to run.
struct PackedWeights {
  std::vector<RnnPiece> pieces;
  std::vector<ValueId> parameters;
  std::size_t bytes;
  DType dtype;
  device::Operand block;  // zeros between the parameters
  bool holds(const PackedWeights& other) const {
    return pieces == other.pieces && parameters == other.parameters && bytes == other.bytes && dtype == other.dtype;
  }
};

// A node, in order of the plan; nodes without work have none.
struct NodeWork {
  std::int32_t node = -1;
  std::vector<Launch> launches = {};
  std::vector<Launch> before = {}, after = {};  // of a packed scan: around its steps
  std::vector<common::Region> reads = {}, writes = {};
  std::shared_ptr<const PlanProgram> body = {};  // of a scan
  device::LoopPlaces loop = {};                  // likewise
  std::optional<WholeLoop> whole = {};           // likewise; none: its steps are launches
  std::string note = {};  // for reports: why a loop has not the form that was asked for; what a layer does besides
};

struct PlanProgram : device::PlanPlaces {
  std::vector<NodeWork> works;
};

struct Program {
  std::shared_ptr<const PlanProgram> main;
  Kernels kernels;
  std::vector<std::byte> constants;
  std::size_t workspace_bytes = 0;
  std::vector<PackedWeights> packed = {};
  std::vector<NodeWork> packing = {};          // fills them before a run that finds other parameters than the last one
  std::vector<std::int32_t> packed_inputs = {};  // of the plan: what `packing` reads
  std::optional<device::Operand> product_workspace = {};  // of all products of cuBLASLt, since a stream is in order
};

// "3 launches"
inline std::string launches_text(std::int64_t n) { return std::to_string(n) + (n == 1 ? " launch" : " launches"); }
// Launches and copies of a step of a loop; of the loops within it, of all their steps.
std::int64_t commands_per_step(const PlanProgram& body);

// Throws Error(unsupported) naming the op and the reason.
// `kernels`: those of other programs, whose module this one shares. `blas`: for products; null: by own kernels.
// `rnn`: for claimed layers; null: there are none.
Program compile_program(std::shared_ptr<const Plan> plan, int multiprocessors, Kernels kernels = {},
                        const Blas* blas = nullptr, const LoopOptions& loops = {}, const RnnLibrary* rnn = nullptr);
// A program without works yet: places of constants and of the states of a loop. `compiler` gives workspace.
std::shared_ptr<PlanProgram> places_of(Program& out, std::shared_ptr<const Plan> plan, const device::LoopOutputs& loop,
                                       device::Lowering& compiler);

// The device, libraries and options for which programs are compiled.
struct Means {
  int multiprocessors;
  const Blas* blas;       // null: products are own kernels
  const RnnLibrary* rnn;  // of claimed layers; null: there are none
  LoopOptions loops;
};

// The launches of the nodes of one plan. program_nodes.cc has those of the ops.
class NodeCompiler : public device::Lowering {
 public:
  // `tf32`: the values of the plan that are tf32 numbers.
  NodeCompiler(Program& program, const Plan& plan, const Means& means, const Tf32Values& tf32)
      : Lowering(plan, program.workspace_bytes), out_(program), multiprocessors_(means.multiprocessors),
        blas_(means.blas), rnn_(means.rnn), tf32_(tf32) {}
  void compile(NodeWork& work);
  // `is_main`: the plan itself, not a body; its inputs are those of the executable.
  void set_main(bool is_main) { is_main_ = is_main; }
  // PlanPlaces::constants of the plan.
  void set_constants(std::vector<std::size_t>& offsets) { constants_ = &offsets; }
  // The product with its epilogue, in one call. False: the library does not take it.
  bool compile(NodeWork& work, const BlasGroup& group);

  // program_packed.cc.
  void compile_move(NodeWork& work, int output);
  // Adds second places of results, and their operands, to the reads and writes of the node.
  void add_second_places(NodeWork& work) const;
  // Adds the work before and after the steps of a packed loop.
  void around_packed(NodeWork& work);

 protected:
  using Operand = device::Operand;
  using Operands = device::Operands;
  // `items`: of a row of the step, of all n.sizes[0] (for_live_rows).
  void add(const Printed& printed, Operands operands, std::int64_t items = 0, bool finds_end = false);
  void add(int kernel, std::vector<std::byte> sizes, std::uint64_t blocks, unsigned threads, Operands operands);
  void expression(common::Expression expression, Operands operands) override;
  virtual void fused_reduction(std::int32_t id);
  // Items of a row, if the current node has a value of this shape with rows that a step may leave out; else 0.
  std::int64_t live_items(const Shape& shape, std::int64_t items) const;
  // The text for the rows of the step, which become an operand, if the kernel needs them. `finds_end`: it reads their
  // number anyway.
  std::string live_text(std::string text, Operands& operands, std::int64_t items, bool finds_end = false) const;
  bool reads_live_rows(const Operands& operands) const;  // behind live_text

  Program& out_;
  NodeWork* work_ = nullptr;  // that is being compiled

 private:
  void matmul(std::int32_t id);
  bool library_product(const Node& node, ValueId c, BlasExtras extras = {}, ValueId bias = {});
  // program_packed.cc. True if the library may compute all rows; zero_tails then excludes absent rows from sums.
  bool may_take_all_rows(const Node& node, ValueId c, const device::ProductShape& shape, bool has_tensor_cores) const;
  // True if a step stores only some rows of the value: others are there already, or belong to other steps.
  bool is_guarded(ValueId id) const;
  // True if only the device knows where the value begins.
  bool begins_at_step(ValueId id) const;
  void zero_tails(const Node& node, const device::ProductShape& shape);
  void reduce(std::int32_t id);
  void add_reduction(Reduction kind, DType dtype, device::ReductionShape shape, device::Operand from,
                     const device::Operand& to);
  void gather(std::int32_t id);
  void scatter_add(std::int32_t id);
  void pack_lengths(std::int32_t id);
  void all_reduce(std::int32_t id);
  void recurrent(std::int32_t id);  // rnn, gru, lstm and their gradients
  class RnnNode;
  Operand constant_block(std::span<const std::byte> bytes);

  int multiprocessors_;
  const Blas* blas_;
  const RnnLibrary* rnn_;
  const Tf32Values& tf32_;
  std::vector<std::size_t>* constants_ = nullptr;
  bool is_main_ = false;
  std::set<ValueId> zeroed_;  // values whose rows that are not there are zero
};

}  // namespace unroll::cuda
