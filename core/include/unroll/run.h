// SPDX-License-Identifier: Apache-2.0
// From a graph to numbers: plan, compile, and run with checked arguments.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "unroll/backend.h"
#include "unroll/tensor.h"

namespace unroll {

// In which numbers a graph of f32 is computed. Where a device has the format its units take it; elsewhere it is
// emulated exactly, so that results are the same.
//   role                                          f32   tf32  bf16  f16
//   operands of products (weights, activations,
//     gradients that enter a matmul)              f32   tf32  bf16  f16
//   sums of products, and all other arithmetic    f32   f32   f32   f32
//   parameters, slots, states, losses, gradients  f32   f32   f32   f32
// f16 reaches from 6e-8 to 65504: training scales the loss (LossScaleOptions).
enum class Precision : std::uint8_t { f32, tf32, bf16, f16 };
UNROLL_API std::string_view precision_name(Precision precision);
UNROLL_API Precision precision_from_name(std::string_view name);  // throws Error(usage) with the known names

struct PlanOptions {
  // Names of passes to leave out, for tests and `explain`: see pass_names().
  std::vector<std::string> without = {};
  // (output name, input name): the output may overwrite the input's buffer.
  std::vector<std::pair<std::string, std::string>> donate = {};
  bool verify_each = false;  // run the verifier after every pass
  // Throws Error(unsupported) from plan() when the backend does not keep weights so.
  WeightFormat weights = WeightFormat::f32;
  Precision precision = Precision::f32;
  bool one_thread = false;  // a run stays in the thread of its caller, whatever the backend has
  // Bytes that a plan may need (planned_bytes), 0 for any number. Beyond it, loops keep their states once per segment
  // of about sqrt(T) steps and compute the rest again when the gradient needs it, which costs a second forward pass.
  // Throws Error(memory) from plan() with the largest consumers when that is too much as well.
  std::size_t memory_limit = 0;
};

// The passes in the order in which they run.
UNROLL_API std::vector<std::string> pass_names();
// The passes' result before it is sized: for tests, print and explain.
UNROLL_API std::shared_ptr<const Graph> lower(const Graph& graph, const Backend& backend,
                                              const PlanOptions& options = {});
UNROLL_API std::shared_ptr<const Plan> plan(const Graph& graph, const Backend& backend,
                                            const PlanOptions& options = {});

// Bytes of a plan's inputs, outputs (but for those in their donors' buffers), constants and arena.
UNROLL_API std::size_t planned_bytes(const Plan& plan);

// A compiled plan with checked bindings by name.
class UNROLL_API Program {
 public:
  Program(const Graph& graph, Backend& backend, const PlanOptions& options = {});

  const Plan& plan() const { return *plan_; }
  Backend& backend() const { return backend_; }
  const Executable& executable() const { return *executable_; }
  // All that a run needs, known before it: planned_bytes of the plan and what the executable holds besides.
  std::size_t peak_bytes() const { return planned_bytes(*plan_) + executable_->workspace_bytes(); }

  // Host in, host out. Throws Error(usage) on a missing or unknown name and Error(shape|type) on a wrong tensor.
  TensorMap run(const TensorMap& inputs);
  // Device buffers in plan order; throws Error(usage) on a wrong count or a buffer that is too small.
  void run(const Bindings& bindings);

 private:
  Backend& backend_;
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<Executable> executable_;
};

// One-off: plan, compile and run.
UNROLL_API TensorMap evaluate(const Graph& graph, Backend& backend, const TensorMap& inputs,
                              const PlanOptions& options = {});

}  // namespace unroll
