// SPDX-License-Identifier: Apache-2.0
// Comparison of a model on several backends: outputs, gradients and training. If they differ, it finds the first node
// that differs. docs/numerics.md defines and derives the tolerances.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "unroll/passes/backend.h"
#include "unroll/passes/run.h"
#include "unroll/support/tensor.h"
#include "unroll/support/vfs.h"
#include "unroll/train/trainer.h"

namespace unroll {

// A node whose result differs from the reference result for the same inputs.
struct NodeFault {
  std::string node;   // "matmul of weight_hh_l0"
  std::string place;  // "step 3 of 100 of the scan of weight_hh_l0"; empty: outside all loops
  std::string value;  // "output 0 is 0.5 at [2,7] of f32[32,1024]; expected 0.25 for these operands, tolerance 3e-07"
  std::vector<std::int32_t> path;      // node number in the lowered graph, preceded by those of the enclosing loops
  // The node as a graph with inputs operand0 ... and outputs result0 ...; null for a loop whose states or stacked
  // outputs differ from the results of its own steps.
  std::shared_ptr<const Graph> graph;
  TensorMap tensors;                   // its inputs, and the computed results: "got.result0"

  UNROLL_API std::string text() const;
};
// Writes a fault for replay: node.txt has the graph, node.safetensors the tensors, with the text as metadata. Throws
// Error(storage).
UNROLL_API void save_fault(const NodeFault& fault, const std::string& folder, Vfs& vfs = disk());

// The result of node verification.
struct NodeCheck {
  std::int64_t nodes = 0;    // nodes verified; a node in a loop counts once per step
  std::int64_t unverified = 0; // nodes without observable operands: nodes of a packed loop that are not row-wise
  double tightest = 0;       // largest error / allowed error
  std::string skipped;       // the reason for skipping; empty: verification ran
  std::optional<NodeFault> fault;  // the first in execution order
};
// Runs the graph as planned for `tested`, with every value as an additional output. Recomputes each node in f64 on
// `verifier` from the operands that `tested` produced, so that errors in the operands do not count against the node.
UNROLL_API NodeCheck check_nodes(const Graph& graph, const TensorMap& inputs, Backend& tested, Backend& verifier,
                                 const PlanOptions& options = {}, const StageReport& stage = {});

// One result on two backends. Errors are relative L2 norms.
struct ResultCheck {
  std::string name;
  double achieved = 0;
  double allowed = 0;
  std::string worst;  // the element with the largest error
  bool agrees() const { return achieved <= allowed; }
};

// Results computed by another framework from the same inputs and parameters, under the names used here.
struct OutsideResults {
  std::string name, device;
  TensorMap results;
  double min_ms = 0, median_ms = 0;
};

struct CompareOptions {
  bool gradients = false;     // compare the gradients of the loss for every parameter
  std::int64_t updates = 0;   // training updates to compare
  std::int64_t timed_runs = 5;  // per backend, alternating; 0: no timing
  bool nodes = true;          // verify every node, even if all results agree
  TrainerOptions training;    // seed, precision, optimizer, schedule and limits; `stage` is called too
  TensorMap parameters;       // initial parameters; empty: initialize from the seed
  std::vector<OutsideResults> outside;
};
struct BackendResult {
  std::string backend, device;
  std::vector<ResultCheck> results;  // compared with the reference; empty for the reference
  double measured_rounding = 0;      // effect of f32 instead of f64 on the reference, if a tolerance needed it
  NodeCheck nodes;
  std::string difference;            // summary in one sentence; empty: results agree
  std::vector<double> losses;        // loss of each update, before the update
  double compile_ms = 0, min_ms = 0, median_ms = 0;  // per run: forward, plus gradients if requested
  std::size_t peak_bytes = 0;
};
struct Comparison {
  std::vector<BackendResult> backends;  // the reference first, outside results last
  UNROLL_API bool agrees() const;
};
// The first of `backends` is the reference; `verifier` computes in f64. Update i trains on batch i of the task.
UNROLL_API Comparison compare_task(const Task& task, std::span<Backend* const> backends, Backend& verifier,
                                   const CompareOptions& options);

}  // namespace unroll
