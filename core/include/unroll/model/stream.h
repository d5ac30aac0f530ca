// SPDX-License-Identifier: Apache-2.0
// Streaming inference. A Stream owns the weights of a model and the state of its lanes. Each call processes one step or
// a chunk of steps. On the cpu backend a call allocates no memory. With one_thread it also takes no lock and stays in
// the caller's thread. Shapes: T steps, B lanes, I inputs, O outputs. All arrays are dense and row-major.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "unroll/model/model.h"
#include "unroll/passes/backend.h"
#include "unroll/passes/block_stream.h"
#include "unroll/passes/cxx_source.h"
#include "unroll/support/result.h"
#include "unroll/support/tensor.h"

namespace unroll {

// A causal model: its output at step t depends only on steps 0 .. t.
struct StreamModel {
  DType input = DType::f32;  // f32: x [T,B,I]; i32: ids [T,B]
  std::int64_t inputs = 0;   // I; ignored for ids
  // Returns the shapes of the states for a number of lanes, each f32 [slots, B, size]. A new stream starts from zeros.
  std::function<std::vector<Shape>(std::int64_t lanes)> state_shapes;
  // Returns y [T,B,O] and the states after the last step. The scope is not in training mode.
  std::function<CellLayerResult(Scope& scope, Value x, std::span<const Value> states)> build;
  // Any causal graph instead: inputs, state_shapes and build are not used, and B is 1. `whole` adds the graph of T
  // steps, with its one input and its outputs, to scope.graph(): see unroll/passes/block_stream.h. I and O are the
  // elements of a position of the input and the output.
  std::function<void(Scope& scope, std::int64_t T)> whole = {};
  BlockStreamOptions blocks = {};
};
// Returns the stream of recurrent layers; y is the output of the last layer. Throws Error(unsupported) for a
// bidirectional model, which needs future inputs.
UNROLL_API StreamModel recurrent_stream(const RecurrentModelOptions& options, std::int64_t inputs);
UNROLL_API StreamModel cell_stream(const CellFactory& cell, const RecurrentModelOptions& options, std::int64_t inputs);
// Returns the stream of a graph whose parameters are constants.
UNROLL_API StreamModel graph_stream(const GraphOfLength& graph_of, const BlockStreamOptions& options = {});

struct StreamOptions {
  std::int64_t lanes = 1;                   // B: independent sequences that advance together
  std::int64_t chunk = 1;                   // T: a call takes one step (or block), or T steps
  WeightFormat weights = WeightFormat::f32;  // see types.h for the loss of precision
  // False: the threads of the backend share each step. This is faster when the weights exceed the cache of one core.
  // Threads spin while they wait, and sleep between distant calls.
  bool one_thread = true;
};

struct SourceOptions {
  std::int64_t lanes = 1;  // B
  WeightFormat weights = WeightFormat::f32;
  std::string name = "Model";               // of the class
  std::string title = "A recurrent model";  // a comment at the top, one line
  bool separate_weights = false;            // write the weights to a separate binary file, which the class loads
};
// Generates a model as one C++17 header, see unroll/passes/cxx_source.h. Throws as a Stream does, and
// Error(unsupported) for a step that has no C++ form.
UNROLL_API CxxSource stream_source(const StreamModel& model, const TensorMap& parameters,
                                   const SourceOptions& options = {});

class UNROLL_API Stream {
 public:
  // Throws Error(input_file) when a parameter is missing, unused or of the wrong type; Error(unsupported) when the
  // backend does not support the weight format; Error(usage) on invalid options. Later calls do not throw unless
  // documented.
  Stream(BackendHandle backend, const StreamModel& model, const TensorMap& parameters,
         const StreamOptions& options = {});
  static Result<Stream> try_create(BackendHandle backend, const StreamModel& model, const TensorMap& parameters,
                                   const StreamOptions& options = {}) noexcept;
  ~Stream();
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;

  std::int64_t lanes() const;
  std::int64_t chunk() const;
  std::int64_t inputs() const;   // I; 1 for ids
  std::int64_t ids() const;      // ids are 0 .. ids() - 1; 0: the model reads no ids, or any
  std::int64_t outputs() const;  // O
  // For a graph (StreamModel::whole): steps of the shortest call P, rows of y for them R, rows of y at the start that
  // are no output, and steps that the output waits for. Other models have 1, 1, 0 and 0.
  std::int64_t block() const;
  std::int64_t rows() const;
  std::int64_t delay() const;
  std::int64_t look_ahead() const;

  // Returns the calls of one step with their times.
  std::vector<ReportLine> report() const;

  // Processes x [T,B,I] or ids [T,B] and writes y [T,B,O], or T R / P rows; T is block() or chunk(). Returns false, and
  // changes nothing, when a size or the kind of input is wrong, an id is out of range, or the device failed. Not
  // thread-safe.
  [[nodiscard]] bool step(std::span<const float> x, std::span<float> y) noexcept;
  [[nodiscard]] bool step(std::span<const std::int32_t> ids, std::span<float> y) noexcept;

  // Ends the sequence: takes its last steps, fewer than block(), appends the missing outputs to y, and resets the
  // stream. Returns false as step does.
  [[nodiscard]] bool finish(std::span<const float> x, std::vector<float>& y) noexcept;

  // Return all lanes, or one lane, to the start, where states are zero or as the graph says. Return false when the lane
  // does not exist or the device failed.
  bool reset() noexcept;
  bool reset(std::int64_t lane) noexcept;

  // Copies the states to tensors "state.0", "state.1", ...; of a graph also "blocks" f64 [], the number processed.
  TensorMap save() const;
  // Replaces the states. Throws Error(usage) on a missing or unknown name, and Error(type|shape) on a wrong type.
  void restore(const TensorMap& states);
  // Returns an independent stream in the same state. The packed weights are shared.
  Stream fork() const;

 private:
  struct Model;
  struct Run;
  explicit Stream(std::shared_ptr<const Model> model);
  bool step_bytes(DType dtype, std::span<const std::byte> x, std::span<float> y) noexcept;
  std::shared_ptr<const Model> model_;
  std::unique_ptr<Run> run_;
};

}  // namespace unroll
