// SPDX-License-Identifier: Apache-2.0
// Running inference: a Stream owns a model's weights and the state of its lanes and takes a step, or a chunk of steps,
// per call. On the cpu backend a call allocates nothing and, unless asked to share it out, takes no lock and stays in
// the caller's thread.
// Shapes: T steps, B lanes, I inputs, O outputs. All arrays are dense and row-major.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "unroll/backend.h"
#include "unroll/model.h"
#include "unroll/tensor.h"

namespace unroll {

// A model that can go step by step: its output at step t depends on steps 0 .. t alone.
struct StreamModel {
  DType input = DType::f32;  // f32: x [T,B,I]; i32: ids [T,B]
  std::int64_t inputs = 0;   // I; not read for ids
  // States at a number of lanes, each f32 [slots, B, size]; a new stream starts from zeros.
  std::function<std::vector<Shape>(std::int64_t lanes)> state_shapes;
  // y [T,B,O] and the states after the last step. The scope does not train.
  std::function<CellLayerResult(Scope& scope, Value x, std::span<const Value> states)> build;
};
// y is what the last layer returns. Throws Error(unsupported) for a bidirectional model, whose output needs the future.
UNROLL_API StreamModel recurrent_stream(const RecurrentModelOptions& options, std::int64_t inputs);
UNROLL_API StreamModel cell_stream(const CellFactory& cell, const CellLayerOptions& options, std::int64_t inputs);

struct StreamOptions {
  std::int64_t lanes = 1;                   // B independent sequences that step together
  std::int64_t chunk = 1;                   // T: a call takes one step, or this many
  WeightFormat weights = WeightFormat::f32;  // see backend.h for what is lost
  // False: the backend's threads share each step, which pays where weights do not fit the caches of one core. They wait
  // for each other by spinning and, between calls that are far apart, sleep on a lock.
  bool one_thread = true;
};

class UNROLL_API Stream {
 public:
  // All that can go wrong goes wrong here. Throws Error(input_file) when a parameter is missing, not used or of another
  // type than the model's, Error(unsupported) when the backend has no such weights, Error(usage) on the options.
  // The backend must outlive the stream.
  Stream(Backend& backend, const StreamModel& model, const TensorMap& parameters, const StreamOptions& options = {});
  ~Stream();
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;

  std::int64_t lanes() const;
  std::int64_t chunk() const;
  std::int64_t inputs() const;   // I, or 1 for ids
  std::int64_t outputs() const;  // O

  // What a step consists of.
  std::vector<ReportLine> report() const;

  // x [T,B,I] or ids [T,B], y [T,B,O], with T one or the chunk. False, and nothing has happened, when a size or the
  // kind of input is wrong or the device failed. One call at a time.
  [[nodiscard]] bool step(std::span<const float> x, std::span<float> y) noexcept;
  [[nodiscard]] bool step(std::span<const std::int32_t> ids, std::span<float> y) noexcept;

  // States to zero: of all lanes, of one. False when there is no such lane or the device failed.
  bool reset() noexcept;
  bool reset(std::int64_t lane) noexcept;

  // The states as tensors "state.0", "state.1", ...: to keep, to write to a file, to go back to.
  TensorMap save() const;
  // Throws Error(usage) on a missing or unknown name, Error(type | shape) on another type.
  void restore(const TensorMap& states);
  // A second stream in the same state, independent from here on; the packed weights are shared.
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
