// SPDX-License-Identifier: Apache-2.0
// One model on several backends: whether results, gradients and training agree, and if not, which node is to blame.
// What agrees means, and how it follows from the arithmetic, is in docs/numerics.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "unroll/backend.h"
#include "unroll/run.h"
#include "unroll/tensor.h"
#include "unroll/trainer.h"
#include "unroll/vfs.h"

namespace unroll {

// A node that gave something else than what it must of its operands.
struct NodeFault {
  std::string node;   // "matmul of weight_hh_l0"
  std::string place;  // "step 3 of 100 of the scan of weight_hh_l0"; empty: outside of loops
  std::string value;  // "output 0 is 0.5 at [2,7] of f32[32,1024]; of these operands it must be 0.25, within 3e-07"
  std::vector<std::int32_t> path;      // number of the node in the lowered graph, before it those of the loops around
  std::shared_ptr<const Graph> graph;  // the node alone, with inputs operand0 ... and outputs result0 ...; null of a
                                       // loop that hands on or stacks what its steps did not give
  TensorMap tensors;                   // its inputs, and what was computed: "got.result0"

  UNROLL_API std::string text() const;
};
// For replay: node.txt, the graph, and node.safetensors, the tensors, with the text as metadata. Throws Error(storage).
UNROLL_API void save_fault(const NodeFault& fault, const std::string& folder, Vfs& vfs = disk());

struct NodeCheck {
  std::int64_t nodes = 0;    // that were judged, those of a loop once for each step
  std::int64_t unjudged = 0; // whose operands cannot be had: inside a packed loop, not row by row
  double tightest = 0;       // largest error as a part of the allowed one
  std::string skipped;       // why nothing was judged; empty: it was
  std::optional<NodeFault> fault;  // the first in the order of execution
};
// Runs the graph as `tested` plans it, with every value as one more output, and computes each node in f64 on `judge`
// from the operands that `tested` had: an error that comes in with the operands is not the node's.
UNROLL_API NodeCheck check_nodes(const Graph& graph, const TensorMap& inputs, Backend& tested, Backend& judge,
                                 const PlanOptions& options = {});

// A result on two backends. Distances are relative L2 norms.
struct ResultCheck {
  std::string name;
  double achieved = 0;
  double allowed = 0;
  std::string worst;  // the element that is furthest off
  bool agrees() const { return achieved <= allowed; }
};

// Results that somebody else computed from the same inputs and parameters, by the names that results have here.
struct OutsideResults {
  std::string name, device;
  TensorMap results;
  double min_ms = 0, median_ms = 0;
};

struct CompareOptions {
  bool gradients = false;     // of the loss by every parameter
  std::int64_t updates = 0;   // of training
  std::int64_t timed_runs = 5;  // of each backend, in turns; 0: no timing
  bool nodes = true;          // judge every node, not only when results differ
  TrainerOptions training;    // seed, precision, optimiser, schedule and limits
  TensorMap parameters;       // to start from; empty: drawn from the seed
  std::vector<OutsideResults> outside;
};
struct BackendResult {
  std::string backend, device;
  std::vector<ResultCheck> results;  // against the standard; of the standard itself none
  double measured_rounding = 0;      // what f32 in the place of f64 does to the standard, when results needed to know
  NodeCheck nodes;
  std::string difference;            // in one sentence; empty: it agrees
  std::vector<double> losses;        // of each update, before it
  double compile_ms = 0, min_ms = 0, median_ms = 0;  // of one run: forward, with gradients where they are asked for
  std::size_t peak_bytes = 0;
};
struct Comparison {
  std::vector<BackendResult> backends;  // the standard first, what was computed outside last
  UNROLL_API bool agrees() const;
};
// The first of `backends` is the standard; `judge` computes f64. Batches are the task's first ones, each a whole
// update.
UNROLL_API Comparison compare_task(const Task& task, std::span<Backend* const> backends, Backend& judge,
                                   const CompareOptions& options);

}  // namespace unroll
