// SPDX-License-Identifier: Apache-2.0
// Run a graph: plan it, compile it, and execute it with checked arguments.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "unroll/passes/backend.h"
#include "unroll/support/result.h"
#include "unroll/support/tensor.h"

namespace unroll {

UNROLL_API std::string_view precision_name(Precision precision);
UNROLL_API std::string_view weight_format_name(WeightFormat format);
// Parse a name. Throw Error(usage), which lists the known names.
UNROLL_API Precision precision_from_name(std::string_view name);
UNROLL_API WeightFormat weight_format_from_name(std::string_view name);

// make_backend, with errors as values.
UNROLL_API Result<std::unique_ptr<Backend>> try_make_backend(const std::string& name,
                                                             const BackendOptions& options = {}) noexcept;

struct PlanOptions {
  // Names of passes to skip, see pass_names(). For tests and `unroll explain`.
  std::vector<std::string> without = {};
  // Pairs of (output name, input name): the output may overwrite the buffer of the input.
  std::vector<std::pair<std::string, std::string>> donate = {};
  bool verify_each = false;  // run the verifier after every pass
  // plan() throws Error(unsupported) when the backend does not support the format.
  WeightFormat weights = WeightFormat::f32;
  Precision precision = Precision::f32;
  bool one_thread = false;  // run in the caller's thread, even if the backend has more
  // Maximum bytes of the plan (planned_bytes); 0: no limit. A plan above the limit saves only the states at segment
  // boundaries, about sqrt(T) steps apart, and recomputes the rest in the backward pass (gradient checkpointing). This
  // costs a second forward pass. If the plan is still above the limit, plan() throws Error(memory), which lists the
  // largest consumers.
  std::size_t memory_limit = 0;
  // If > 0, longer loops are cut into loops of at most this many steps, so that stacked layers can run in parallel.
  // Costs memory. Results agree within rounding, since matmuls of fewer rows may use another kernel. Packed loops
  // (lengths) stay whole.
  std::int64_t chunk_steps = 0;
};

// The passes in execution order.
UNROLL_API std::vector<std::string> pass_names();
// The graph after all passes, before memory is assigned. For tests, `print` and `explain`.
UNROLL_API std::shared_ptr<const Graph> lower(const Graph& graph, const Backend& backend,
                                              const PlanOptions& options = {});
UNROLL_API std::shared_ptr<const Plan> plan(const Graph& graph, const Backend& backend,
                                            const PlanOptions& options = {});

// Returns the bytes of a plan's inputs, constants, arena, and outputs with a separate buffer.
UNROLL_API std::size_t planned_bytes(const Plan& plan);

// A compiled plan. Inputs and outputs are bound by name and checked. A backend given as a pointer lives as long as the
// program; a run after the destruction of one given as a reference throws Error(usage).
class UNROLL_API Program {
 public:
  Program(const Graph& graph, BackendHandle backend, const PlanOptions& options = {});
  Program(Program&&) noexcept = default;
  ~Program();
  static Result<Program> try_create(const Graph& graph, BackendHandle backend,
                                    const PlanOptions& options = {}) noexcept;

  const Plan& plan() const { return *plan_; }
  Backend& backend() const { return backend_.get("Program"); }
  const Executable& executable() const { return *executable_; }
  // Returns the memory of a run before it starts: planned_bytes of the plan plus the executable's workspace.
  std::size_t peak_bytes() const { return planned_bytes(*plan_) + executable_->workspace_bytes(); }

  // Runs with tensors in host memory. Throws Error(usage) on a missing or unknown name and on invalid lengths, and
  // Error(shape|type) on a tensor of the wrong type.
  TensorMap run(const TensorMap& inputs);
  Result<TensorMap> try_run(const TensorMap& inputs) noexcept;
  // Runs with device buffers in plan order. Throws Error(usage) on a wrong number of buffers or a buffer that is too
  // small.
  void run(const Bindings& bindings);

 private:
  BackendHandle backend_;
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<Executable> executable_;
};

// Plans, compiles and runs a graph once.
UNROLL_API TensorMap evaluate(const Graph& graph, BackendHandle backend, const TensorMap& inputs,
                              const PlanOptions& options = {});

}  // namespace unroll
